//! One command inside, joined to the host's standard streams.

use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use namzu_sandbox::client::{Ended, Event, Process, Stdin, Stream};
use namzu_sandbox::types::ExitStatus;
use namzu_sandbox::{Error, ErrorCode, Phase, Sandbox};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::failure::{Failure, local, of_stream};
use crate::output::{Output, SIGPIPE};
use crate::settings::Command;
use crate::signals::Signals;
use crate::stdio::{self, Gone, Writer, read_stdin};
use crate::terminal;

/// Ctrl-D.
const END_OF_TRANSMISSION: u8 = 4;

/// How long the worker may take to confirm a kill.
const KILL: Duration = Duration::from_secs(5);

/// Runs `command` to its end or until a signal, which kills it and everything it started.
///
/// `midline` says afterwards whether the command left standard error within a line.
///
/// # Errors
///
/// Whatever is not the command's own end: it did not start, ran too long, ran out of memory, its
/// sandbox was lost, its output could not be written, a signal came.
pub(crate) async fn run(
    sandbox: &Sandbox,
    command: &Command,
    signals: &mut Signals,
    out: Output,
    midline: &mut bool,
) -> Result<Ended, Failure> {
    let mut request = command.request.clone();
    if command.stdin {
        // Open, with nothing in it yet.
        request.stdin = Some(Vec::new());
    }
    if command.tty {
        request.pty = Some(terminal::size());
    }
    let mut process = signals.unless(sandbox.spawn(request)).await?;
    let ended = signals
        .unless(join(&mut process, command, out, midline))
        .await;
    if ended.is_err() {
        // Said rather than left to the drop: this program may be gone before a drop gets through.
        let _ = tokio::time::timeout(KILL, process.kill()).await;
    }
    let ended = ended?;
    judge(&ended, command)?;
    Ok(ended)
}

/// Tells an end that somebody else brought about from the command's own.
fn judge(ended: &Ended, command: &Command) -> Result<(), Error> {
    let (code, what) = if ended.timed_out {
        let limit = command.request.timeout.map(|time| format!(" ({time:?})"));
        (
            ErrorCode::ExecTimeout,
            format!(
                "the command ran longer than it may{}",
                limit.unwrap_or_default()
            ),
        )
    } else if ended.out_of_memory {
        (
            ErrorCode::OutOfMemory,
            "the command was killed for want of memory".to_owned(),
        )
    } else {
        return Ok(());
    };
    Err(Error::new(code, what).during(Phase::Exec))
}

/// Carries bytes both ways until the command ends.
async fn join(
    process: &mut Process,
    command: &Command,
    out: Output,
    midline: &mut bool,
) -> Result<Ended, Error> {
    // Raw only now that there is a terminal inside that the keys can go to. Given back when this
    // future is dropped, too.
    let raw = command.tty.then(terminal::Raw::enter).transpose();
    let _raw = raw.map_err(|err| local("setting the terminal to raw mode", err))?;
    let input = command
        .stdin
        .then(read_stdin)
        .transpose()
        .map_err(|err| of_stream("reading standard input", err))?;
    let feed = feed(process.take_stdin(), input, command.tty);
    tokio::select! {
        ended = drain(process, command.tty, out, midline) => ended,
        never = async { feed.await; pending().await } => never,
    }
}

/// Passes the host's input on; ends when the input does, or nobody reads it.
async fn feed(mut stdin: Stdin, input: Option<mpsc::Receiver<Bytes>>, tty: bool) {
    let Some(mut input) = input else { return };
    while let Some(bytes) = input.recv().await {
        // The command stopped reading; how it ends is told elsewhere.
        if stdin.write(&bytes).await.is_err() {
            return;
        }
    }
    if tty {
        // A terminal has no end of input but the key that asks for it.
        let _ = stdin.write(&[END_OF_TRANSMISSION]).await;
    }
    let _ = stdin.close().await;
}

/// Passes the command's output on until it ends.
async fn drain(
    process: &mut Process,
    tty: bool,
    out: Output,
    midline: &mut bool,
) -> Result<Ended, Error> {
    let mut stdout = Writer::stdout();
    // One queue for one place, so that what is seen there is in the order it came.
    let mut stderr = (!stdio::is_shared()).then(Writer::stderr);
    let mut unread = false;
    let mut resized = tty
        .then(|| signal(SignalKind::window_change()))
        .transpose()
        .map_err(|err| local("listening to the terminal's size", err))?;
    let ended = loop {
        let event = tokio::select! {
            event = process.next() => event?,
            () = changed(resized.as_mut()) => {
                process.resize(terminal::size()).await?;
                continue;
            }
        };
        let (stream, sent) = match event {
            Some(Event::Stdout(bytes) | Event::Pty(bytes)) => {
                (Stream::Stdout, stdout.send(bytes).await)
            }
            Some(Event::Stderr(bytes)) => {
                *midline = bytes.last().is_some_and(|byte| *byte != b'\n');
                match &mut stderr {
                    Some(stderr) => (Stream::Stderr, stderr.send(bytes).await),
                    None => (Stream::Stdout, stdout.send(bytes).await),
                }
            }
            Some(Event::Skipped { stream: _, bytes }) => {
                out.warn(format_args!("{bytes} bytes of output were lost"));
                continue;
            }
            Some(Event::End(ended)) => break ended,
            None => {
                return Err(Error::new(
                    ErrorCode::ProtocolViolation,
                    "the worker ended the command's stream without its end",
                )
                .during(Phase::Exec));
            }
        };
        match sent {
            Ok(()) => {}
            // As the kernel does to whoever writes into a pipe that nobody reads; whoever does
            // not take the hint, and goes on writing, is ended.
            Err(Gone::Reader) if stream == Stream::Stdout => {
                if unread {
                    process.kill().await?;
                } else {
                    process.signal(SIGPIPE).await?;
                }
                unread = true;
            }
            // Nobody hears what goes wrong: no reason to stop.
            Err(Gone::Reader) => {}
            Err(Gone::Failed(err)) => return Err(of_stream("writing the command's output", err)),
        }
    };
    for writer in [Some(stdout), stderr].into_iter().flatten() {
        if let Err(Gone::Failed(err)) = writer.finish().await {
            return Err(of_stream("writing the command's output", err));
        }
    }
    Ok(Ended {
        status: if unread {
            ExitStatus::Signal(SIGPIPE)
        } else {
            ended.status
        },
        ..ended
    })
}

async fn changed(resized: Option<&mut Signal>) {
    match resized {
        Some(resized) => drop(resized.recv().await),
        None => pending().await,
    }
}
