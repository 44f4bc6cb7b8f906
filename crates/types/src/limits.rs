//! What a sandbox may use.

use std::time::Duration;

/// What a sandbox may use. `None` means that the caller asked for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Bytes of memory, swap included, for everything inside together.
    pub memory: Option<u64>,
    /// Processes and threads inside together, the worker included.
    pub processes: Option<u32>,
    /// Processors' worth of time, e.g. `0.5`.
    pub cpus: Option<f64>,
    /// Bytes that may be written to the sandbox's own scratch space.
    pub disk: Option<u64>,
    /// How long one command may run, unless the command says otherwise.
    pub command: Option<Duration>,
    /// How long the sandbox may live.
    pub lifetime: Option<Duration>,
}
