//! Serde data shared by every crate: what a caller asks for, and what a backend says it enforces.
//!
//! Nothing here does I/O. Host-facing JSON is camelCase, because a configuration written for the
//! TypeScript package must load unchanged; unknown fields are refused by name everywhere.
#![forbid(unsafe_code)]

mod capability;
pub mod config;
mod control;
mod egress;
mod error_code;
mod exec;
mod id;
mod layout;
mod limits;
mod secret;
mod spec;
mod tier;

pub use crate::capability::{Capabilities, EgressCapabilities};
pub use crate::config::{ConfigError, SandboxCreateConfig, SandboxProviderConfig};
pub use crate::control::{Control, ControlReport, Controls, Strength};
pub use crate::egress::{
    EgressCredential, EgressLimits, EgressPolicy, EgressRule, EgressScheme, EgressTls,
};
pub use crate::error_code::{ErrorCode, Phase};
pub use crate::exec::{ExecLimits, ExecRequest, ExitStatus, OutputCap, PtySize};
pub use crate::id::{InvalidId, SandboxId};
pub use crate::layout::{
    ContainerSandboxLayout, LayoutMount, MountSource, SANDBOX_DEFAULT_OUTPUTS_PATH,
    SANDBOX_DEFAULT_SCRATCH_PATH, SANDBOX_DEFAULT_SKILLS_PARENT, SANDBOX_DEFAULT_TOOL_RESULTS_PATH,
    SANDBOX_DEFAULT_TRANSCRIPTS_PATH, SANDBOX_DEFAULT_UPLOADS_PATH, SkillMount,
};
pub use crate::limits::Limits;
pub use crate::secret::{Callback, Secret, ValueSource};
pub use crate::spec::{Access, SandboxInfo, SandboxSpec, Workspace};
pub use crate::tier::Tier;
