//! A backend in memory: no process, no kernel, the same wire.
//!
//! It serves two ends. The suite is tested on it: on a good one every case passes, and on one with
//! a [`Fault`] the case that is there to find it fails. And code that uses sandboxes can be tested
//! on it without any: it knows a shell's simplest commands (`echo`, `cat`, `printf`, `env`,
//! `sleep`, `exit` …), keeps files, and forgets everything in the end.
//!
//! What needs a kernel (terminals, watches, tar streams, tunnels, system calls) it does not have,
//! and says so.

mod fault;
mod files;
mod machine;
mod net;
mod process;
mod reply;
mod route;
mod rpc;
mod shell;
mod tree;
mod words;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use namzu_core::egress::{Gate, OpenDoors, Wiring};
use namzu_core::types::{
    Capabilities, ControlReport, Controls, EgressCapabilities, EgressPolicy, SandboxId,
    SandboxInfo, SandboxSpec, Strength, Tier,
};
use namzu_core::{
    Backend, Channel, DuplexChannel, Error, ErrorCode, Launched, Phase, Result, Teardown,
};

pub use self::fault::Fault;
use self::machine::{Machine, WORKSPACE};

/// Bytes that may be under way on the line to a simulated worker.
const LINE: usize = 256 << 10;

/// A backend in memory. Cloning shares its sandboxes.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    fault: Option<Fault>,
    machines: Arc<Mutex<BTreeMap<SandboxId, Arc<Machine>>>>,
}

impl Fake {
    /// One that keeps its word.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One with this fault, to see whether it is found.
    #[must_use]
    pub fn broken(fault: Fault) -> Self {
        Self {
            fault: Some(fault),
            ..Self::default()
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn find(&self, id: &SandboxId) -> Option<Arc<Machine>> {
        let machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        machines.get(id).cloned()
    }

    fn forget(&self, id: &SandboxId) {
        if self.has(Fault::StaysListed) {
            return;
        }
        self.machines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id);
    }

    fn controls(&self, spec: &SandboxSpec) -> Controls {
        let simulated =
            |detail: &str| ControlReport::new(Strength::Enforced, "simulated", detail.to_owned());
        let asked = |wanted: bool| {
            if wanted {
                simulated("as asked")
            } else {
                ControlReport::NONE
            }
        };
        Controls {
            filesystem: simulated("in memory"),
            network: asked(match spec.egress_on(Tier::Microvm) {
                EgressPolicy::DenyAll => true,
                EgressPolicy::AllowAll => false,
                EgressPolicy::Static { .. } | EgressPolicy::Resolver { .. } => {
                    !self.has(Fault::DisownsItsWall)
                }
            }),
            processes: simulated("in memory"),
            memory: asked(spec.limits.memory.is_some()),
            pids: asked(spec.limits.processes.is_some()),
            wall_clock: simulated("commands and lifetime"),
            syscalls: asked(self.has(Fault::ClaimsAFilter)),
            ..Controls::default()
        }
    }

    /// `ours`: it ends with the handle, until that is released.
    fn launched(&self, machine: Arc<Machine>, ours: bool) -> Launched {
        let (here, there) = tokio::io::duplex(LINE);
        machine.serve(there);
        let guarded = machine.spec.egress_on(Tier::Microvm) != EgressPolicy::AllowAll;
        let gate = Arc::clone(machine.network()) as Arc<dyn OpenDoors>;
        Launched {
            // Only its maker holds what leads inside.
            gate: (ours && guarded && !self.has(Fault::HasNoGate)).then_some(Gate::Sockets(gate)),
            id: machine.id.clone(),
            channel: Channel::Duplex(DuplexChannel::private(here)),
            controls: self.controls(&machine.spec),
            workspace: WORKSPACE.to_owned(),
            egress: Some(machine.spec.egress_on(Tier::Microvm).kind().to_owned()),
            labels: machine.spec.labels.clone(),
            teardown: Box::new(End {
                fake: self.clone(),
                machine,
                ours,
            }),
        }
    }
}

#[async_trait]
impl Backend for Fake {
    fn tier(&self) -> Tier {
        // The nearest: a machine of its own, that shares nothing with the host.
        Tier::Microvm
    }

    fn name(&self) -> &str {
        "fake"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            filesystem: Strength::Enforced,
            processes: Strength::Enforced,
            memory: Strength::Enforced,
            pids: Strength::Enforced,
            lifetime: Strength::Enforced,
            egress: EgressCapabilities {
                deny_all: Strength::Enforced,
                allow_all: true,
                static_hosts: Strength::Enforced,
                resolver: Strength::Enforced,
            },
            detach: true,
            ..Capabilities::NONE
        }
    }

    async fn plan(&self, spec: &SandboxSpec) -> Result<Controls> {
        let mut controls = self.controls(spec);
        // The lie is told by what runs, not by the plan.
        controls.syscalls = ControlReport::NONE;
        Ok(controls)
    }

    async fn launch(&self, spec: &SandboxSpec, wiring: &Wiring) -> Result<Launched> {
        let mut spec = spec.clone();
        for (name, value) in &wiring.env {
            let entry = spec.env.entry(name.clone());
            entry.or_insert_with(|| value.clone());
        }
        let mut id = spec
            .id
            .clone()
            .ok_or_else(|| Error::new(ErrorCode::Internal, "launch a sandbox without a name"))?;
        if self.has(Fault::IgnoresId) {
            id = "always-the-same".parse().unwrap_or(id);
        }
        let machine = Machine::new(id.clone(), spec, self.fault);
        if self.has(Fault::SharesFiles)
            && let Some(other) = self
                .machines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .values()
                .next()
        {
            machine.share_files_of(other);
        }
        self.machines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, Arc::clone(&machine));
        Ok(self.launched(machine, true))
    }

    async fn attach(&self, id: &SandboxId) -> Result<Launched> {
        match self.find(id) {
            Some(machine) if machine.spec.detach => Ok(self.launched(machine, false)),
            _ => Err(
                Error::new(ErrorCode::NotFound, format!("no sandbox is named `{id}`"))
                    .during(Phase::Connect),
            ),
        }
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        let machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(machines
            .values()
            .filter(|machine| machine.spec.detach)
            .map(|machine| machine.info())
            .collect())
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        if let Some(machine) = self.find(id) {
            machine.end(ErrorCode::SandboxLost);
            self.forget(id);
        }
        Ok(())
    }
}

/// Ends one simulated machine.
#[derive(Debug)]
struct End {
    fake: Fake,
    machine: Arc<Machine>,
    ours: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        if self.ours {
            self.kill();
        }
    }
}

#[async_trait]
impl Teardown for End {
    async fn destroy(&mut self) -> Result<()> {
        if self.fake.has(Fault::HangsOnDestroy) {
            std::future::pending::<()>().await;
        }
        self.machine.end(ErrorCode::SandboxLost);
        self.fake.forget(&self.machine.id);
        Ok(())
    }

    fn kill(&mut self) {
        self.machine.end(ErrorCode::SandboxLost);
        self.fake.forget(&self.machine.id);
    }

    fn release(&mut self) {
        if self.machine.spec.detach {
            self.ours = false;
        }
    }

    fn obituary(&self) -> Option<Error> {
        let code = self.machine.ended()?;
        Some(Error::new(code, "the simulated machine was ended"))
    }
}
