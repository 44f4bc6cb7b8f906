//! A resolver that is asked while something is open, and not only when something is asked for.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};

use tokio::time::sleep;

use super::{Place, source};

impl Place {
    /// Sees to it that the resolver, where the policy is one, is asked for as long as something is open: a
    /// tunnel in which nothing is said ends too when its host is taken off the list. To be called when
    /// something was entered in the books.
    pub(super) fn watch(self: &Arc<Self>) {
        if self.regime.load().asks() && !self.watched.swap(true, SeqCst) {
            tokio::spawn(watch(Arc::downgrade(self)));
        }
    }

    /// Whether there is nobody to watch any more; then nobody does.
    fn unwatched(&self) -> bool {
        let idle = || !self.regime.load().asks() || self.flows.is_empty();
        if !idle() {
            return false;
        }
        self.watched.store(false, SeqCst);
        // What came in between found somebody who watched.
        idle() || self.watched.swap(true, SeqCst)
    }
}

/// Asks as often as an answer is believed, until nothing is open, or the sandbox has ended.
async fn watch(place: Weak<Place>) {
    loop {
        sleep(source::BELIEVED).await;
        let Some(place) = place.upgrade() else {
            return;
        };
        if place.unwatched() {
            return;
        }
        // What is open stays while it fails, as it does when somebody asks: it was said by whom it fails.
        let _ = place.consult().await;
    }
}
