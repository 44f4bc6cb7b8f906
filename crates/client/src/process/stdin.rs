//! A command's input, apart from its handle.

use namzu_core::Result;

use super::Process;
use super::input::Input;
use crate::worker::Worker;

/// The standard input of a command, or the input of its terminal: see [`Process::take_stdin`].
///
/// Dropping it leaves the input of a terminal open, and ends standard input where the sandbox
/// shares this machine; only [`Self::close`] ends it everywhere.
#[derive(Debug)]
pub struct Stdin {
    worker: Worker,
    pid: u32,
    input: Input,
}

impl Process {
    /// Takes its input out of the handle, so that it can be fed while [`Self::next`] is awaited:
    /// a command that prints before it has read everything would block for ever otherwise.
    ///
    /// [`Self::write`] and [`Self::close_stdin`] find no standard input afterwards; a terminal takes
    /// input from both.
    pub fn take_stdin(&mut self) -> Stdin {
        Stdin {
            worker: self.worker.clone(),
            pid: self.pid,
            input: self.input.take(),
        }
    }
}

impl Stdin {
    /// Writes all of `bytes`; waits while the command reads nothing.
    ///
    /// # Errors
    ///
    /// As [`Process::write`].
    ///
    /// # Cancel safety
    ///
    /// A part may have been written.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.input.write(&self.worker, self.pid, bytes).await
    }

    /// Ends it. Idempotent.
    ///
    /// # Errors
    ///
    /// As [`Process::close_stdin`].
    pub async fn close(&mut self) -> Result<()> {
        self.input.close(&self.worker, self.pid).await
    }
}
