//! Makes sandboxes on one backend.

use std::sync::Arc;
use std::time::Duration;

use namzu_core::{Backend, Receipt, Result};
use namzu_types::{Capabilities, SandboxId, SandboxInfo, SandboxSpec, Tier};

use crate::Sandbox;

/// Makes sandboxes on one backend, with defaults for what a request leaves out.
#[derive(Clone, Debug)]
pub struct SandboxProvider {
    backend: Arc<dyn Backend>,
    defaults: SandboxSpec,
    id: String,
    name: String,
    deadlines: Deadlines,
}

/// How long each step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From the request to a sandbox that accepts commands: `create_timeout`.
    pub create: Duration,
    /// Until a worker that is said to run answers: `connect_timeout`.
    pub connect: Duration,
    /// One call to the worker that runs nothing: `request_timeout`.
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
    /// Sandboxes on `backend`; `defaults` fills what a request leaves out.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>, defaults: SandboxSpec) -> Self {
        let (tier, name) = (backend.tier(), backend.name());
        Self {
            id: format!("namzu-{tier}-{name}"),
            name: format!("@namzu/sandbox: {tier}:{name}"),
            backend,
            defaults,
            deadlines: Deadlines::default(),
        }
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
    pub const fn environment(&self) -> &'static str {
        "basic"
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

    /// Says what a sandbox made from `spec` would get. Starts nothing.
    ///
    /// # Errors
    ///
    /// `unsupported` with every reason, `host_unsupported`, `config_invalid`.
    pub async fn plan(&self, spec: &SandboxSpec) -> Result<Receipt> {
        let _ = spec;
        todo!()
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
        let _ = spec;
        todo!()
    }

    /// Finds a sandbox that outlived its maker. Dropping it leaves it alive.
    ///
    /// # Errors
    ///
    /// `not_found`, `connect_timeout`, `unsupported` where nothing outlives its maker.
    pub async fn connect(&self, id: &SandboxId) -> Result<Sandbox> {
        let _ = id;
        todo!()
    }

    /// The sandboxes that can be found again.
    ///
    /// # Errors
    ///
    /// `backend_failed`.
    pub async fn list(&self) -> Result<Vec<SandboxInfo>> {
        self.backend.list().await
    }

    /// Takes a sandbox down by name. Idempotent.
    ///
    /// # Errors
    ///
    /// `backend_failed`.
    pub async fn destroy(&self, id: &SandboxId) -> Result<()> {
        self.backend.destroy(id).await
    }
}
