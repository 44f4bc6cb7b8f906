//! What is really enforced, control by control.

use std::collections::BTreeMap;
use std::fmt;

use namzu_types::{Controls, Tier};
use serde::Serialize;

/// The answer of `plan`, and of every live sandbox: what holds, by what, how firmly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The tier.
    pub tier: Tier,
    /// The backend's label, e.g. `process:bubblewrap`.
    pub backend: String,
    /// The egress policy in force, e.g. `deny-all`.
    pub egress: String,
    /// One report per control.
    pub controls: Controls,
    /// The caller's labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl fmt::Display for Receipt {
    /// A table, one control a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  egress {}", self.backend, self.egress)?;
        for (control, report) in self.controls.iter() {
            write!(f, "  {control:<11}  {:<11}", report.strength)?;
            for part in [&report.mechanism, &report.detail] {
                if !part.is_empty() {
                    write!(f, "  {part}")?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
