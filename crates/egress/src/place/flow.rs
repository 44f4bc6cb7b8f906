//! Something that was admitted and is not over yet.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::net::TcpStream;

use super::registry::{Entry, locked};
use super::{Ask, Place, Regime};
use crate::denial::Denial;
use crate::policy::{self, Verdict};
use crate::{Reason, Scheme};

/// Something that was admitted and is not over yet. Dropping it ends it in the books.
pub(crate) struct Flow {
    pub(crate) place: Arc<Place>,
    pub(crate) ask: Ask,
    pub(crate) verdict: Verdict,
    /// What decided it: the secrets it is given are of the same policy as the rule.
    pub(crate) regime: Arc<Regime>,
    entry: Arc<Entry>,
}

impl Flow {
    pub(super) const fn new(
        place: Arc<Place>,
        ask: Ask,
        verdict: Verdict,
        regime: Arc<Regime>,
        entry: Arc<Entry>,
    ) -> Self {
        Self {
            place,
            ask,
            verdict,
            regime,
            entry,
        }
    }

    /// Decides anew with what is now known of it: the scheme, or method and path.
    pub(crate) fn refine(&mut self, scheme: Scheme) -> Result<(), Denial> {
        self.ask.scheme = Some(scheme);
        // In the books first: a change of policy from here on decides by it.
        locked(&self.entry.ask).scheme = Some(scheme);
        let regime = self.place.regime.load_full();
        let verdict = policy::decide(&regime.snapshot, &self.ask.question());
        if !verdict.allows() {
            return Err(Denial::decided(&self.ask, &verdict));
        }
        self.verdict = verdict;
        self.regime = regime;
        Ok(())
    }

    /// Resolves, screens all addresses, dials one of them and checks that it is who answered.
    pub(crate) async fn dial(&self) -> Result<TcpStream, Denial> {
        let outside = &self.place.outside;
        let denied = |reason| Denial::of(&self.ask, reason);
        let found = outside.resolve(&self.ask.host).await.map_err(denied)?;
        outside
            .screened(&found.addresses, &self.verdict.inward)
            .map_err(denied)?;
        outside
            .dial(&found.addresses, self.ask.port)
            .await
            .map_err(denied)
    }

    /// Waits until the flow must end: the policy changed, or the sandbox ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: it says the same again.
    pub(crate) async fn cut(&self) -> Reason {
        self.entry.cut().await
    }

    /// Counts bytes that went out of the sandbox, and says when they were too many.
    pub(crate) fn up(&self, bytes: u64) -> Result<(), Reason> {
        self.entry.up.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Counts bytes that went into the sandbox, and says when they were too many.
    pub(crate) fn down(&self, bytes: u64) -> Result<(), Reason> {
        self.entry.down.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Ends it in the books, with the reason if it was not of its own accord.
    pub(crate) fn end(self, why: Option<Reason>) {
        let _ = why;
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.place.flows.leave(&self.entry);
    }
}
