//! Runs untrusted code in a sandbox, and says exactly what holds it.
//!
//! ```no_run
//! # async fn example() -> namzu_sandbox::Result<()> {
//! use namzu_sandbox::{
//!     ExecRequest, SandboxProviderConfig, SandboxSpec, create_sandbox_provider,
//! };
//!
//! let provider = create_sandbox_provider(&SandboxProviderConfig::default())?;
//! let sandbox = provider.create(SandboxSpec::default()).await?;
//! let output = sandbox
//!     .exec(ExecRequest::new(["python3", "-c", "print(2**64)"]))
//!     .await?;
//! assert!(output.status.success());
//! sandbox.destroy().await
//! # }
//! ```
//!
//! A configuration is the TypeScript package's JSON. Whatever is wrong with it is said at once,
//! before anything starts:
//!
//! ```
//! use namzu_sandbox::SandboxProviderConfig;
//!
//! let err = SandboxProviderConfig::from_json_str(r#"{"backend": {"tier": "vm"}}"#).unwrap_err();
//! assert_eq!(
//!     err.reasons(),
//!     ["`backend.tier`: `vm` is unknown; there are process, container, microvm, passthrough"],
//! );
//! ```
//!
//! A backend of one's own takes a configuration's place in the [`Registry`], or goes straight to
//! [`SandboxProvider::new`]:
//!
//! ```
//! # use std::sync::Arc;
//! use namzu_sandbox::{Backend, Registry, types::Tier};
//!
//! fn with_mine(mine: Arc<dyn Backend>) -> Registry {
//!     Registry::builtin().with("container:docker", Tier::Container, move |_request| {
//!         Ok(Arc::clone(&mine))
//!     })
//! }
//! ```
#![forbid(unsafe_code)]

mod builtin;
mod doctor;
mod jail;
mod load;
mod registry;

pub use namzu_client as client;
pub use namzu_client::{Sandbox, SandboxProvider};
pub use namzu_core as core;
pub use namzu_core::layout::{ResolvedMount, ValidLayout};
pub use namzu_core::source::resolve;
pub use namzu_core::{
    Backend, Chain, Error, ErrorCode, Finding, Phase, Receipt, Result, SerializedSandboxError,
    Verdict, serialize_sandbox_error,
};
pub use namzu_egress as egress;
pub use namzu_types as types;
pub use namzu_types::config;
pub use namzu_types::{
    ContainerSandboxLayout, EgressPolicy, ExecRequest, ExitStatus, SANDBOX_DEFAULT_OUTPUTS_PATH,
    SANDBOX_DEFAULT_SCRATCH_PATH, SANDBOX_DEFAULT_SKILLS_PARENT, SANDBOX_DEFAULT_TOOL_RESULTS_PATH,
    SANDBOX_DEFAULT_TRANSCRIPTS_PATH, SANDBOX_DEFAULT_UPLOADS_PATH, SandboxCreateConfig,
    SandboxProviderConfig, SandboxSpec, ValueSource,
};

pub use crate::doctor::doctor;
pub use crate::jail::network_jail;
pub use crate::load::load_config;
pub use crate::registry::{BackendInfo, BackendRequest, BackendStatus, Factory, Registry};

/// The examples of the documents are programs, too.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/embed.md")]
    struct Embed;
}

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
