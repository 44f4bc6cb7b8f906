//! Makes sandboxes on one backend.

use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use namzu_core::{
    Backend, Error, ErrorCode, Guarded, Phase, Receipt, Result, SandboxEnvironment, backend_label,
};
use namzu_egress::{Boundary, Explanation};
use namzu_types::{
    Capabilities, Controls, EgressPolicy, Limits, SandboxId, SandboxInfo, SandboxSpec, Tier,
    Workspace,
};

use crate::Sandbox;
use crate::outlet::{self, Outlet, SharedBoundary, needs_doors};
use crate::sandbox::{Opening, Origin};

/// Makes sandboxes on one backend, with defaults for what a request leaves out.
#[derive(Clone, Debug)]
pub struct SandboxProvider {
    backend: Arc<Guarded<Arc<dyn Backend>>>,
    defaults: Arc<SandboxSpec>,
    id: String,
    name: String,
    deadlines: Deadlines,
    boundary: SharedBoundary,
}

/// The egress of a sandbox whose backend keeps no record; the report of the control says what holds.
const UNKNOWN: &str = "unknown";

/// How long each step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From the request to a sandbox that accepts commands: `create_timeout`.
    pub create: Duration,
    /// Until a worker that is said to run answers: `connect_timeout`.
    pub connect: Duration,
    /// One call to the worker that runs nothing, or one piece of a transfer: `request_timeout`.
    pub request: Duration,
}

impl Default for Deadlines {
    /// 60 s to create, 10 s to connect, 60 s for a call.
    fn default() -> Self {
        Self {
            create: Duration::from_secs(60),
            connect: Duration::from_secs(10),
            request: Duration::from_secs(60),
        }
    }
}

impl SandboxProvider {
    /// Sandboxes on `backend`, which never sees what it did not declare; `defaults` fills what a
    /// request leaves out.
    ///
    /// A request overrides each default by a value of its own: limit by limit, variable by variable,
    /// label by label. Four things have no value that says "not that default": a request for
    /// [`Workspace::Private`] or without `detach` or `verify_egress` is one that says nothing, and
    /// `require` adds up. A default host directory, detaching, test or requirement therefore holds for every sandbox of the
    /// provider.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>, defaults: SandboxSpec) -> Self {
        let (tier, name) = (backend.tier(), backend.name());
        Self {
            id: format!("namzu-{tier}-{name}"),
            name: format!("@namzu/sandbox: {}", backend_label(tier, name)),
            backend: Arc::new(Guarded(backend)),
            defaults: Arc::new(defaults),
            deadlines: Deadlines::default(),
            boundary: SharedBoundary::default(),
        }
    }

    /// Lets what leaves its sandboxes go through `boundary`. Without it the first policy that lets
    /// something out sets up one that resolves names as the host does.
    #[must_use]
    pub fn with_boundary(mut self, boundary: Boundary) -> Self {
        self.boundary = boundary.into();
        self
    }

    /// Sets the label in [`Self::name`], e.g. `process:auto`.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.name = format!("@namzu/sandbox: {}", label.into());
        self
    }

    /// Sets the deadlines.
    #[must_use]
    pub const fn with_deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// `namzu-<tier>-<backend>`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `@namzu/sandbox: <label>`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of environment, as the SDK names it.
    #[must_use]
    pub fn environment(&self) -> &'static str {
        SandboxEnvironment::of(&self.label()).as_str()
    }

    /// The tier.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.backend.tier()
    }

    /// What the backend can hold and do on this host, at best.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    /// Says what a sandbox made from `spec` would get. Leaves nothing running: at most it tries out
    /// once whether this host can hold one at all.
    ///
    /// # Errors
    ///
    /// `unsupported` with every reason, `host_unsupported`, `config_invalid`.
    pub async fn plan(&self, spec: &SandboxSpec) -> Result<Receipt> {
        let spec = merge(spec.clone(), &self.defaults);
        let plan = async {
            let controls = self.backend.plan(&spec).await?;
            self.check_egress(&spec.egress_on(self.tier()))?;
            Ok(controls)
        };
        let controls = plan.await.map_err(|err| self.locate(err, Phase::Plan))?;
        Ok(self.receipt(&spec, controls))
    }

    fn check_egress(&self, policy: &EgressPolicy) -> Result<()> {
        if needs_doors(policy) {
            self.boundary.get()?.check(policy)?;
        }
        Ok(())
    }

    /// What `policy` says to `host[:port]` (without a port: 443). Tries nothing and needs no sandbox;
    /// the provider of a resolver's list is asked.
    ///
    /// # Errors
    ///
    /// `invalid_argument` for what is no host; `config_invalid` with every reason.
    pub async fn explain(&self, policy: &EgressPolicy, authority: &str) -> Result<Explanation> {
        outlet::explain(&self.boundary, policy, authority, 1).await
    }

    /// Makes a sandbox that accepts commands.
    ///
    /// # Errors
    ///
    /// Those of [`Self::plan`], `create_timeout`, `connect_timeout`, `backend_failed`. Nothing is
    /// left behind.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn create(&self, spec: SandboxSpec) -> Result<Sandbox> {
        let mut spec = merge(spec, &self.defaults);
        let id = spec.id.clone().map_or_else(fresh_id, Ok)?;
        spec.id = Some(id.clone());
        let make = async {
            let policy = spec.egress_on(self.tier());
            if needs_doors(&policy) {
                // Before secrets are read and a resolver is asked for what is refused anyway.
                self.backend.assess(&spec).await?;
                self.check_egress(&policy)?;
            }
            let (outlet, wiring) = Outlet::of_new(id, &self.boundary, &spec, &policy).await?;
            let launched = self.backend.launch(&spec, &wiring).await?;
            let receipt = self.receipt(&spec, launched.controls.clone());
            let origin = if spec.detach {
                Origin::MadeDetached
            } else {
                Origin::Made
            };
            let opening = Opening {
                receipt,
                deadlines: &self.deadlines,
                command: spec.limits.command,
                origin,
                outlet,
                verify: spec.verify_egress.then_some(&policy),
            };
            Sandbox::open(launched, opening).await
        };
        let code = ErrorCode::CreateTimeout;
        within(
            self.deadlines.create,
            code,
            "the sandbox was not ready",
            make,
        )
        .await
        .map_err(|err| self.locate(err, Phase::Create))
    }

    /// Finds a sandbox that outlived its maker. Dropping it leaves it alive.
    ///
    /// # Errors
    ///
    /// `not_found`, `connect_timeout`, `unsupported` where nothing outlives its maker.
    pub async fn connect(&self, id: &SandboxId) -> Result<Sandbox> {
        let find = async {
            let launched = self.backend.attach(id).await?;
            let receipt = Receipt {
                tier: self.tier(),
                backend: self.label(),
                egress: launched
                    .egress
                    .clone()
                    .unwrap_or_else(|| UNKNOWN.to_owned()),
                controls: launched.controls.clone(),
                labels: launched.labels.clone(),
            };
            let outlet = Outlet::of_found(id.clone(), &self.boundary, &receipt.egress);
            let opening = Opening {
                receipt,
                deadlines: &self.deadlines,
                command: self.defaults.limits.command,
                origin: Origin::Found,
                outlet,
                verify: None,
            };
            Sandbox::open(launched, opening).await
        };
        let code = ErrorCode::ConnectTimeout;
        within(
            self.deadlines.connect,
            code,
            "the sandbox was not reached",
            find,
        )
        .await
        .map_err(|err| self.locate(err, Phase::Connect))
    }

    /// The sandboxes that can be found again.
    ///
    /// # Errors
    ///
    /// `backend_failed`.
    pub async fn list(&self) -> Result<Vec<SandboxInfo>> {
        self.backend
            .list()
            .await
            .map_err(|err| err.on(&self.label()))
    }

    /// Takes a sandbox down by name. Idempotent.
    ///
    /// # Errors
    ///
    /// `backend_failed`.
    pub async fn destroy(&self, id: &SandboxId) -> Result<()> {
        self.backend
            .destroy(id)
            .await
            .map_err(|err| self.locate(err, Phase::Destroy))
    }

    fn label(&self) -> String {
        backend_label(self.tier(), self.backend.name())
    }

    fn locate(&self, err: Error, phase: Phase) -> Error {
        err.during(phase).on(&self.label())
    }

    fn receipt(&self, spec: &SandboxSpec, controls: Controls) -> Receipt {
        Receipt {
            tier: self.tier(),
            backend: self.label(),
            egress: spec.egress_on(self.tier()).kind().to_owned(),
            controls,
            labels: spec.labels.clone(),
        }
    }
}

/// Runs `step` against a deadline.
pub(crate) async fn within<T>(
    limit: Duration,
    code: ErrorCode,
    what: &str,
    step: impl Future<Output = Result<T>>,
) -> Result<T> {
    // Boxed: the futures of a backend are large, and this is no hot path.
    match tokio::time::timeout(limit, Box::pin(step)).await {
        Ok(done) => done,
        Err(_) => Err(Error::new(code, format!("{what} within {limit:?}"))),
    }
}

/// Fills what `spec` leaves out. Exhaustive: a new field does not compile until it is decided.
fn merge(spec: SandboxSpec, defaults: &SandboxSpec) -> SandboxSpec {
    let SandboxSpec {
        id,
        workspace,
        egress,
        limits,
        env,
        labels,
        require,
        detach,
        verify_egress,
    } = spec;
    let Limits {
        memory,
        processes,
        cpus,
        disk,
        command,
        lifetime,
    } = limits;
    let other = &defaults.limits;
    let mut merged_env = defaults.env.clone();
    merged_env.extend(env);
    let mut merged_labels = defaults.labels.clone();
    merged_labels.extend(labels);
    let mut merged_require = require;
    for control in &defaults.require {
        if !merged_require.contains(control) {
            merged_require.push(*control);
        }
    }
    SandboxSpec {
        id: id.or_else(|| defaults.id.clone()),
        workspace: match workspace {
            Workspace::Private => defaults.workspace.clone(),
            host @ Workspace::Host { .. } => host,
        },
        egress: egress.or_else(|| defaults.egress.clone()),
        limits: Limits {
            memory: memory.or(other.memory),
            processes: processes.or(other.processes),
            cpus: cpus.or(other.cpus),
            disk: disk.or(other.disk),
            command: command.or(other.command),
            lifetime: lifetime.or(other.lifetime),
        },
        env: merged_env,
        labels: merged_labels,
        require: merged_require,
        detach: detach || defaults.detach,
        verify_egress: verify_egress || defaults.verify_egress,
    }
}

/// A name nobody else has: 80 random bits.
fn fresh_id() -> Result<SandboxId> {
    let mut random = [0_u8; 10];
    let got = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    if !got.is_ok_and(|length| length == random.len()) {
        return Err(Error::new(
            ErrorCode::HostUnsupported,
            "no random numbers for a sandbox id",
        ));
    }
    let mut text = String::with_capacity(20);
    for byte in random {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.try_into().map_err(|err| {
        Error::new(ErrorCode::Internal, "a fresh sandbox id is malformed").with_source(err)
    })
}
