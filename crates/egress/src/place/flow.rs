//! Something that was admitted and is not over yet.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::net::TcpStream;

use super::registry::Entry;
use super::{Ask, Place, Regime};
use crate::denial::Denial;
use crate::limits::Permit;
use crate::lock::locked;
use crate::policy::{self, Verdict};
use crate::{Host, Reason, Scheme};

/// Something that was admitted and is not over yet. Dropping it ends it in the books.
pub(crate) struct Flow {
    pub(crate) place: Arc<Place>,
    pub(crate) ask: Ask,
    pub(crate) verdict: Verdict,
    /// What decided it: the secrets it is given are of the same policy as the rule.
    pub(crate) regime: Arc<Regime>,
    pub(super) entry: Arc<Entry>,
    /// It was never admitted in the end, so its end is not recorded.
    forgotten: bool,
}

impl Flow {
    pub(super) fn new(
        place: Arc<Place>,
        ask: Ask,
        verdict: Verdict,
        regime: Arc<Regime>,
        entry: Arc<Entry>,
        permit: Option<Permit>,
    ) -> Self {
        place.outside.metrics.flows.fetch_add(1, Relaxed);
        *locked(&entry.permit) = permit;
        let flow = Self {
            place,
            ask,
            verdict,
            regime,
            entry,
            forgotten: false,
        };
        flow.note();
        flow
    }

    /// Enters in the books what the verdict says.
    fn note(&self) {
        let mut known = locked(&self.entry.known);
        known.terminate = self.verdict.terminate;
        // What may be nothing else is carried without a look, so that nobody will ever find out what it is.
        if self.verdict.schemes.is_opaque() {
            known.ask.scheme = Some(Scheme::Tcp);
        }
    }

    /// Whether the policy that decided it is still the one in force.
    pub(super) fn is_current(&self) -> bool {
        Arc::ptr_eq(&self.place.regime.load(), &self.regime)
    }

    /// Decides anew, by the policy in force. It must be in the books: a change of policy that comes after
    /// this sees it there.
    ///
    /// # Errors
    ///
    /// The verdict that denies it.
    pub(super) fn decide(&mut self) -> Result<(), Verdict> {
        loop {
            let regime = self.place.regime.load_full();
            let verdict = policy::decide(&regime.snapshot, &self.ask.question());
            if !verdict.allows() {
                return Err(verdict);
            }
            self.verdict = verdict;
            self.regime = regime;
            self.note();
            if self.is_current() {
                return Ok(());
            }
        }
    }

    pub(super) const fn forget(&mut self) {
        self.forgotten = true;
    }

    /// Decides anew with what is now known of it: the scheme.
    pub(crate) fn refine(&mut self, scheme: Scheme) -> Result<(), Denial> {
        self.ask.scheme = Some(scheme);
        // In the books first: a change of policy from here on decides by it.
        locked(&self.entry.known).ask.scheme = Some(scheme);
        self.decide()
            .map_err(|verdict| self.place.denied_flow(self, verdict.reason, Some(&verdict)))
    }

    /// What is said of it where it fails for `reason`. Records nothing.
    pub(crate) fn denial(&self, reason: Reason) -> Denial {
        Denial::of(&self.ask, reason).by(&self.verdict)
    }

    /// Resolves, screens all addresses, dials one of them and checks that it is who answered.
    ///
    /// # Cancel safety
    ///
    /// The connection is lost.
    pub(crate) async fn dial(&self) -> Result<TcpStream, Denial> {
        // What a tunnel keeps while it is idle is kept small: this is over soon, and then its memory is free.
        Box::pin(self.try_dial())
            .await
            .map_err(|reason| self.place.denied_flow(self, reason, Some(&self.verdict)))
    }

    async fn try_dial(&self) -> Result<TcpStream, Reason> {
        self.count()?;
        let outside = &self.place.outside;
        if let Host::Name(name) = &self.ask.host {
            // This look-up leaves the host: whoever answers for a wildcard reads the names below it.
            self.place.limiter.name(name)?;
        }
        let found = outside.resolve(&self.ask.host).await?;
        {
            let mut seen = locked(&self.entry.seen);
            seen.ips.clone_from(&found.addresses);
            seen.chain.clone_from(&found.chain);
        }
        outside.screened(&found.addresses, &self.verdict.inward)?;
        if outside.denied(&self.regime.snapshot, &found.addresses) {
            return Err(Reason::DeniedHost);
        }
        let stream = outside.dial(&found.addresses, self.ask.port).await?;
        let peer = stream.peer_addr().map_err(|_| Reason::DialFailed)?;
        self.reached(peer);
        match self.entry.why() {
            Some(why) => Err(why),
            None => Ok(stream),
        }
    }

    /// A request counts once it needs a connection of its own.
    fn count(&self) -> Result<(), Reason> {
        if !self.ask.via.is_request() {
            return Ok(());
        }
        let mut permit = locked(&self.entry.permit);
        if permit.is_none() {
            *permit = Some(self.place.limiter.flow()?);
        }
        Ok(())
    }

    /// Gives it a connection that was made for another flow to the same host and port. False where this one
    /// may not lead there: another rule opened the private range that it is in.
    pub(crate) fn shares(&self, peer: SocketAddr) -> bool {
        let screened = self
            .place
            .outside
            .screened(&[peer.ip()], &self.verdict.inward);
        if screened.is_ok() {
            self.reached(peer);
        }
        screened.is_ok()
    }

    /// What is said of a flow that may not [share](Self::shares) the only connection that there is.
    pub(crate) fn apart(&self) -> Denial {
        self.place
            .denied_flow(self, Reason::AddressPrivate, Some(&self.verdict))
    }

    /// Enters where it leads: a connection that was made for it, or an idle one that it was given. A change
    /// of policy that no longer lets it lead there cuts it.
    pub(crate) fn reached(&self, peer: SocketAddr) {
        locked(&self.entry.known).peer = Some(peer);
        // One that came before this did not know where it leads.
        if !self.still_leads(peer) {
            self.entry.cut_for(Reason::Narrowed);
        }
    }

    /// Whether the policy in force lets it lead to `peer`.
    fn still_leads(&self, peer: SocketAddr) -> bool {
        let regime = self.place.regime.load();
        Arc::ptr_eq(&regime, &self.regime) || self.place.allows(&regime, &self.entry, Some(peer))
    }

    /// The TLS server name that the program inside sent, for the audit.
    pub(crate) fn saw_server_name(&self, name: &str) {
        if self.place.audit.wanted() {
            locked(&self.entry.seen).sni = Some(crate::denial::shown(name));
        }
    }

    /// The protocol that both sides of TLS agreed on, for the audit.
    pub(crate) fn saw_protocol(&self, alpn: &[u8]) {
        if self.place.audit.wanted() {
            let alpn = String::from_utf8_lossy(alpn);
            locked(&self.entry.seen).alpn = Some(crate::denial::shown(&alpn));
        }
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
        self.place.outside.metrics.up.fetch_add(bytes, Relaxed);
        self.place.limiter.up(bytes)
    }

    /// Counts bytes that went into the sandbox, and says when they were too many.
    pub(crate) fn down(&self, bytes: u64) -> Result<(), Reason> {
        self.entry.down.fetch_add(bytes, Relaxed);
        self.place.outside.metrics.down.fetch_add(bytes, Relaxed);
        self.place.limiter.down(bytes)
    }

    /// Ends it in the books, with the reason if it was not of its own accord.
    pub(crate) fn end(self, why: Option<Reason>) {
        if let Some(why) = why {
            self.place.failed(&self, why);
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.place.outside.metrics.flows.fetch_sub(1, Relaxed);
        if !self.forgotten {
            self.place.ended(self);
        }
        self.place.flows.leave(&self.entry);
    }
}
