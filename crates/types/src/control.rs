//! The nine things a sandbox can hold, and how firmly.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How firmly a control holds against code that tries to get round it.
///
/// Ordered: `None < BestEffort < Declared < Enforced` compares by how much a caller may rely on it.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// Nothing holds it.
    #[default]
    None,
    /// It stops accidents; code that tries can get round it.
    BestEffort,
    /// A managed service states that it holds; we cannot observe it.
    Declared,
    /// The kernel, a hypervisor or the topology holds it.
    Enforced,
}

impl Strength {
    /// The wire form, e.g. `best_effort`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::BestEffort => "best_effort",
            Self::Declared => "declared",
            Self::Enforced => "enforced",
        }
    }
}

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One thing a sandbox can hold, in the order the receipt prints them.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// What can be read and written.
    Filesystem,
    /// What can be reached.
    Network,
    /// Which processes can be seen and signalled.
    Processes,
    /// Bytes of memory, swap included.
    Memory,
    /// Number of processes and threads.
    Pids,
    /// Share of processor time.
    Cpu,
    /// Bytes written.
    Disk,
    /// How long a command, and the sandbox itself, may run.
    WallClock,
    /// Which system calls are answered.
    Syscalls,
}

impl Control {
    /// Every control, in receipt order.
    pub const ALL: [Self; 9] = [
        Self::Filesystem,
        Self::Network,
        Self::Processes,
        Self::Memory,
        Self::Pids,
        Self::Cpu,
        Self::Disk,
        Self::WallClock,
        Self::Syscalls,
    ];

    /// The wire form, e.g. `wall_clock`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Filesystem => "filesystem",
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Disk => "disk",
            Self::WallClock => "wall_clock",
            Self::Syscalls => "syscalls",
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What holds one control, and how firmly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControlReport {
    /// How firmly it holds.
    pub strength: Strength,
    /// What holds it, e.g. `cgroup v1 memory controller`; empty when nothing does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mechanism: String,
    /// What it amounts to here, e.g. `512 MiB`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl ControlReport {
    /// A control that nothing holds.
    pub const NONE: Self = Self {
        strength: Strength::None,
        mechanism: String::new(),
        detail: String::new(),
    };

    /// A limit that nobody asked for, and so nothing holds.
    #[must_use]
    pub fn unasked() -> Self {
        Self::new(Strength::None, "", "no limit asked for")
    }

    /// A control held by `mechanism` with `strength`.
    #[must_use]
    pub fn new(
        strength: Strength,
        mechanism: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            strength,
            mechanism: mechanism.into(),
            detail: detail.into(),
        }
    }
}

/// One report per control. A struct, not a map, so that a backend cannot leave one out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Controls {
    /// See [`Control::Filesystem`].
    pub filesystem: ControlReport,
    /// See [`Control::Network`].
    pub network: ControlReport,
    /// See [`Control::Processes`].
    pub processes: ControlReport,
    /// See [`Control::Memory`].
    pub memory: ControlReport,
    /// See [`Control::Pids`].
    pub pids: ControlReport,
    /// See [`Control::Cpu`].
    pub cpu: ControlReport,
    /// See [`Control::Disk`].
    pub disk: ControlReport,
    /// See [`Control::WallClock`].
    pub wall_clock: ControlReport,
    /// See [`Control::Syscalls`].
    pub syscalls: ControlReport,
}

impl Controls {
    /// The report of one control.
    #[must_use]
    pub const fn get(&self, control: Control) -> &ControlReport {
        match control {
            Control::Filesystem => &self.filesystem,
            Control::Network => &self.network,
            Control::Processes => &self.processes,
            Control::Memory => &self.memory,
            Control::Pids => &self.pids,
            Control::Cpu => &self.cpu,
            Control::Disk => &self.disk,
            Control::WallClock => &self.wall_clock,
            Control::Syscalls => &self.syscalls,
        }
    }

    /// Every control with its report, in receipt order.
    pub fn iter(&self) -> impl Iterator<Item = (Control, &ControlReport)> {
        Control::ALL
            .into_iter()
            .map(|control| (control, self.get(control)))
    }
}
