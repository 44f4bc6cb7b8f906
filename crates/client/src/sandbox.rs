//! A sandbox that runs, whatever the backend.

use std::future::Future;
use std::io;

use namzu_core::{Duplex, Receipt, Result};
use namzu_types::{ExecRequest, SandboxId};
use tokio_util::sync::CancellationToken;

use crate::{Cursor, ExecOutput, Files, Process, ProcessInfo, Reach, Selector, Tunnel};

/// One live sandbox. Dropping it kills everything inside, unless it was made or found as detached.
#[derive(Debug)]
pub struct Sandbox {
    id: SandboxId,
    receipt: Receipt,
    workspace: String,
}

impl Sandbox {
    /// Its name.
    #[must_use]
    pub const fn id(&self) -> &SandboxId {
        &self.id
    }

    /// What is really enforced.
    #[must_use]
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Path of the workspace inside, the default working directory.
    #[must_use]
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    ///
    /// `command_not_started`, `exec_timeout` and `out_of_memory` (see
    /// [`partial_output`](crate::partial_output)), `sandbox_lost`. An exit code other than 0 is
    /// none.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the command and everything it started.
    pub async fn exec(&self, request: ExecRequest) -> Result<ExecOutput> {
        let _ = request;
        todo!()
    }

    /// Runs a command to its end or until `cancel`, which kills it and everything it started.
    ///
    /// # Errors
    ///
    /// As [`Self::exec`], and `cancelled`.
    ///
    /// # Cancel safety
    ///
    /// As [`Self::exec`].
    pub async fn exec_cancellable(
        &self,
        request: ExecRequest,
        cancel: &CancellationToken,
    ) -> Result<ExecOutput> {
        let _ = (request, cancel);
        todo!()
    }

    /// Starts a command that lives as long as its handle: dropping the [`Process`] kills it and
    /// everything it started. `stdin: Some` leaves standard input open after those bytes.
    ///
    /// # Errors
    ///
    /// `command_not_started`, `sandbox_lost`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills what was started.
    pub async fn spawn(&self, request: ExecRequest) -> Result<Process> {
        let _ = request;
        todo!()
    }

    /// Starts a command that outlives its handle: it runs until it ends, is killed or the sandbox
    /// ends, and [`Self::attach`] finds it again.
    ///
    /// # Errors
    ///
    /// As [`Self::spawn`].
    pub async fn spawn_background(&self, request: ExecRequest) -> Result<Process> {
        let _ = request;
        todo!()
    }

    /// The commands that run, and those that ended lately.
    ///
    /// # Errors
    ///
    /// `sandbox_lost`.
    pub async fn processes(&self) -> Result<Vec<ProcessInfo>> {
        todo!()
    }

    /// Listens to a running command from `cursor` on. Dropping the handle leaves it running.
    ///
    /// # Errors
    ///
    /// `not_found`, `cursor_expired`.
    pub async fn attach(&self, selector: Selector, cursor: Cursor) -> Result<Process> {
        let _ = (selector, cursor);
        todo!()
    }

    /// Sends a signal to a command, with `tree` to everything it started as well; gives back to
    /// how many processes.
    ///
    /// # Errors
    ///
    /// `not_found`, `invalid_argument` for no signal's number.
    pub async fn kill(&self, selector: Selector, signal: i32, tree: bool) -> Result<u32> {
        let _ = (selector, signal, tree);
        todo!()
    }

    /// Its files.
    #[must_use]
    pub fn files(&self) -> Files<'_> {
        todo!()
    }

    /// Connects to a port on the loopback inside.
    ///
    /// # Errors
    ///
    /// `not_found` when nothing listens there.
    pub async fn expose(&self, port: u16) -> Result<Tunnel> {
        let _ = port;
        todo!()
    }

    /// Opens a port on the loopback inside (0: any) whose connections `dial` answers on the host.
    ///
    /// # Errors
    ///
    /// `already_exists` when the port is taken.
    pub async fn reach<F, Fut, D>(&self, port: u16, dial: F) -> Result<Reach>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<D>> + Send + 'static,
        D: Duplex + 'static,
    {
        let _ = (port, dial);
        todo!()
    }

    /// Kills everything inside and removes every trace. Idempotent.
    ///
    /// # Errors
    ///
    /// `backend_failed` if something could not be removed.
    pub async fn destroy(&self) -> Result<()> {
        todo!()
    }
}
