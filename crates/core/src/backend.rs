//! What a backend must give.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use namzu_types::{Capabilities, Controls, SandboxId, SandboxInfo, SandboxSpec, Tier};

use crate::egress::{Gate, Wiring};
use crate::{Channel, Error, ErrorCode, Result};

/// Starts isolated places with a worker in them.
///
/// Implementations hold no mutable state that matters after a crash: whatever they create carries
/// an owner label and is found again by [`Backend::list`].
#[async_trait]
pub trait Backend: Debug + Send + Sync {
    /// The tier it belongs to.
    fn tier(&self) -> Tier;

    /// Its own name inside the tier, e.g. `bubblewrap`.
    fn name(&self) -> &str;

    /// What it can hold and do on this host with this configuration, at best.
    fn capabilities(&self) -> Capabilities;

    /// Says control by control what a sandbox made from `spec` would get. Leaves nothing running; it
    /// may try out once whether this host can hold it at all.
    ///
    /// [`Guarded`](crate::Guarded) has refused what [`Self::capabilities`] excludes before this is
    /// called.
    ///
    /// # Errors
    ///
    /// `host_unsupported` when the host lacks something, `unsupported` when the combination asked
    /// for cannot be held, `config_invalid` for a path that does not exist.
    async fn plan(&self, spec: &SandboxSpec) -> Result<Controls>;

    /// Starts a sandbox and returns once its worker can be spoken to.
    ///
    /// # Behavior
    ///
    /// * A failure leaves nothing behind: no process, mount, cgroup, file or remote resource.
    /// * `spec.id` is always set by the caller.
    /// * `wiring` is what the egress boundary needs inside; nothing for a policy that it has no part
    ///   in.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind either, and so does dropping what it gave before
    /// [`Teardown::release`] was called.
    ///
    /// # Errors
    ///
    /// Those of [`Self::plan`], `create_timeout`, `backend_failed`.
    async fn launch(&self, spec: &SandboxSpec, wiring: &Wiring) -> Result<Launched>;

    /// As [`Self::plan`], where a launch follows at once: what only a launch can prove need not be
    /// tried out before.
    ///
    /// # Errors
    ///
    /// Those of [`Self::plan`].
    async fn assess(&self, spec: &SandboxSpec) -> Result<Controls> {
        self.plan(spec).await
    }

    /// Opens a channel to a sandbox that outlived its maker. Requires [`Capabilities::detach`].
    ///
    /// # Errors
    ///
    /// `not_found`; `unsupported` where nothing outlives its maker.
    async fn attach(&self, id: &SandboxId) -> Result<Launched> {
        Err(self.cannot_detach(id))
    }

    /// The sandboxes that can be attached to. Empty where nothing outlives its maker.
    ///
    /// # Errors
    ///
    /// `backend_failed`.
    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        Ok(Vec::new())
    }

    /// Takes down a sandbox by name. Idempotent: an unknown name is success.
    ///
    /// # Errors
    ///
    /// `backend_failed`.
    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        let _ = id;
        Ok(())
    }

    /// The error of [`Self::attach`] on a backend without [`Capabilities::detach`].
    #[doc(hidden)]
    fn cannot_detach(&self, id: &SandboxId) -> Error {
        Error::new(
            ErrorCode::Unsupported,
            format!(
                "sandbox `{id}` cannot be found again: {} sandboxes end with their maker",
                self.name()
            ),
        )
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn tier(&self) -> Tier {
        (**self).tier()
    }

    fn name(&self) -> &str {
        (**self).name()
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    async fn plan(&self, spec: &SandboxSpec) -> Result<Controls> {
        (**self).plan(spec).await
    }

    async fn launch(&self, spec: &SandboxSpec, wiring: &Wiring) -> Result<Launched> {
        (**self).launch(spec, wiring).await
    }

    async fn assess(&self, spec: &SandboxSpec) -> Result<Controls> {
        (**self).assess(spec).await
    }

    async fn attach(&self, id: &SandboxId) -> Result<Launched> {
        (**self).attach(id).await
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        (**self).list().await
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        (**self).destroy(id).await
    }

    fn cannot_detach(&self, id: &SandboxId) -> Error {
        (**self).cannot_detach(id)
    }
}

/// A sandbox that runs: a line to its worker, and a way to end it.
#[derive(Debug)]
pub struct Launched {
    /// Its name.
    pub id: SandboxId,
    /// The line to the worker.
    pub channel: Channel,
    /// Ends it.
    pub teardown: Box<dyn Teardown>,
    /// What it really got.
    pub controls: Controls,
    /// Path of the workspace inside.
    pub workspace: String,
    /// The kind of egress its maker asked for, e.g. `deny-all`. `None`: the backend keeps no
    /// record of it.
    pub egress: Option<String>,
    /// How the egress boundary gets in. `None`: it cannot; the network stays as it was launched.
    pub gate: Option<Gate>,
    /// What its maker labelled it with.
    pub labels: BTreeMap<String, String>,
}

/// Ends one sandbox. Dropping it kills what was launched and not [released](Self::release); it
/// leaves alone what was attached to.
#[async_trait]
pub trait Teardown: Debug + Send + Sync {
    /// Kills everything inside and removes every trace. Idempotent.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future still kills; traces are then removed by [`Self::kill`] or by the next
    /// start of the backend.
    ///
    /// # Errors
    ///
    /// `backend_failed` if something could not be removed; what can be removed is.
    async fn destroy(&mut self) -> Result<()>;

    /// Kills everything inside at once, from `Drop`, without waiting where possible, a detached
    /// sandbox too. Idempotent.
    fn kill(&mut self);

    /// Lets a detached sandbox live on without this process. From then on dropping leaves it alive;
    /// [`Self::destroy`] and [`Self::kill`] still end it. Nothing on any other sandbox.
    fn release(&mut self) {}

    /// How the sandbox ended, if it ended by itself: `out_of_memory`, `lifetime_exceeded` or
    /// `sandbox_lost`, with whatever the place said last.
    fn obituary(&self) -> Option<Error> {
        None
    }
}
