//! Runs a command to its end and keeps what it prints.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use namzu_core::{Error, ErrorCode, Phase, Result};
use namzu_types::{ExecRequest, ExitStatus};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::messages::Broken;
use crate::output::{Capture, Partial};
use crate::process::{Mode, overran, start};
use crate::worker::Worker;
use crate::{Ended, Event, ExecOutput, Process, Stream, Usage};

/// How long the end of a command is awaited after it was killed.
const KILLED: Duration = Duration::from_secs(5);

/// Starts a command and gathers it.
pub(crate) async fn exec(
    worker: &Worker,
    request: ExecRequest,
    cancel: Option<&CancellationToken>,
) -> Result<ExecOutput> {
    let process = match cancel {
        None => start(worker, request, Mode::Exec).await?,
        Some(token) => {
            // Dropping the start takes it back: the worker kills what nobody listens to.
            let start = start(worker, request, Mode::Exec);
            match token.run_until_cancelled(start).await {
                Some(started) => started?,
                None => return Err(cancelled()),
            }
        }
    };
    collect(process, cancel).await
}

/// Why a command is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Cancelled,
    Overdue,
}

enum Turn {
    Event(Result<Option<Event>, Broken>),
    Cancelled,
    Alarm,
}

/// Gathers the rest of a command.
pub(crate) async fn collect(
    mut process: Process,
    cancel: Option<&CancellationToken>,
) -> Result<ExecOutput> {
    let cap = process.cap();
    let (mut stdout, mut stderr) = (Capture::new(cap), Capture::new(cap));
    let mut stop = None;
    let mut alarm = process.overdue().map(|at| Box::pin(sleep_until(at)));
    let mut token = pin!(async {
        match cancel {
            Some(token) => token.cancelled().await,
            None => pending().await,
        }
    });
    let ended = loop {
        // Others get their turn, and the alarm its time, however fast the worker sends.
        tokio::task::coop::consume_budget().await;
        let turn = poll_fn(|cx| {
            if stop.is_none() && cancel.is_some() && token.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Turn::Cancelled);
            }
            if let Some(alarm) = &mut alarm
                && alarm.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(Turn::Alarm);
            }
            process.poll_next(cx).map(Turn::Event)
        })
        .await;
        let why = match turn {
            Turn::Event(event) => match process.explain(event).await? {
                Some(Event::Stdout(bytes) | Event::Pty(bytes)) => {
                    stdout.push(&bytes);
                    continue;
                }
                Some(Event::Stderr(bytes)) => {
                    stderr.push(&bytes);
                    continue;
                }
                Some(Event::Skipped { stream, bytes }) => {
                    match stream {
                        Stream::Stdout | Stream::Pty => stdout.skip(bytes),
                        Stream::Stderr => stderr.skip(bytes),
                    }
                    continue;
                }
                Some(Event::End(ended)) => break Some(ended),
                None => break None,
            },
            // Killed, and yet not ended within the time allowed.
            Turn::Alarm if stop.is_some() => break None,
            Turn::Alarm => Stop::Overdue,
            Turn::Cancelled => Stop::Cancelled,
        };
        stop = Some(why);
        process.kill_now();
        alarm = Some(Box::pin(sleep_until(Instant::now() + KILLED)));
    };
    // On the lane the worker sees no bytes, and off it not all that were printed need be sent.
    if let Some(end) = process.end().filter(|_| !process.on_lane()) {
        stdout.skip(end.stdout.saturating_sub(stdout.total()));
        stderr.skip(end.stderr.saturating_sub(stderr.total()));
    }
    let ended = ended.unwrap_or(Ended {
        status: ExitStatus::Signal(9),
        timed_out: false,
        out_of_memory: false,
        usage: Usage::default(),
    });
    let output = ExecOutput {
        status: ended.status,
        stdout: stdout.finish(),
        stderr: stderr.finish(),
        usage: ended.usage,
    };
    let err = match stop {
        Some(Stop::Cancelled) => cancelled(),
        _ if ended.timed_out || stop == Some(Stop::Overdue) => overran(),
        _ if ended.out_of_memory => {
            Error::new(ErrorCode::OutOfMemory, "the memory limit ended the command")
        }
        _ => return Ok(output),
    };
    Err(err.with_source(Partial(output)).during(Phase::Exec))
}

fn cancelled() -> Error {
    Error::new(ErrorCode::Cancelled, "the command was cancelled and killed").during(Phase::Exec)
}
