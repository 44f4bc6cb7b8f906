//! What one sandbox is asked to be.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Control, EgressPolicy, Limits, SandboxId, Tier};

/// Everything one sandbox is asked to be: defaults and per-create overrides already merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SandboxSpec {
    /// Its name; a fresh one is made when absent.
    pub id: Option<SandboxId>,
    /// What the workspace (the default working directory, `/workspace`) is.
    pub workspace: Workspace,
    /// What may leave, if the caller said so: see [`SandboxSpec::egress_on`].
    pub egress: Option<EgressPolicy>,
    /// What it may use.
    pub limits: Limits,
    /// Variables of every command inside. Never the host's own environment.
    pub env: BTreeMap<String, String>,
    /// The caller's labels, to find it by.
    pub labels: BTreeMap<String, String>,
    /// Controls that must be [`crate::Strength::Enforced`]; weaker is refused before anything starts.
    pub require: Vec<Control>,
    /// Outlives the process that makes it, until destroyed or out of lifetime.
    pub detach: bool,
    /// Before it is handed out, what its egress policy denies is tried from inside: a wall with a
    /// hole fails the creation.
    pub verify_egress: bool,
}

impl SandboxSpec {
    /// The egress policy in force on `tier`. Omitted is deny-all everywhere but on the passthrough
    /// tier: naming that tier is the consent to no walls at all, and asking it for deny-all is
    /// refused.
    #[must_use]
    pub fn egress_on(&self, tier: Tier) -> EgressPolicy {
        match (&self.egress, tier) {
            (Some(policy), _) => policy.clone(),
            (None, Tier::Passthrough) => EgressPolicy::AllowAll,
            (None, _) => EgressPolicy::DenyAll,
        }
    }
}

/// What a sandbox finds at `/workspace`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Workspace {
    /// An empty private directory, gone with the sandbox.
    #[default]
    Private,
    /// A directory of the host.
    Host {
        /// Absolute path on the host. It must exist.
        path: PathBuf,
        /// Whether the sandbox may write to it.
        access: Access,
    },
}

/// Whether a mount may be written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Access {
    /// Read only.
    #[default]
    #[serde(rename = "ro")]
    ReadOnly,
    /// Read and write.
    #[serde(rename = "rw")]
    ReadWrite,
}

/// One sandbox, as `list` finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxInfo {
    /// Its name.
    pub id: SandboxId,
    /// Its tier.
    pub tier: Tier,
    /// The backend's name, e.g. `bubblewrap`.
    pub backend: String,
    /// When it was made.
    pub created: SystemTime,
    /// When it ends by itself, if it does.
    pub expires: Option<SystemTime>,
    /// The caller's labels.
    pub labels: BTreeMap<String, String>,
}
