//! One command, while it runs.

use std::time::SystemTime;

use bytes::Bytes;
use namzu_core::Result;
use namzu_types::{ExitStatus, PtySize};

use crate::{ExecOutput, Usage};

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

/// A command that runs.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    cursor: Cursor,
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
        self.cursor
    }

    /// The next thing it did; `None` after [`Event::End`].
    ///
    /// # Errors
    ///
    /// `sandbox_lost`, `protocol_violation`.
    ///
    /// # Cancel safety
    ///
    /// Safe: no byte is lost.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        todo!()
    }

    /// Writes all of `bytes` to its standard input or terminal.
    ///
    /// # Errors
    ///
    /// `not_found` once it ended, `invalid_argument` when it has no standard input.
    ///
    /// # Cancel safety
    ///
    /// A part may have been written.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let _ = bytes;
        todo!()
    }

    /// Its standard input, or the input of its terminal, apart from the handle, so that it can be
    /// fed while [`Self::next`] is awaited: a command that prints before it has read everything
    /// would block for ever otherwise. `None` when there is none or it was taken; [`Self::write`]
    /// and [`Self::close_stdin`] then fail with `invalid_argument`.
    ///
    /// The command line feeds every command this way.
    pub fn take_stdin(&mut self) -> Option<Stdin> {
        todo!()
    }

    /// Ends its standard input. Idempotent.
    ///
    /// # Errors
    ///
    /// `invalid_argument` on a terminal: send it a control character.
    pub async fn close_stdin(&mut self) -> Result<()> {
        todo!()
    }

    /// Sets the size of its terminal.
    ///
    /// # Errors
    ///
    /// `not_found` once it ended, `invalid_argument` when it has none.
    pub async fn resize(&mut self, size: PtySize) -> Result<()> {
        let _ = size;
        todo!()
    }

    /// Sends a signal to the command itself.
    ///
    /// # Errors
    ///
    /// `invalid_argument` for no signal's number.
    pub async fn signal(&mut self, signal: i32) -> Result<()> {
        let _ = signal;
        todo!()
    }

    /// Kills it and everything it started. Its end still comes by [`Self::next`].
    ///
    /// # Errors
    ///
    /// `sandbox_lost`.
    pub async fn kill(&mut self) -> Result<()> {
        todo!()
    }

    /// Ends its standard input and gathers the rest of its output, within the cap it was started
    /// with.
    ///
    /// # Errors
    ///
    /// `exec_timeout`, `out_of_memory`, `sandbox_lost`.
    ///
    /// # Cancel safety
    ///
    /// As dropping the process.
    pub async fn wait(self) -> Result<ExecOutput> {
        todo!()
    }
}

/// The standard input of a command, or the input of its terminal. Dropping it ends the input, as
/// [`Self::close`] does.
#[derive(Debug)]
pub struct Stdin {
    _private: (),
}

impl Stdin {
    /// Writes all of `bytes`; waits while the command does not read.
    ///
    /// # Errors
    ///
    /// `not_found` once nobody reads any more.
    ///
    /// # Cancel safety
    ///
    /// A part may have been written.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let _ = bytes;
        todo!()
    }

    /// Ends the input once everything is written. On a terminal it does nothing.
    ///
    /// # Errors
    ///
    /// `sandbox_lost`.
    pub async fn close(self) -> Result<()> {
        todo!()
    }
}
