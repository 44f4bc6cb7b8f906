//! What all connections share.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::config::Config;
use crate::doors::Doors;
use crate::files::Files;
use crate::lane::Lane;
use crate::listener;
use crate::metrics::Processor;
use crate::process::Table;
use crate::tunnel::Tunnels;

/// The state of one worker; shared as `Arc<Worker>`.
#[derive(Debug)]
pub(crate) struct Worker {
    /// How it was started.
    pub(crate) config: Arc<Config>,
    /// The roots and watches of file calls.
    pub(crate) files: Files,
    processes: Table,
    lane: Option<Lane>,
    tunnels: Tunnels,
    doors: Doors,
    processor: Processor,
    activity: Arc<Activity>,
    shutdown: Notify,
    closing: watch::Sender<bool>,
}

/// Requests in work, and when the last one ended.
#[derive(Debug)]
struct Activity {
    state: Mutex<(usize, Instant)>,
}

/// While it lives, the worker is not idle.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Activity>);

impl Worker {
    /// Takes over the descriptors that the configuration names.
    ///
    /// # Errors
    /// One of them is not open.
    pub(crate) fn new(config: Config) -> std::io::Result<Self> {
        let config = Arc::new(config);
        let adopt = |fd: Option<i32>| -> std::io::Result<Option<OwnedFd>> {
            fd.map(listener::adopt).transpose()
        };
        Ok(Self {
            processes: Table::new(Arc::clone(&config), adopt(config.memory_events)?),
            files: Files::open(&config)?,
            lane: adopt(config.lane)?.map(Lane::new),
            tunnels: Tunnels::default(),
            doors: Doors::default(),
            processor: Processor::default(),
            activity: Arc::new(Activity {
                state: Mutex::new((0, Instant::now())),
            }),
            shutdown: Notify::new(),
            closing: watch::Sender::new(false),
            config,
        })
    }

    /// The commands, running and lately ended.
    pub(crate) fn processes(&self) -> &Table {
        &self.processes
    }

    /// The fd lane, if there is one.
    pub(crate) fn lane(&self) -> Option<&Lane> {
        self.lane.as_ref()
    }

    /// The tunnels.
    pub(crate) fn tunnels(&self) -> &Tunnels {
        &self.tunnels
    }

    /// The egress boundary's doors.
    pub(crate) fn doors(&self) -> &Doors {
        &self.doors
    }

    /// The processor's use.
    pub(crate) fn processor(&self) -> &Processor {
        &self.processor
    }

    /// Marks the worker as working until the mark is dropped.
    pub(crate) fn busy(&self) -> Busy {
        self.activity.with(|(count, _)| *count += 1);
        Busy(Arc::clone(&self.activity))
    }

    /// Since when nothing is worked on, if so.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        if self.processes.is_busy() {
            // A command counts as work until its end, which is looked at again later.
            self.activity.with(|(_, last)| *last = Instant::now());
            return None;
        }
        self.activity
            .with(|(count, last)| (*count == 0).then_some(*last))
    }

    /// Ends the worker, soon.
    pub(crate) fn shut_down(&self) {
        self.shutdown.notify_one();
    }

    /// No more calls: connections end with the answers in work.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Returns when connections are to end.
    pub(crate) async fn closing(&self) {
        // The sender is this worker's own.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Returns when the worker is to end.
    pub(crate) async fn shutting_down(&self) {
        self.shutdown.notified().await;
    }
}

impl Activity {
    fn with<T>(&self, change: impl FnOnce(&mut (usize, Instant)) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.with(|(count, last)| {
            *count = count.saturating_sub(1);
            *last = Instant::now();
        });
    }
}
