//! Watches that are polled: each has a task that takes the kernel's events into a bounded queue.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use namzu_protocol::filesystem::FilesystemEvent;
use tokio::task::AbortHandle;

use super::Watch;
use crate::files::entry;
use crate::files::fail::{Fail, Kind, Outcome};
use crate::random;

/// The most watchers at a time. Each is an inotify instance, of which a user has few.
const MAX_WATCHERS: usize = 64;
/// The most events of one watcher that wait to be asked for.
const MAX_EVENTS: usize = 16 << 10;

/// The most memory that they take, in bytes.
const MAX_WEIGHT: usize = 8 << 20;

/// The watchers by name.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    inner: Mutex<HashMap<String, Watcher>>,
}

#[derive(Debug)]
struct Watcher {
    queue: Arc<Mutex<Queue>>,
    task: AbortHandle,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<FilesystemEvent>,
    weight: usize,
    /// Told once, after the events that came before it.
    lost: Option<Fail>,
}

impl Queue {
    fn has_room(&self) -> bool {
        self.lost.is_none() && self.events.len() < MAX_EVENTS && self.weight < MAX_WEIGHT
    }
}

fn weight(event: &FilesystemEvent) -> usize {
    let entry = event.entry.as_deref().map_or(0, entry::weight);
    size_of::<FilesystemEvent>() + event.name.len() + entry
}

impl Watchers {
    /// Keeps a watch under a new name.
    pub(crate) fn add(&self, mut watch: Watch) -> Outcome<String> {
        let mut watchers = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if watchers.len() >= MAX_WATCHERS {
            return Err(Fail::new(
                Kind::TooMuch,
                format!("there are {MAX_WATCHERS} watchers already"),
            ));
        }
        let id = random::hex().map_err(|error| {
            Fail::new(Kind::Internal, format!("could not name a watcher: {error}"))
        })?;
        let id = format!("w{id}");
        let queue = Arc::new(Mutex::new(Queue::default()));
        let filled = Arc::clone(&queue);
        let task = tokio::spawn(async move {
            loop {
                let outcome = std::future::poll_fn(|cx| watch.poll_next(cx)).await;
                let mut queue = filled.lock().unwrap_or_else(PoisonError::into_inner);
                match outcome {
                    Ok(event) if queue.has_room() => {
                        queue.weight += weight(&event);
                        queue.events.push_back(event);
                    }
                    Ok(_) => {
                        let text = "events were lost: they came faster than they were asked for";
                        queue
                            .lost
                            .get_or_insert_with(|| Fail::new(Kind::TooMuch, text));
                    }
                    Err(fail) => {
                        let goes_on = fail.kind == Kind::TooMuch;
                        queue.lost.get_or_insert(fail);
                        if !goes_on {
                            return;
                        }
                    }
                }
            }
        });
        watchers.insert(
            id.clone(),
            Watcher {
                queue,
                task: task.abort_handle(),
            },
        );
        Ok(id)
    }

    /// The events since the last time. When some were lost, the call after those that were kept fails once.
    pub(crate) fn take(&self, id: &str) -> Outcome<Vec<FilesystemEvent>> {
        let watchers = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let watcher = watchers.get(id).ok_or_else(|| unknown(id))?;
        let mut queue = watcher.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.events.is_empty()
            && let Some(fail) = queue.lost.take()
        {
            return Err(fail);
        }
        queue.weight = 0;
        Ok(std::mem::take(&mut queue.events).into())
    }

    /// Ends a watcher.
    pub(crate) fn remove(&self, id: &str) -> Outcome<()> {
        let mut watchers = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.remove(id).map(drop).ok_or_else(|| unknown(id))
    }
}

fn unknown(id: &str) -> Fail {
    Fail::new(Kind::NotFound, format!("watcher '{id}' not found"))
}
