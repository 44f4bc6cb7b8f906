//! The backend: checks, plans, and hands over to the engine.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use namzu_core::egress::Wiring;
use namzu_core::janitor::Janitor;
use namzu_core::{Backend, Launched, Phase, Result};
use namzu_types::{
    Access, Capabilities, ControlReport, Controls, EgressCapabilities, EgressPolicy, Limits,
    SandboxId, SandboxInfo, SandboxSpec, Strength, Tier, Workspace,
};
use tokio::sync::OnceCell;

use crate::bubblewrap::channel::ChannelDoors;
use crate::bubblewrap::detach::StateDir;
use crate::bubblewrap::jail::NetworkJail;
use crate::bubblewrap::locate::{Bwrap, find};
use crate::bubblewrap::proof::Proven;
use crate::bubblewrap::view::View;
use crate::bubblewrap::workspace::HostWorkspace;
use crate::config::{Config, Engine, JAIL, NAME};
use crate::error::Error;
use crate::limits::{Means, disk_report};
use crate::probe;
use crate::seccomp::{self, Filters};

/// Makes sandboxes out of namespaces, by way of `bwrap`.
#[derive(Debug)]
pub struct ProcessBackend {
    pub(crate) bwrap: PathBuf,
    pub(crate) worker: Arc<OwnedFd>,
    pub(crate) seccomp: Filters,
    pub(crate) proven: Proven,
    pub(crate) means: Means,
    // Looked at once, when first needed.
    asked: OnceCell<Bwrap>,
    view: OnceLock<View>,
    swept: OnceCell<()>,
    pub(crate) janitor: Arc<Janitor>,
    /// It makes no sandboxes but jails like this.
    pub(crate) jail: Option<NetworkJail>,
    /// The worker serves the doors of sandboxes, with rights like these.
    pub(crate) channel: Option<ChannelDoors>,
}

/// What a specification comes to on this host.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    pub(crate) bwrap: &'a Bwrap,
    /// Absent for a private one.
    pub(crate) workspace: Option<HostWorkspace>,
    pub(crate) own_network: bool,
    pub(crate) controls: Controls,
}

impl ProcessBackend {
    /// Looks for what the engine needs. Starts nothing.
    ///
    /// # Errors
    ///
    /// `backend_not_available` for an engine that is not written yet, `host_unsupported` where
    /// there is no `bwrap` or the kernel's settings forbid what it does.
    pub fn new(config: &Config) -> Result<Self> {
        Self::make(config).map_err(|err| err.during(Phase::Configure))
    }

    fn make(config: &Config) -> Result<Self, Error> {
        match config.engine {
            Engine::Auto | Engine::Bubblewrap => {}
            other @ (Engine::Native | Engine::Seatbelt) => {
                return Err(Error::NotWritten(other.as_str()));
            }
        }
        let bwrap = find()?;
        if let Some(obstacle) = probe::obstacle() {
            return Err(obstacle);
        }
        let worker = namzu_worker_image::memfd().map_err(probe::no_memfd)?;
        Ok(Self {
            bwrap,
            janitor: Janitor::new(worker.try_clone().map_err(Error::Start)?),
            worker: Arc::new(worker),
            seccomp: Filters::new(),
            proven: Proven::default(),
            means: Means::find(),
            asked: OnceCell::new(),
            view: OnceLock::new(),
            swept: OnceCell::new(),
            jail: None,
            channel: None,
        })
    }

    /// One that confines the network of its commands and nothing else. It makes no sandboxes.
    ///
    /// # Errors
    ///
    /// Those of [`Self::new`].
    pub fn network_jail(jail: NetworkJail) -> Result<Self> {
        let mut backend = Self::new(&Config::default())?;
        backend.jail = Some(jail);
        Ok(backend)
    }

    /// The same, but for the egress boundary's doors, which the worker serves.
    #[doc(hidden)]
    #[must_use]
    pub fn with_channel_doors(mut self, doors: ChannelDoors) -> Self {
        self.channel = Some(doors);
        self
    }

    pub(crate) fn view(&self) -> &View {
        self.view.get_or_init(View::probe)
    }

    /// Removes what makers left that died together with their janitor. Once.
    pub(crate) async fn sweep_cgroups(&self) {
        let sweep = async {
            if let Some(cgroups) = &self.means.cgroups {
                cgroups.sweep().await;
            }
        };
        self.swept.get_or_init(|| sweep).await;
    }

    /// Judges a specification. Starts nothing but `bwrap --help`, and that once.
    pub(crate) async fn check(&self, spec: &SandboxSpec) -> Result<Checked<'_>, Error> {
        let bwrap = self
            .asked
            .get_or_try_init(|| Bwrap::ask(&self.bwrap))
            .await?;
        let own_network = match spec.egress_on(Tier::Process) {
            EgressPolicy::AllowAll => false,
            EgressPolicy::DenyAll | EgressPolicy::Static { .. } | EgressPolicy::Resolver { .. } => {
                true
            }
        };
        self.means.check(&spec.limits)?;
        if spec.limits.disk.is_some() && !bwrap.size {
            return Err(Error::Host {
                what: "its bwrap cannot limit the size of a file system".to_owned(),
                fix: "install bubblewrap 0.7 or newer, or drop the disk limit".to_owned(),
            });
        }
        let workspace = match &spec.workspace {
            Workspace::Private => None,
            Workspace::Host {
                path,
                access: Access::ReadWrite,
            } if spec.limits.disk.is_some() => {
                return Err(Error::DiskOfHost(path.clone()));
            }
            Workspace::Host { path, access } => Some(HostWorkspace::open(path, *access)?),
        };
        let controls = self.controls(spec, bwrap);
        Ok(Checked {
            bwrap,
            workspace,
            own_network,
            controls,
        })
    }

    fn controls(&self, spec: &SandboxSpec, bwrap: &Bwrap) -> Controls {
        let enforced = |mechanism: &str, detail: &str| {
            ControlReport::new(Strength::Enforced, mechanism, detail)
        };
        let workspace = match &spec.workspace {
            Workspace::Private => "private /workspace".to_owned(),
            Workspace::Host { path, access } => {
                let access = match access {
                    Access::ReadOnly => "read-only",
                    Access::ReadWrite => "read-write",
                };
                format!("{} {access} at /workspace", path.display())
            }
        };
        let mut controls = Controls {
            filesystem: enforced(
                "mount namespace",
                &format!("own root, the host's programs read-only, {workspace}"),
            ),
            network: network(&spec.egress_on(Tier::Process), spec),
            processes: enforced("PID, IPC and user namespaces", "the worker is PID 1"),
            memory: self.means.memory_report(&spec.limits),
            pids: self.means.pids_report(&spec.limits),
            cpu: self.means.cpu_report(&spec.limits),
            disk: disk_report(&spec.limits, &spec.workspace, bwrap.size),
            wall_clock: wall_clock(&spec.limits, spec.detach),
            syscalls: enforced("seccomp", seccomp::summary(&spec.workspace)),
        };
        if let Some(jail) = &self.jail {
            jail.report(spec, &mut controls);
        }
        controls
    }
}

fn network(policy: &EgressPolicy, spec: &SandboxSpec) -> ControlReport {
    // A network namespace is no wall to a socket that has a path, and neither is a read-only mount.
    let sockets = match &spec.workspace {
        Workspace::Private => "",
        Workspace::Host { .. } => "; unix sockets that lie in the host directory can be reached",
    };
    let (strength, mechanism, reached) = match policy {
        EgressPolicy::DenyAll => (Strength::Enforced, "network namespace", "nothing but `lo`"),
        EgressPolicy::Static { .. } | EgressPolicy::Resolver { .. } => (
            Strength::Enforced,
            "network namespace, egress boundary",
            "nothing but `lo`, where the host process listens and lets out what the policy allows",
        ),
        EgressPolicy::AllowAll => (
            Strength::None,
            "",
            "the host's network, its loopback services and abstract unix sockets included",
        ),
    };
    // Who holds them is who made it; it has no way out but them.
    let end = match policy {
        EgressPolicy::Static { .. } | EgressPolicy::Resolver { .. } if spec.detach => {
            "; when that process ends nothing leaves any more"
        }
        _ => "",
    };
    ControlReport::new(strength, mechanism, format!("{reached}{end}{sockets}"))
}

fn wall_clock(limits: &Limits, detach: bool) -> ControlReport {
    let Limits {
        command, lifetime, ..
    } = limits;
    let mut parts = Vec::new();
    if let Some(lifetime) = lifetime {
        parts.push(format!("sandbox {lifetime:?}"));
    }
    if let Some(command) = command {
        parts.push(format!("command {command:?}"));
    }
    if parts.is_empty() {
        return ControlReport::unasked();
    }
    let mechanism = match (lifetime, detach) {
        (Some(_), false) => "timers of the host and of PID 1",
        _ => "timer of PID 1, which nothing inside can put off",
    };
    ControlReport::new(Strength::Enforced, mechanism, parts.join(", "))
}

#[async_trait]
impl Backend for ProcessBackend {
    fn tier(&self) -> Tier {
        Tier::Process
    }

    fn name(&self) -> &str {
        match self.jail {
            Some(_) => JAIL,
            None => NAME,
        }
    }

    fn capabilities(&self) -> Capabilities {
        let sandbox = Capabilities {
            filesystem: Strength::Enforced,
            processes: Strength::Enforced,
            memory: self.means.memory(),
            pids: self.means.pids(),
            cpu: self.means.cpu(),
            disk: Strength::Enforced,
            lifetime: Strength::Enforced,
            syscalls: Strength::Enforced,
            egress: EgressCapabilities {
                deny_all: Strength::Enforced,
                allow_all: true,
                static_hosts: Strength::Enforced,
                resolver: Strength::Enforced,
            },
            host_workspace: true,
            read_only_workspace: true,
            detach: true,
            tunnels: true,
            layout: false,
        };
        match &self.jail {
            None => sandbox,
            Some(_) => Capabilities {
                filesystem: Strength::None,
                disk: Strength::None,
                egress: EgressCapabilities {
                    allow_all: false,
                    ..sandbox.egress
                },
                host_workspace: false,
                read_only_workspace: false,
                detach: false,
                ..sandbox
            },
        }
    }

    async fn plan(&self, spec: &SandboxSpec) -> Result<Controls> {
        let planned = async {
            let checked = self.check(spec).await?;
            self.prove(spec, &checked).await?;
            Ok(checked.controls)
        };
        planned.await.map_err(|err: Error| err.during(Phase::Plan))
    }

    async fn assess(&self, spec: &SandboxSpec) -> Result<Controls> {
        let checked = self.check(spec).await;
        Ok(checked.map_err(|err| err.during(Phase::Plan))?.controls)
    }

    async fn launch(&self, spec: &SandboxSpec, wiring: &Wiring) -> Result<Launched> {
        let launched = self.start(spec, wiring).await;
        launched.map_err(|err| err.during(Phase::Create))
    }

    async fn attach(&self, id: &SandboxId) -> Result<Launched> {
        let attached = async { StateDir::open()?.attach(id).await }.await;
        attached.map_err(|err| err.during(Phase::Connect))
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        let listed = async { StateDir::open()?.list().await }.await;
        listed.map_err(|err| err.during(Phase::Connect))
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        let destroyed = async { StateDir::open()?.destroy(id, None).await }.await;
        destroyed.map_err(|err| err.during(Phase::Destroy))
    }
}
