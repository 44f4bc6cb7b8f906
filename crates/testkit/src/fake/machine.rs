//! One simulated machine: its files, its commands, its worker's tasks.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use namzu_core::ErrorCode;
use namzu_core::types::{EgressPolicy, SandboxId, SandboxInfo, SandboxSpec, Tier};
use tokio::io::DuplexStream;
use tokio::task::JoinSet;

use crate::fake::Fault;
use crate::fake::net::Network;
use crate::fake::process::Process;
use crate::fake::route;
use crate::fake::tree::Tree;

/// Where the workspace is inside.
pub(crate) const WORKSPACE: &str = "/workspace";

/// A machine that runs, or ran.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) id: SandboxId,
    pub(crate) spec: SandboxSpec,
    fault: Option<Fault>,
    network: Arc<Network>,
    created: SystemTime,
    files: OnceLock<Arc<Mutex<Tree>>>,
    processes: Mutex<BTreeMap<u32, Arc<Process>>>,
    next_pid: AtomicU32,
    /// Everything that runs here; ends with the machine.
    tasks: Tasks,
    ended: OnceLock<ErrorCode>,
}

/// The tasks of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What ended need not be kept.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    fn abort(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .abort_all();
    }
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        self.spawn(async move {
            task.await;
        });
    }
}

impl Machine {
    pub(crate) fn new(id: SandboxId, spec: SandboxSpec, fault: Option<Fault>) -> Arc<Self> {
        let machine = Arc::new(Self {
            id,
            spec,
            fault,
            network: Arc::new(Network::new(fault)),
            created: SystemTime::now(),
            files: OnceLock::new(),
            processes: Mutex::default(),
            next_pid: AtomicU32::new(2),
            tasks: Tasks::default(),
            ended: OnceLock::new(),
        });
        if let Some(lifetime) = machine.spec.limits.lifetime
            && !machine.has(Fault::OutlivesItsLifetime)
        {
            let mortal = Arc::clone(&machine);
            machine.tasks.spawn(async move {
                tokio::time::sleep(lifetime).await;
                mortal.end(ErrorCode::LifetimeExceeded);
            });
        }
        machine
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    pub(crate) fn share_files_of(&self, other: &Self) {
        let _ = self.files.set(Arc::clone(other.shared_files()));
    }

    fn shared_files(&self) -> &Arc<Mutex<Tree>> {
        self.files.get_or_init(Arc::default)
    }

    pub(crate) fn files(&self) -> MutexGuard<'_, Tree> {
        self.shared_files()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn processes(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Process>>> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fresh_pid(&self) -> u32 {
        self.next_pid.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) const fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Its network.
    pub(crate) const fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Whether a connection to the world gets there by itself.
    pub(crate) fn is_open(&self) -> bool {
        match self.spec.egress_on(Tier::Microvm) {
            EgressPolicy::AllowAll => !self.has(Fault::BlocksEverything),
            EgressPolicy::DenyAll => self.has(Fault::LeaksNetwork),
            EgressPolicy::Static { .. } | EgressPolicy::Resolver { .. } => {
                self.has(Fault::LeaksPastTheDoors)
            }
        }
    }

    /// Speaks the worker's wire on one line.
    pub(crate) fn serve(self: &Arc<Self>, line: DuplexStream) {
        let machine = Arc::clone(self);
        self.tasks.spawn(async move {
            let tasks = machine.tasks.clone();
            let service = service_fn(move |request| {
                let machine = Arc::clone(&machine);
                async move { Ok::<_, Infallible>(route::answer(machine, request).await) }
            });
            // The client hangs up at any time: that is its right.
            let _ = http2::Builder::new(tasks)
                .initial_stream_window_size(1 << 20)
                .initial_connection_window_size(16 << 20)
                .max_concurrent_streams(1 << 14)
                .serve_connection(TokioIo::new(line), service)
                .await;
        });
    }

    /// Ends everything, for this reason. Idempotent.
    pub(crate) fn end(&self, why: ErrorCode) {
        let _ = self.ended.set(why);
        self.tasks.abort();
        self.processes().clear();
    }

    pub(crate) fn ended(&self) -> Option<ErrorCode> {
        self.ended.get().copied()
    }

    pub(crate) fn info(&self) -> SandboxInfo {
        SandboxInfo {
            id: self.id.clone(),
            tier: Tier::Microvm,
            backend: "fake".to_owned(),
            created: self.created,
            expires: self
                .spec
                .limits
                .lifetime
                .and_then(|lifetime| self.created.checked_add(lifetime)),
            labels: self.spec.labels.clone(),
        }
    }
}
