//! What a backend can hold and do, declared as a literal.

use serde::Serialize;

use crate::Strength;

/// What a backend can hold and do, as a literal: `Capabilities { x: .., ..Capabilities::NONE }`.
///
/// For controls the value is the *best* strength the backend reaches on this host; the receipt
/// says what one sandbox really got. The guard destructures this exhaustively, so a new field does
/// not compile until somebody decides what refusing it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Strength of the filesystem view.
    pub filesystem: Strength,
    /// Strength of process isolation.
    pub processes: Strength,
    /// Strength of a memory limit.
    pub memory: Strength,
    /// Strength of a limit on processes and threads.
    pub pids: Strength,
    /// Strength of a processor limit.
    pub cpu: Strength,
    /// Strength of a limit on bytes written.
    pub disk: Strength,
    /// Strength of the sandbox's own lifetime limit.
    pub lifetime: Strength,
    /// Strength of the system-call filter.
    pub syscalls: Strength,
    /// Which egress policies bite.
    pub egress: EgressCapabilities,
    /// A host directory can be the workspace.
    pub host_workspace: bool,
    /// The workspace can be mounted read-only.
    pub read_only_workspace: bool,
    /// A sandbox can outlive the process that made it and be found again.
    pub detach: bool,
    /// Host connections can be carried to ports inside, and back (`expose`, `reach`).
    pub tunnels: bool,
    /// A layout of mounts can be honoured.
    pub layout: bool,
}

/// How firmly each of the four egress policies is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressCapabilities {
    /// No packet leaves.
    pub deny_all: Strength,
    /// Everything may leave. `true` where the sandbox can be given a network at all.
    pub allow_all: bool,
    /// A fixed list of hosts.
    pub static_hosts: Strength,
    /// A list of hosts that a provider gives.
    pub resolver: Strength,
}

impl Capabilities {
    /// Holds nothing and can do nothing.
    pub const NONE: Self = Self {
        filesystem: Strength::None,
        processes: Strength::None,
        memory: Strength::None,
        pids: Strength::None,
        cpu: Strength::None,
        disk: Strength::None,
        lifetime: Strength::None,
        syscalls: Strength::None,
        egress: EgressCapabilities {
            deny_all: Strength::None,
            allow_all: false,
            static_hosts: Strength::None,
            resolver: Strength::None,
        },
        host_workspace: false,
        read_only_workspace: false,
        detach: false,
        tunnels: false,
        layout: false,
    };
}
