//! The books: every flow that was admitted and is not over.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Ask;
use crate::Reason;
use crate::limits::Permit;
use crate::lock::locked;

/// The flows of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Registry {
    books: Mutex<Books>,
    /// Told whenever one leaves that was cut.
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
    pub(super) known: Mutex<Known>,
    pub(super) seen: Mutex<Seen>,
    /// What it counts as, from when it counts.
    pub(super) permit: Mutex<Option<Permit>>,
    pub(super) up: AtomicU64,
    pub(super) down: AtomicU64,
    /// Why it was denied after it had been admitted.
    pub(super) failed: OnceLock<Reason>,
    cut: OnceLock<Reason>,
    told: Notify,
}

/// What a change of policy decides anew by.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) ask: Ask,
    /// TLS ends at the boundary, if it is TLS.
    pub(super) terminate: bool,
    /// Where it leads.
    pub(super) peer: Option<SocketAddr>,
}

/// What only the audit asks for.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) sni: Option<String>,
    pub(super) alpn: Option<String>,
    pub(super) ips: Vec<IpAddr>,
    pub(super) chain: Vec<String>,
}

impl Registry {
    /// Enters a flow; `None` once the sandbox has ended.
    pub(super) fn enter(&self, ask: &Ask) -> Option<Arc<Entry>> {
        let known = Known {
            ask: ask.clone(),
            terminate: false,
            peer: None,
        };
        let mut books = locked(&self.books);
        if books.closed {
            return None;
        }
        books.last += 1;
        let entry = Arc::new(Entry {
            number: books.last,
            began: Instant::now(),
            known: Mutex::new(known),
            seen: Mutex::default(),
            permit: Mutex::default(),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            failed: OnceLock::new(),
            cut: OnceLock::new(),
            told: Notify::new(),
        });
        books.live.insert(entry.number, Arc::clone(&entry));
        Some(entry)
    }

    pub(super) fn leave(&self, entry: &Entry) {
        locked(&self.books).live.remove(&entry.number);
        if entry.why().is_some() {
            self.left.notify_waiters();
        }
    }

    pub(super) fn closed(&self) -> bool {
        locked(&self.books).closed
    }

    pub(super) fn is_empty(&self) -> bool {
        locked(&self.books).live.is_empty()
    }

    /// Those in the books now.
    pub(super) fn live(&self) -> Vec<Arc<Entry>> {
        locked(&self.books).live.values().cloned().collect()
    }

    /// Waits until none of `entries`, which were cut, is in the books.
    pub(super) async fn without(&self, entries: &[Arc<Entry>]) {
        let mut rest: Vec<_> = entries.iter().collect();
        loop {
            // Before the look: one that leaves between the two is not missed.
            let left = self.left.notified();
            {
                let books = locked(&self.books);
                rest.retain(|entry| books.live.contains_key(&entry.number));
            }
            if rest.is_empty() {
                return;
            }
            left.await;
        }
    }

    /// Lets nothing in any more, and cuts what is in the books.
    pub(super) fn close(&self, why: Reason) {
        locked(&self.books).closed = true;
        for entry in self.live() {
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
