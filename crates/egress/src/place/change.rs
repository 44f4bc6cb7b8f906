//! Another policy comes into force, and what it no longer allows ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use namzu_types::EgressPolicy;
use tokio::time::timeout;

use super::registry::Entry;
use super::{Place, Regime};
use crate::boundary::Change;
use crate::lock::locked;
use crate::{Reason, Scheme, policy};

/// How long flows that were told to end are waited for.
const GONE: Duration = Duration::from_millis(250);

impl Place {
    /// Puts another policy in force, and waits until what it does not allow has ended: each flow was told
    /// when this returns, and is over unless its task takes longer than 250 ms to hear of it.
    ///
    /// # Errors
    ///
    /// Every reason; the old policy stays.
    ///
    /// # Cancel safety
    ///
    /// Either policy is in force, whole; flows that had to end do.
    pub(crate) async fn change(&self, policy: &EgressPolicy) -> Result<Change, Vec<String>> {
        let changing = self.changing.lock().await;
        let now = self.regime.load_full();
        let generation = now.snapshot.generation + 1;
        let defaults = &self.outside.limits;
        let next = Regime::load(policy, generation, Some(&now.broker), defaults).await?;
        if next.snapshot.terminates() && self.ca.is_none() {
            return Err(vec![NO_CA.to_owned()]);
        }
        let (kept, lost) = self.enforce(next);
        drop(changing);
        // Those that are still there were told, and can do no more than find out.
        let _ = timeout(GONE, self.flows.without(&lost)).await;
        Ok(Change {
            generation,
            kept,
            cut: lost.len(),
        })
    }

    /// Asks the resolver, where the policy is one, and puts its answer in force if it is another.
    pub(super) async fn consult(&self) -> Result<(), Reason> {
        let regime = self.regime.load_full();
        let Some(source) = &regime.source else {
            return Ok(());
        };
        let hosts = source.hosts(&self.outside.metrics).await;
        let hosts = hosts.ok_or(Reason::ResolverFailed)?;
        if regime.hosts == hosts {
            return Ok(());
        }
        let _changing = self.changing.lock().await;
        // Somebody else may have been faster, or the policy be another by now.
        let now = self.regime.load_full();
        let same = now.source.as_ref().is_some_and(|s| Arc::ptr_eq(s, source));
        if !same || now.hosts == hosts {
            return Ok(());
        }
        match now.answered(hosts) {
            Ok(next) => {
                self.enforce(next);
                Ok(())
            }
            Err(reasons) => {
                tracing::warn!(sandbox = %self.id, ?reasons, "a resolver gave no valid list of hosts");
                Err(Reason::ResolverFailed)
            }
        }
    }

    /// Puts a regime in force; only while `changing` is held. How many flows it keeps, and those it cut.
    fn enforce(&self, next: Regime) -> (usize, Vec<Arc<Entry>>) {
        let next = Arc::new(next);
        self.limiter.set(&next.limits);
        self.regime.store(Arc::clone(&next));
        // After the store: whoever takes a connection from now on was decided by the new policy.
        self.pool.flush();
        let mut kept = 0;
        let mut lost = Vec::new();
        for entry in self.flows.live() {
            if self.allows(&next, &entry, None) {
                kept += 1;
            } else {
                entry.cut_for(Reason::Narrowed);
                lost.push(entry);
            }
        }
        self.changed(next.snapshot.generation, kept, lost.len());
        (kept, lost)
    }

    /// Whether `regime` lets a flow go on as it is.
    pub(super) fn allows(&self, regime: &Regime, entry: &Entry, peer: Option<SocketAddr>) -> bool {
        let known = locked(&entry.known);
        let verdict = policy::decide(&regime.snapshot, &known.ask.question());
        if !verdict.allows() {
            return false;
        }
        // What the policy now wants to look into was let through unseen.
        let unseen = known.ask.scheme == Some(Scheme::Https) && known.ask.request.is_none();
        if unseen && verdict.terminate && !known.terminate {
            return false;
        }
        let Some(peer) = peer.or(known.peer) else {
            return true;
        };
        let screened = self.outside.screened(&[peer.ip()], &verdict.inward);
        screened.is_ok() && !self.outside.denied(&regime.snapshot, &[peer.ip()])
    }
}

/// Why a policy cannot come into force later.
const NO_CA: &str = "a rule ends TLS at the boundary (it has a credential, methods, paths or `tls: terminate`), \
     but nothing in this sandbox trusts the boundary's CA: no rule did when the sandbox was made";
