//! What all connections share.

use std::sync::Arc;

use crate::config::Config;
use crate::process::Table;

/// The state of one worker; shared as `Arc<Worker>`.
#[derive(Debug)]
pub(crate) struct Worker {
    /// How it was started.
    pub(crate) config: Arc<Config>,
    processes: Table,
}

impl Worker {
    pub(crate) fn new(config: Config) -> Self {
        let config = Arc::new(config);
        Self {
            processes: Table::new(Arc::clone(&config)),
            config,
        }
    }

    /// The commands, running and lately ended.
    pub(crate) fn processes(&self) -> &Table {
        &self.processes
    }
}
