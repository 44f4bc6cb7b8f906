//! What all sandboxes share: how names are resolved, addresses screened and connections made.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use ipnet::IpNet;
use namzu_types::EgressLimits;
use tokio::time::timeout;

use super::dial;
use super::own::Own;
use crate::audit::Audit;
use crate::lookup::{Answer, Lookup};
use crate::metrics::Metrics;
use crate::policy::Snapshot;
use crate::relay::stock::Stock;
use crate::screen::Screen;
use crate::tls::trust::Bundle;
use crate::{Host, Reason};

/// For a name to resolve.
const LOOKUP: Duration = Duration::from_secs(5);
/// For a connection, over all addresses.
const DIAL: Duration = Duration::from_secs(10);
/// More addresses than this are no answer that anybody needs.
const MOST_ADDRESSES: usize = 64;

/// What all sandboxes share.
pub(crate) struct Outside {
    pub(crate) lookup: Arc<dyn Lookup>,
    pub(crate) screen: ArcSwap<Screen>,
    pub(crate) own: Own,
    pub(crate) audit: Audit,
    pub(crate) metrics: Arc<Metrics>,
    /// Whom the outside is verified with.
    pub(crate) roots: Arc<rustls::RootCertStore>,
    /// The same in the forms that programs inside read.
    pub(crate) bundle: Arc<Bundle>,
    /// Pipes and buffers that no relay has at the moment.
    pub(crate) stock: Stock,
    /// What a policy leaves out.
    pub(crate) limits: EgressLimits,
}

impl Outside {
    /// With nothing but a way to resolve names: no roots, no audit, no addresses of its own.
    #[cfg(test)]
    pub(crate) fn bare(lookup: Arc<dyn Lookup>) -> Self {
        let (roots, bundle) = crate::tls::trust::of(&[]);
        Self {
            lookup,
            screen: ArcSwap::default(),
            own: Own::fixed(),
            audit: Audit::default(),
            metrics: Arc::default(),
            roots,
            bundle,
            stock: Stock::default(),
            limits: EgressLimits::default(),
        }
    }

    /// The addresses of a host that was allowed.
    pub(crate) async fn resolve(&self, host: &Host) -> Result<Answer, Reason> {
        let name = match host {
            Host::Address(address) => {
                return Ok(Answer {
                    addresses: vec![*address],
                    chain: Vec::new(),
                });
            }
            Host::Name(name) => name,
        };
        let found = timeout(LOOKUP, self.lookup.lookup(name)).await;
        let found = found.map_err(|_| Reason::LookupFailed).and_then(|found| {
            found.map_err(|why| {
                tracing::debug!(%name, %why, "a name did not resolve");
                Reason::LookupFailed
            })
        });
        self.metrics.lookups.count(&found);
        let mut answer = found?;
        for address in &mut answer.addresses {
            *address = address.to_canonical();
        }
        if answer.addresses.len() > MOST_ADDRESSES {
            return Err(Reason::LookupFailed);
        }
        Ok(answer)
    }

    /// Screens the whole set: one bad address spoils it, for who answers so is not to be trusted with the
    /// others.
    pub(crate) fn screened(&self, addresses: &[IpAddr], inward: &[IpNet]) -> Result<(), Reason> {
        self.own.refresh(&self.screen);
        self.screen.load().check_all(addresses, inward)
    }

    /// Whether a policy's `deniedHosts` name one of `addresses`, however this host's network spells it.
    pub(crate) fn denied(&self, snapshot: &Snapshot, addresses: &[IpAddr]) -> bool {
        let screen = self.screen.load();
        addresses
            .iter()
            .any(|at| snapshot.denies_address(*at, &screen.nat64))
    }

    /// Connects to one of `addresses`, which were screened.
    pub(crate) async fn dial(
        &self,
        addresses: &[IpAddr],
        port: u16,
    ) -> Result<tokio::net::TcpStream, Reason> {
        let targets = addresses.iter().map(|at| SocketAddr::new(*at, port));
        let dialled = match timeout(DIAL, dial::any(targets.collect())).await {
            Ok(Some(stream)) => Ok(stream),
            Ok(None) => Err(Reason::DialFailed),
            Err(_) => Err(Reason::Deadline),
        };
        self.metrics.dials.count(&dialled);
        dialled
    }
}
