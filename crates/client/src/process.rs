//! One command, while it runs.

mod input;
mod output;
mod stdin;
mod wire;

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use namzu_core::{Error, ErrorCode, Phase, Result};
use namzu_protocol::ext::{KillRequest, KillResponse};
use namzu_types::{ExitStatus, OutputCap, PtySize};
use tokio::time::{Instant, timeout_at};

use self::input::Input;
use self::output::Output;
pub use self::stdin::Stdin;
pub(crate) use self::wire::{Mode, attach, list, start};
use crate::messages::Broken;
use crate::worker::Worker;
use crate::{ExecOutput, Usage, collect};

/// Names one process inside a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// By the id the sandbox gave it.
    Pid(u32),
    /// By the tag of its [`ExecRequest`](namzu_types::ExecRequest).
    Tag(String),
}

/// How many bytes of each stream were seen already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Bytes of standard output.
    pub stdout: u64,
    /// Bytes of standard error.
    pub stderr: u64,
    /// Bytes of the terminal.
    pub pty: u64,
}

/// An output stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The terminal.
    Pty,
}

/// One process, as [`Sandbox::processes`](crate::Sandbox::processes) lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its id inside.
    pub pid: u32,
    /// Its tag.
    pub tag: Option<String>,
    /// Program and arguments, as text.
    pub argv: Vec<String>,
    /// Its working directory.
    pub cwd: Option<String>,
    /// When it started.
    pub started: Option<SystemTime>,
    /// How it ended, if it did: it stays listed for a while.
    pub exit: Option<ExitStatus>,
    /// Bytes it printed so far; `stderr` likewise. `pty` is not counted apart.
    pub printed: Cursor,
}

/// How a command ended, and what it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// The worker ended it because it ran longer than it may.
    pub timed_out: bool,
    /// The memory limit ended it.
    pub out_of_memory: bool,
    /// What it used.
    pub usage: Usage,
}

/// What a command does, in the order it did it on each stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes on standard output.
    Stdout(Bytes),
    /// Bytes on standard error.
    Stderr(Bytes),
    /// Bytes on the terminal.
    Pty(Bytes),
    /// Bytes that were printed and are gone.
    Skipped {
        /// Where.
        stream: Stream,
        /// How many.
        bytes: u64,
    },
    /// It ended. Nothing follows.
    End(Ended),
}

/// Who ends a command whose handle is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDrop {
    /// Its handle, with everything it started.
    Kill,
    /// Nobody.
    Leave,
}

/// A command that runs.
///
/// Dropping it kills the command and everything it started, if [`Sandbox::spawn`] made it; it
/// leaves it running if [`Sandbox::spawn_background`] or [`Sandbox::attach`] did.
///
/// [`Sandbox::spawn`]: crate::Sandbox::spawn
/// [`Sandbox::spawn_background`]: crate::Sandbox::spawn_background
/// [`Sandbox::attach`]: crate::Sandbox::attach
#[derive(Debug)]
pub struct Process {
    worker: Worker,
    pid: u32,
    output: Output,
    input: Input,
    on_drop: OnDrop,
    /// What [`Self::wait`] keeps.
    cap: OutputCap,
    /// When the worker must have ended it, if it may not run for ever.
    overdue: Option<Instant>,
}

impl Process {
    /// Its id inside the sandbox.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// How much of each stream [`Self::next`] gave out: where to attach again.
    #[must_use]
    pub const fn cursor(&self) -> Cursor {
        self.output.cursor()
    }

    /// The next thing it did; `None` after [`Event::End`].
    ///
    /// # Errors
    ///
    /// `sandbox_lost`, `protocol_violation`; `exec_timeout` when the worker has not ended it some
    /// seconds after its time was up. A command that the worker did end in time says so in
    /// [`Ended::timed_out`].
    ///
    /// # Cancel safety
    ///
    /// Safe: no byte is lost.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        let overdue = self.overdue.filter(|_| self.output.ended().is_none());
        // Before anything else: output that never ceases must not put it off.
        if overdue.is_some_and(|at| at <= Instant::now()) {
            self.kill_now();
            return Err(overran());
        }
        let next = poll_fn(|cx| self.poll_next(cx));
        let next = match overdue {
            None => next.await,
            Some(at) => match timeout_at(at, next).await {
                Ok(next) => next,
                Err(_) => {
                    self.kill_now();
                    return Err(overran());
                }
            },
        };
        self.explain(next).await
    }

    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Event>, Broken>> {
        // Input goes on while output is awaited: a command may need the one for the other.
        let _ = self.input.poll_feed(&self.worker, self.pid, cx);
        self.output.poll_next(cx)
    }

    pub(crate) async fn explain(
        &self,
        next: Result<Option<Event>, Broken>,
    ) -> Result<Option<Event>> {
        match next {
            Ok(event) => Ok(event),
            Err(broken) => Err(self.output.explain(&self.worker, broken).await),
        }
    }

    /// Kills its tree without waiting for the worker's word.
    pub(crate) fn kill_now(&self) {
        self.worker.kill_later(self.pid);
    }

    /// Writes all of `bytes` to its standard input or terminal.
    ///
    /// Waits while the command reads nothing. A command that cannot go on before its output is
    /// taken needs [`Self::next`] first.
    ///
    /// # Errors
    ///
    /// `not_found` once it ended, `invalid_argument` when it has no standard input or closed it.
    ///
    /// # Cancel safety
    ///
    /// A part may have been written.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.output.ended().is_some() {
            return Err(ended("and takes no input"));
        }
        self.input.write(&self.worker, self.pid, bytes).await
    }

    /// Ends its standard input. Idempotent.
    ///
    /// # Errors
    ///
    /// `invalid_argument` on a terminal: send it a control character.
    pub async fn close_stdin(&mut self) -> Result<()> {
        self.input.close(&self.worker, self.pid).await
    }

    /// Sets the size of its terminal.
    ///
    /// # Errors
    ///
    /// `not_found` once it ended, `invalid_argument` when it has none.
    pub async fn resize(&mut self, size: PtySize) -> Result<()> {
        if self.input.has_no_terminal() {
            let what = "the command has no terminal to resize";
            return Err(Error::new(ErrorCode::InvalidArgument, what).during(Phase::Exec));
        }
        input::resize(&self.worker, self.pid, size).await
    }

    /// Sends a signal to the command itself.
    ///
    /// # Errors
    ///
    /// `not_found` once it ended, `invalid_argument` for no signal's number.
    pub async fn signal(&mut self, signal: i32) -> Result<()> {
        if self.output.ended().is_some() {
            // Its number may be another's by now.
            return Err(ended("and gets no signal"));
        }
        kill(&self.worker, Selector::Pid(self.pid), signal, false)
            .await
            .map(drop)
    }

    /// Kills it and everything it started. Its end still comes by [`Self::next`]. Idempotent.
    ///
    /// # Errors
    ///
    /// `sandbox_lost`.
    pub async fn kill(&mut self) -> Result<()> {
        match kill(&self.worker, Selector::Pid(self.pid), 9, true).await {
            Err(err) if err.code() == ErrorCode::NotFound => Ok(()),
            done => done.map(drop),
        }
    }

    /// Ends its standard input and gathers the rest of its output, within the cap it was started
    /// with.
    ///
    /// # Errors
    ///
    /// `exec_timeout` and `out_of_memory` (see [`partial_output`](crate::partial_output)),
    /// `sandbox_lost`.
    ///
    /// # Cancel safety
    ///
    /// As dropping the process.
    pub async fn wait(mut self) -> Result<ExecOutput> {
        self.input.end_after_feed(&self.worker, self.pid);
        collect::collect(self, None).await
    }

    pub(crate) const fn cap(&self) -> OutputCap {
        self.cap
    }

    pub(crate) const fn overdue(&self) -> Option<Instant> {
        self.overdue
    }

    pub(crate) fn on_lane(&self) -> bool {
        self.output.on_lane()
    }

    /// How it ended, if it did.
    pub(crate) const fn end(&self) -> Option<&wire::End> {
        self.output.ended()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.output.ended().is_some() {
            return;
        }
        match self.on_drop {
            OnDrop::Kill => self.worker.kill_later(self.pid),
            // It lives on, with the input it was promised.
            OnDrop::Leave => {
                if let Some(rest) = self.input.rest(&self.worker, self.pid) {
                    self.worker.chore(rest);
                }
            }
        }
    }
}

/// Sends a signal to a command, or its whole tree.
pub(crate) async fn kill(
    worker: &Worker,
    selector: Selector,
    signal: i32,
    tree: bool,
) -> Result<u32> {
    // 64 is the last of Linux's signals.
    if !(1..=64).contains(&signal) {
        return Err(Error::new(
            ErrorCode::InvalidArgument,
            format!("{signal} is no signal's number"),
        )
        .during(Phase::Exec));
    }
    let (pid, tag) = match selector {
        Selector::Pid(pid) => (Some(pid), None),
        Selector::Tag(tag) => (None, Some(tag)),
    };
    let request = KillRequest {
        pid,
        tag,
        signal,
        tree,
    };
    let path = namzu_protocol::ext::KILL;
    let answer: KillResponse = worker
        .ext(Phase::Exec, "send a signal", path, &request)
        .await?;
    match answer.killed {
        // The worker still knows those that ended lately.
        0 => Err(ended("and gets no signal")),
        killed => Ok(killed),
    }
}

/// The error of a command that was killed for its time.
pub(crate) fn overran() -> Error {
    Error::new(
        ErrorCode::ExecTimeout,
        "the command ran longer than it may and was killed",
    )
    .during(Phase::Exec)
}

fn ended(so: &str) -> Error {
    let text = format!("the command has ended {so}");
    Error::new(ErrorCode::NotFound, text).during(Phase::Exec)
}

/// How long a command that somebody may run outlives its deadline before we stop waiting for the
/// worker's word.
pub(crate) const OVERDUE: Duration = Duration::from_secs(5);
