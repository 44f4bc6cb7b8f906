//! What all connections share.

use std::sync::Arc;

use crate::config::Config;
use crate::files::Files;
use crate::lane::Lane;
use crate::process::Table;

/// The state of one worker; shared as `Arc<Worker>`.
#[derive(Debug)]
pub(crate) struct Worker {
    /// How it was started.
    pub(crate) config: Arc<Config>,
    /// The roots and watches of file calls.
    pub(crate) files: Files,
    processes: Table,
    lane: Option<Lane>,
}

impl Worker {
    /// Takes over the descriptors that the configuration names.
    ///
    /// # Errors
    /// One of them is not open.
    pub(crate) fn new(config: Config) -> std::io::Result<Self> {
        let config = Arc::new(config);
        Ok(Self {
            processes: Table::new(Arc::clone(&config)),
            lane: config.lane.map(Lane::adopt).transpose()?,
            files: Files::open(&config)?,
            config,
        })
    }

    /// The fd lane, if there is one.
    pub(crate) fn lane(&self) -> Option<&Lane> {
        self.lane.as_ref()
    }

    /// The commands, running and lately ended.
    pub(crate) fn processes(&self) -> &Table {
        &self.processes
    }
}
