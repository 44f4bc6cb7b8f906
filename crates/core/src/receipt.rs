//! What is really enforced, control by control.

use std::collections::BTreeMap;
use std::fmt;

use namzu_types::{Control, Controls, Strength, Tier};
use serde::Serialize;

/// The answer of `plan`, and of every live sandbox: what holds, by what, how firmly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The tier.
    pub tier: Tier,
    /// The backend's label, e.g. `process:bubblewrap`.
    pub backend: String,
    /// The egress policy in force, e.g. `deny-all`; `unknown` for a sandbox that was found again and
    /// whose backend keeps no record of it.
    pub egress: String,
    /// One report per control.
    pub controls: Controls,
    /// The caller's labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The label of a backend: its tier and its name, e.g. `process:bubblewrap`; the tier alone where
/// the backend is called the same.
#[must_use]
pub fn backend_label(tier: Tier, name: &str) -> String {
    if tier.as_str() == name {
        name.to_owned()
    } else {
        format!("{tier}:{name}")
    }
}

/// The kind of place, in the TypeScript SDK's four words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxEnvironment {
    /// Linux namespaces made by `bwrap`.
    LinuxBwrap,
    /// Linux namespaces made by ourselves.
    LinuxNamespace,
    /// `sandbox-exec` of macOS.
    MacosSeatbelt,
    /// Anything else: containers and microVMs too, for which the SDK has no word.
    Basic,
}

impl SandboxEnvironment {
    /// The word for the backend called `label`, e.g. `process:bubblewrap`.
    #[must_use]
    pub fn of(label: &str) -> Self {
        match label {
            "process:bubblewrap" => Self::LinuxBwrap,
            "process:native" => Self::LinuxNamespace,
            "process:seatbelt" => Self::MacosSeatbelt,
            _ => Self::Basic,
        }
    }

    /// The wire form, e.g. `linux-bwrap`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LinuxBwrap => "linux-bwrap",
            Self::LinuxNamespace => "linux-namespace",
            Self::MacosSeatbelt => "macos-seatbelt",
            Self::Basic => "basic",
        }
    }
}

impl fmt::Display for SandboxEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The TypeScript SDK's three yes-or-no questions. Yes is only what is enforced: neither a best
/// effort nor a service's own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IsolationReport {
    /// Nothing outside the sandbox's own view can be read or written.
    pub filesystem: bool,
    /// Nothing can be reached but what the egress policy lets through.
    pub network: bool,
    /// The host's processes can be neither seen nor signalled.
    pub process: bool,
}

impl Receipt {
    /// The kind of place.
    #[must_use]
    pub fn environment(&self) -> SandboxEnvironment {
        SandboxEnvironment::of(&self.backend)
    }

    /// The receipt in three answers.
    #[must_use]
    pub fn isolation(&self) -> IsolationReport {
        let holds = |control| self.controls.get(control).strength == Strength::Enforced;
        IsolationReport {
            filesystem: holds(Control::Filesystem),
            network: holds(Control::Network),
            process: holds(Control::Processes),
        }
    }
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

#[cfg(test)]
mod tests {
    use namzu_types::ControlReport;

    use super::*;

    fn receipt(strength: Strength) -> Receipt {
        Receipt {
            tier: Tier::Process,
            backend: "process:bubblewrap".to_owned(),
            egress: "deny-all".to_owned(),
            controls: Controls {
                filesystem: ControlReport::new(strength, "mount namespace", ""),
                ..Controls::default()
            },
            labels: BTreeMap::new(),
        }
    }

    #[test]
    fn only_what_is_enforced_counts_as_isolation() {
        for strength in [Strength::None, Strength::BestEffort, Strength::Declared] {
            assert!(!receipt(strength).isolation().filesystem, "{strength}");
        }
        assert_eq!(
            receipt(Strength::Enforced).isolation(),
            IsolationReport {
                filesystem: true,
                network: false,
                process: false
            }
        );
    }

    #[test]
    fn the_environment_is_one_of_the_sdks_words() {
        let words = [
            ("process:bubblewrap", "linux-bwrap"),
            ("process:native", "linux-namespace"),
            ("process:seatbelt", "macos-seatbelt"),
            ("container:docker", "basic"),
            ("passthrough", "basic"),
        ];
        for (label, word) in words {
            let environment = SandboxEnvironment::of(label);
            assert_eq!(environment.as_str(), word);
            assert_eq!(serde_json::to_value(environment).unwrap(), word);
        }
    }

    #[test]
    fn a_backend_named_as_its_tier_is_not_named_twice() {
        assert_eq!(
            backend_label(Tier::Process, "bubblewrap"),
            "process:bubblewrap"
        );
        assert_eq!(
            backend_label(Tier::Passthrough, "passthrough"),
            "passthrough"
        );
    }

    #[test]
    fn the_table_has_a_line_for_every_control() {
        let table = receipt(Strength::Enforced).to_string();
        for control in Control::ALL {
            assert!(table.contains(control.as_str()), "{table}");
        }
    }
}
