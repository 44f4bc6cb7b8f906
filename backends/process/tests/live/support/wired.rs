//! Sandboxes whose doors the test holds, in place of a boundary.

use std::fs;
use std::os::linux::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use namzu_backend_process::{Config, ProcessBackend};
use namzu_client::{Sandbox, SandboxProvider};
use namzu_core::egress::{Gate, OpenDoors, Wiring};
use namzu_core::{Backend, Launched, Result};
use namzu_types::{Capabilities, Controls, EgressPolicy, SandboxSpec, Tier};

use super::sh;

/// Puts a policy that needs doors and a wiring of the test's under what a provider asks for, and
/// keeps the gate from it.
#[derive(Debug)]
struct Tapped {
    backend: ProcessBackend,
    wiring: Wiring,
    gate: Mutex<Option<Gate>>,
}

#[async_trait]
impl Backend for Tapped {
    fn tier(&self) -> Tier {
        self.backend.tier()
    }

    fn name(&self) -> &str {
        self.backend.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    async fn plan(&self, spec: &SandboxSpec) -> Result<Controls> {
        self.backend.plan(spec).await
    }

    async fn launch(&self, spec: &SandboxSpec, _: &Wiring) -> Result<Launched> {
        let mut spec = spec.clone();
        if self.wiring.doors {
            spec.egress = Some(EgressPolicy::hosts(["example.com"]));
        }
        let mut launched = self.backend.launch(&spec, &self.wiring).await?;
        *self.gate.lock().unwrap() = launched.gate.take();
        Ok(launched)
    }
}

pub(crate) struct Wired {
    pub(crate) sandbox: Sandbox,
    pub(crate) gate: Arc<dyn OpenDoors>,
}

/// A wiring of nothing but doors.
pub(crate) fn doors() -> Wiring {
    Wiring {
        doors: true,
        ..Wiring::default()
    }
}

fn tapped(wiring: Wiring) -> (Arc<Tapped>, SandboxProvider) {
    let tapped = Arc::new(Tapped {
        backend: ProcessBackend::new(&Config::default()).expect("this host carries the tier"),
        wiring,
        gate: Mutex::default(),
    });
    let provider = SandboxProvider::new(
        Arc::clone(&tapped) as Arc<dyn Backend>,
        SandboxSpec::default(),
    );
    (tapped, provider)
}

/// A provider of sandboxes in which a helper stands ready to open doors.
pub(crate) fn provider_with_doors() -> SandboxProvider {
    tapped(doors()).1
}

pub(crate) async fn wired(spec: SandboxSpec, wiring: Wiring) -> Wired {
    let (tapped, provider) = tapped(wiring);
    let sandbox = provider.create(spec).await.expect("a sandbox");
    let Some(Gate::Sockets(gate)) = tapped.gate.lock().unwrap().take() else {
        panic!("no gate");
    };
    Wired { sandbox, gate }
}

/// What this host shows of a sandbox's network.
#[derive(Debug)]
pub(crate) struct Host {
    network: u64,
    processes: u64,
}

impl Host {
    pub(crate) async fn of(sandbox: &Sandbox) -> Self {
        let said = sh(sandbox, "stat -Lc %i /proc/self/ns/net /proc/self/ns/pid")
            .await
            .ok();
        let mut inodes = said.lines().map(|line| line.parse().unwrap());
        Self {
            network: inodes.next().unwrap(),
            processes: inodes.next().unwrap(),
        }
    }

    /// Processes that are in its network and not in it.
    pub(crate) fn helpers(&self) -> usize {
        let inode = |process: &Path, kind| {
            fs::metadata(process.join("ns").join(kind)).map(|found| found.st_ino())
        };
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                inode(path, "net").is_ok_and(|net| net == self.network)
                    && inode(path, "pid").is_ok_and(|pid| pid != self.processes)
            })
            .count()
    }

    /// Waits until `so` many are, where this user may look at them at all: they can be traced by
    /// nobody, and only root sees more than that they are there.
    pub(crate) async fn helpers_if_visible(&self, so: impl Fn(usize) -> bool) {
        if rustix::process::geteuid().is_root() {
            while !so(self.helpers()) {
                tokio::task::yield_now().await;
            }
        }
    }
}
