//! A sandbox that runs, whatever the backend.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use namzu_core::{Duplex, Error, ErrorCode, Launched, Phase, Receipt, Result, Teardown};
use namzu_egress::{Change, Explanation};
use namzu_types::{EgressPolicy, ExecRequest, SandboxId};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::outlet::{NetworkPolicy, Outlet};
use crate::process::{self, Mode};
use crate::self_test;
use crate::worker::{Obituary, Worker};
use crate::{
    Cursor, Deadlines, ExecOutput, Files, Process, ProcessInfo, Reach, Selector, Tunnel, collect,
    tunnel,
};

/// How often it is looked whether a sandbox has ended, by who waits for that.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// One live sandbox. Dropping it kills everything inside, unless it was made or found as detached.
#[derive(Debug)]
pub struct Sandbox {
    id: SandboxId,
    receipt: Receipt,
    workspace: String,
    worker: Worker,
    outlet: Arc<Outlet>,
    ending: Arc<Ending>,
}

/// Ends the sandbox, at the latest when dropped.
#[derive(Debug)]
struct Ending {
    teardown: Mutex<Box<dyn Teardown>>,
    /// It goes on without us.
    lives_on: AtomicBool,
    /// We end it ourselves, so that nobody waits for the teardown to ask how it ended.
    destroying: CancellationToken,
}

/// Whose sandbox it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Made here, and gone with its handle.
    Made,
    /// Made here, to outlive its handle once it is ready.
    MadeDetached,
    /// Found.
    Found,
}

/// What is needed to make a sandbox of what a backend launched.
pub(crate) struct Opening<'a> {
    pub(crate) receipt: Receipt,
    pub(crate) deadlines: &'a Deadlines,
    /// How long a command may run that does not say.
    pub(crate) command: Option<Duration>,
    pub(crate) origin: Origin,
    pub(crate) outlet: Outlet,
    /// The policy whose walls are to be tried from inside.
    pub(crate) verify: Option<&'a EgressPolicy>,
}

impl Ending {
    /// How it ended, as far as the backend knows.
    async fn obituary(&self) -> Option<Error> {
        let teardown = tokio::select! {
            biased;
            // Another call may be asking: it is no sign of a destroy.
            teardown = self.teardown.lock() => Some(teardown),
            () = self.destroying.cancelled() => None,
        };
        let known = teardown.and_then(|teardown| teardown.obituary());
        known.or_else(|| {
            self.destroying
                .is_cancelled()
                .then(|| Error::new(ErrorCode::SandboxLost, "the sandbox was destroyed"))
        })
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !*self.lives_on.get_mut() {
            self.teardown.get_mut().kill();
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // What still holds the worker, a `Process` say, must not think that it goes on.
        self.worker.close();
    }
}

impl Sandbox {
    /// Connects to what a backend launched. A failure takes down what was made here, detached or
    /// not: nobody has its name.
    pub(crate) async fn open(launched: Launched, opening: Opening<'_>) -> Result<Self> {
        let Opening {
            receipt,
            deadlines,
            command,
            origin,
            outlet,
            verify,
        } = opening;
        let ending = Arc::new(Ending {
            teardown: Mutex::new(launched.teardown),
            lives_on: AtomicBool::new(origin == Origin::Found),
            destroying: CancellationToken::new(),
        });
        // Weak: a `Process` that outlives its sandbox must not keep it alive.
        let weak = Arc::downgrade(&ending);
        let obituary: Obituary = Box::new(move || {
            let ending = weak.upgrade();
            Box::pin(async move {
                match ending {
                    Some(ending) => ending.obituary().await,
                    None => Some(Error::new(
                        ErrorCode::SandboxLost,
                        "the sandbox was dropped",
                    )),
                }
            })
        });
        let (connect, request) = (deadlines.connect, deadlines.request);
        let gate = launched.gate;
        let opened = async {
            let worker =
                Worker::connect(launched.channel, connect, request, command, obituary).await?;
            outlet.enter(gate, &worker, origin == Origin::Found).await?;
            if let Some(policy) = verify {
                self_test::run(&worker, &outlet, policy).await?;
            }
            Ok::<_, Error>(worker)
        };
        let worker = match opened.await {
            Ok(worker) => worker,
            Err(err) => {
                if origin != Origin::Found
                    && let Err(left) = ending.teardown.lock().await.destroy().await
                {
                    tracing::warn!(%left, "a sandbox that did not answer was not removed");
                }
                return Err(err);
            }
        };
        if origin == Origin::MadeDetached {
            ending.teardown.lock().await.release();
            ending.lives_on.store(true, Ordering::Relaxed);
        }
        Ok(Self {
            id: launched.id,
            receipt,
            workspace: launched.workspace,
            worker,
            outlet: Arc::new(outlet),
            ending,
        })
    }

    /// Its name.
    #[must_use]
    pub const fn id(&self) -> &SandboxId {
        &self.id
    }

    /// What is really enforced: what the sandbox was made with, and as its egress the kind of the
    /// policy that is in force now (see [`Self::set_network_policy`]).
    ///
    /// The network control says what holds whatever the policy is, so a change leaves it as it is, but for
    /// doors that could not be opened for it.
    #[must_use]
    pub fn receipt(&self) -> Receipt {
        let mut receipt = self.receipt.clone();
        receipt.egress = self.outlet.policy().kind;
        if let Some(lack) = self.outlet.lack() {
            let network = &mut receipt.controls.network.detail;
            *network = format!("{network}; {lack}");
        }
        receipt
    }

    /// The egress policy in force: its kind, and how often it was changed.
    #[must_use]
    pub fn network_policy(&self) -> NetworkPolicy {
        self.outlet.policy()
    }

    /// Puts another egress policy in force, for what is open as for what comes: a connection that it
    /// does not allow has been cut when this returns, and every other lives on untouched. What it
    /// allows works when this returns.
    ///
    /// Commands that are started from then on get the variables that the boundary sets; those that
    /// run keep theirs, and work where they ask by name, as every program does that knows no proxy.
    /// What can be given only at creation is the boundary's certificate authority: a sandbox that was
    /// made without a rule that ends TLS refuses one later.
    ///
    /// # Errors
    ///
    /// `unsupported` on a sandbox that was made with `allow-all` on the host's network, was found
    /// again, or whose backend cannot open doors; `config_invalid` with every reason, and the policy
    /// that was in force stays; `backend_failed`, `sandbox_lost`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the change: it goes through.
    pub async fn set_network_policy(&self, policy: EgressPolicy) -> Result<Change> {
        let outlet = Arc::clone(&self.outlet);
        // Of its own: a change that stopped half way would leave doors that nobody serves.
        let change = tokio::spawn(async move { outlet.set(&policy).await });
        let done = change.await.unwrap_or_else(|err| {
            Err(Error::new(ErrorCode::Internal, "the change of policy failed").with_source(err))
        });
        done.map_err(|err| err.during(Phase::Tunnel))
    }

    /// What the policy in force says to `host[:port]` (without a port: 443), without trying it.
    ///
    /// # Errors
    ///
    /// `invalid_argument` for what is no host; `unsupported` for a sandbox that was found again and
    /// whose policy only its maker knows.
    pub async fn explain(&self, authority: &str) -> Result<Explanation> {
        self.outlet.explain(authority).await
    }

    /// Waits until it has ended, and says how. It is looked every half second.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn ended(&self) -> Error {
        loop {
            if let Some(how) = self.ending.obituary().await {
                return how;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
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
        // Boxed: it is some twenty kilobytes, which every caller's own future would grow by.
        Box::pin(collect::exec(&self.worker, self.inside(request), None)).await
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
        Box::pin(collect::exec(
            &self.worker,
            self.inside(request),
            Some(cancel),
        ))
        .await
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
        process::start(&self.worker, self.inside(request), Mode::Owned).await
    }

    /// Starts a command that outlives its handle: it runs until it ends, is killed or the sandbox
    /// ends, and [`Self::attach`] finds it again.
    ///
    /// # Errors
    ///
    /// As [`Self::spawn`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the command running: give it a tag to find it by.
    pub async fn spawn_background(&self, request: ExecRequest) -> Result<Process> {
        process::start(&self.worker, self.inside(request), Mode::Background).await
    }

    /// The commands that run, and those that ended lately.
    ///
    /// # Errors
    ///
    /// `sandbox_lost`.
    pub async fn processes(&self) -> Result<Vec<ProcessInfo>> {
        process::list(&self.worker).await
    }

    /// Listens to a running command from `cursor` on. Dropping the handle leaves it running.
    ///
    /// # Errors
    ///
    /// `not_found`, `cursor_expired` (see [`oldest_cursor`](crate::oldest_cursor)).
    pub async fn attach(&self, selector: Selector, cursor: Cursor) -> Result<Process> {
        process::attach(&self.worker, selector, cursor).await
    }

    /// Sends a signal to a command, with `tree` to everything it started as well; gives back to
    /// how many processes.
    ///
    /// # Errors
    ///
    /// `not_found` where there is none or it ended, `invalid_argument` for no signal's number.
    pub async fn kill(&self, selector: Selector, signal: i32, tree: bool) -> Result<u32> {
        process::kill(&self.worker, selector, signal, tree).await
    }

    /// Its files.
    #[must_use]
    pub fn files(&self) -> Files<'_> {
        Files::new(&self.worker, &self.workspace)
    }

    /// Connects to a port on the loopback inside.
    ///
    /// # Errors
    ///
    /// `not_found` when nothing listens there.
    pub async fn expose(&self, port: u16) -> Result<Tunnel> {
        tunnel::expose(&self.worker, port).await
    }

    /// Opens a port on the loopback inside (0: any) whose connections `dial` answers on the host.
    ///
    /// # Errors
    ///
    /// `already_exists` when something else listens on the port.
    pub async fn reach<F, Fut, D>(&self, port: u16, dial: F) -> Result<Reach>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<D>> + Send + 'static,
        D: Duplex + 'static,
    {
        tunnel::reach(&self.worker, port, dial).await
    }

    /// Kills everything inside and removes every trace. Idempotent.
    ///
    /// # Errors
    ///
    /// `backend_failed` if something could not be removed.
    pub async fn destroy(&self) -> Result<()> {
        self.ending.destroying.cancel();
        let done = self.ending.teardown.lock().await.destroy().await;
        self.outlet.close().await;
        self.worker.close();
        done.map_err(|err| err.during(Phase::Destroy))
    }

    /// Makes a relative working directory relative to the workspace, as paths of files are, and adds
    /// the variables that the boundary has come to want.
    fn inside(&self, mut request: ExecRequest) -> ExecRequest {
        for (name, value) in &*self.outlet.late_env() {
            let entry = request.env.entry(name.clone());
            entry.or_insert_with(|| value.clone());
        }
        if let Some(cwd) = &mut request.cwd
            && Path::new(cwd).is_relative()
            && !cwd.starts_with('~')
        {
            *cwd = format!("{}/{cwd}", self.workspace);
        }
        request
    }
}
