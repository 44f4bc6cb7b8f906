//! The four tiers.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How strong the wall around a sandbox is, and whose kernel it stands on.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Tier {
    /// Namespaces around a process tree on the caller's own machine.
    Process,
    /// An OCI container, on a local engine or a managed service.
    Container,
    /// A virtual machine with a kernel of its own.
    Microvm,
    /// No wall at all.
    Passthrough,
}

impl Tier {
    /// The wire form, as in the `tier` field of a configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Container => "container",
            Self::Microvm => "microvm",
            Self::Passthrough => "passthrough",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
