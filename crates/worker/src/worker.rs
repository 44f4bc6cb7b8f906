//! What all connections share.

use crate::config::Config;
use crate::process::Table;

/// The state of one worker; shared as `Arc<Worker>`.
pub(crate) struct Worker {
    /// How it was started.
    pub(crate) config: Config,
    processes: Table,
}

impl Worker {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            processes: Table::default(),
        }
    }

    /// The commands, running and lately exited.
    pub(crate) fn processes(&self) -> &Table {
        &self.processes
    }
}
