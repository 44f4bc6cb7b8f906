//! What can be chosen.

pub use namzu_types::config::{ProcessBackendConfig as Config, ProcessEngine as Engine};

/// The name of the engine that is written.
pub const NAME: &str = "bubblewrap";

/// The label of errors and findings.
pub(crate) const LABEL: &str = "process:bubblewrap";

/// What a backend that confines the network only is called.
#[cfg(target_os = "linux")]
pub(crate) const JAIL: &str = "network-jail";
