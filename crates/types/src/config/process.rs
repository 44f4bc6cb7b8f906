//! The process and passthrough tiers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `process`: namespaces around a process tree on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessBackendConfig {
    /// What builds the wall.
    #[serde(default)]
    pub engine: ProcessEngine,
}

/// What builds the wall of the process tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProcessEngine {
    /// The best one that this host offers.
    #[default]
    Auto,
    /// Linux namespaces, made by ourselves.
    Native,
    /// Linux namespaces, made by `bwrap`.
    Bubblewrap,
    /// `sandbox-exec` of macOS.
    Seatbelt,
}

impl ProcessEngine {
    /// The wire form, e.g. `bubblewrap`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Bubblewrap => "bubblewrap",
            Self::Seatbelt => "seatbelt",
        }
    }
}

/// `passthrough`: no wall at all. For tests and code that is trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PassthroughBackendConfig {}
