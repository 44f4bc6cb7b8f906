//! Who holds the doors: a connection of the host's that asked for them, for as long as it lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::worker::Worker;

/// Goes with every request of a connection. Set once it has asked for doors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Arc<AtomicBool>);

impl Asked {
    /// Whether this is the first time.
    pub(super) fn ask(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

/// A connection that lasts. Closes the doors when it was the last that held them: nobody else would
/// forward who comes by, and an open door that leads nowhere makes them wait.
#[derive(Debug)]
pub(crate) struct Holder {
    worker: Arc<Worker>,
    asked: Asked,
}

impl Holder {
    pub(crate) fn new(worker: Arc<Worker>) -> Self {
        Self {
            worker,
            asked: Asked::default(),
        }
    }

    pub(crate) fn asked(&self) -> Asked {
        self.asked.clone()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if self.asked.0.load(Ordering::Relaxed) {
            self.worker.doors().leave();
        }
    }
}
