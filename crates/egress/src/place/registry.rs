//! The books: every flow that was admitted and is not over.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Ask;
use crate::Reason;

/// The flows of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Registry {
    books: Mutex<Books>,
    /// Told whenever one leaves.
    left: Notify,
}

#[derive(Debug, Default)]
struct Books {
    closed: bool,
    last: u64,
    live: HashMap<u64, Arc<Entry>>,
}

/// A flow in the books.
#[derive(Debug)]
pub(super) struct Entry {
    /// Counts up in the life of the sandbox.
    pub(super) number: u64,
    pub(super) began: Instant,
    /// As it is known by now; a change of policy decides anew by it.
    pub(super) ask: Mutex<Ask>,
    pub(super) up: AtomicU64,
    pub(super) down: AtomicU64,
    cut: OnceLock<Reason>,
    told: Notify,
}

/// A thread that panicked with the lock left a whole value behind: nothing here changes in two steps.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// Enters a flow; `None` once the sandbox has ended.
    pub(super) fn enter(&self, ask: &Ask) -> Option<Arc<Entry>> {
        let mut books = locked(&self.books);
        if books.closed {
            return None;
        }
        books.last += 1;
        let entry = Arc::new(Entry {
            number: books.last,
            began: Instant::now(),
            ask: Mutex::new(ask.clone()),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            cut: OnceLock::new(),
            told: Notify::new(),
        });
        books.live.insert(entry.number, Arc::clone(&entry));
        Some(entry)
    }

    pub(super) fn leave(&self, entry: &Entry) {
        locked(&self.books).live.remove(&entry.number);
        self.left.notify_waiters();
    }

    /// Those in the books now.
    pub(super) fn live(&self) -> Vec<Arc<Entry>> {
        locked(&self.books).live.values().cloned().collect()
    }

    pub(super) fn has(&self, entry: &Entry) -> bool {
        locked(&self.books).live.contains_key(&entry.number)
    }

    /// Waits until none of `entries` is in the books.
    pub(super) async fn without(&self, entries: &[Arc<Entry>]) {
        let mut rest: Vec<_> = entries.iter().collect();
        loop {
            let left = self.left.notified();
            rest.retain(|entry| self.has(entry));
            if rest.is_empty() {
                return;
            }
            left.await;
        }
    }

    /// Lets nothing in any more, and cuts what is in the books.
    pub(super) fn close(&self, why: Reason) {
        let live = {
            let mut books = locked(&self.books);
            books.closed = true;
            books.live.values().cloned().collect::<Vec<_>>()
        };
        for entry in live {
            entry.cut_for(why);
        }
    }
}

impl Entry {
    /// Tells the flow that it must end. The first reason stays.
    pub(super) fn cut_for(&self, why: Reason) {
        let _ = self.cut.set(why);
        self.told.notify_waiters();
    }

    /// Why it was cut.
    pub(super) fn why(&self) -> Option<Reason> {
        self.cut.get().copied()
    }

    /// Waits until it is cut.
    pub(super) async fn cut(&self) -> Reason {
        loop {
            // Before the look: what is told between the two is not missed.
            let told = self.told.notified();
            if let Some(why) = self.why() {
                return why;
            }
            told.await;
        }
    }
}
