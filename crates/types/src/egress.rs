//! What may leave a sandbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ValueSource;

/// What may leave a sandbox. Omitted means `deny-all` on every tier that has a wall.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum EgressPolicy {
    /// Nothing leaves.
    #[default]
    DenyAll,
    /// Everything leaves: no wall at all on the network.
    AllowAll,
    /// Only these hosts are reached.
    Static {
        /// Host names, as the TypeScript package writes them.
        allowed_hosts: Vec<String>,
    },
    /// Only the hosts that a provider gives are reached.
    Resolver {
        /// Gives the list: one host a line from an environment variable, a file or a command, or
        /// a closure.
        resolve: ValueSource,
    },
}

impl EgressPolicy {
    /// The wire form of the kind, e.g. `deny-all`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::DenyAll => "deny-all",
            Self::AllowAll => "allow-all",
            Self::Static { .. } => "static",
            Self::Resolver { .. } => "resolver",
        }
    }
}
