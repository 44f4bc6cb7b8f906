//! What all sandboxes share: how names are resolved, addresses screened and connections made.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use ipnet::IpNet;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::audit::Audit;
use crate::lookup::{Answer, Lookup};
use crate::metrics::Metrics;
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
    pub(crate) audit: Audit,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) roots: Arc<rustls::RootCertStore>,
    /// The same roots, in the forms that programs inside read.
    pub(crate) trust: Arc<Bundle>,
}

impl Outside {
    /// With nothing but a way to resolve names: no roots, no audit, no addresses of its own.
    pub(crate) fn bare(lookup: Arc<dyn Lookup>) -> Self {
        Self {
            lookup,
            screen: ArcSwap::default(),
            audit: Audit::default(),
            metrics: Arc::default(),
            roots: Arc::new(rustls::RootCertStore::empty()),
            trust: Arc::new(Bundle::of(&[])),
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
        let mut answer = match timeout(LOOKUP, self.lookup.lookup(name)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => {
                tracing::debug!(%name, %why, "a name did not resolve");
                return Err(Reason::LookupFailed);
            }
            Err(_) => return Err(Reason::LookupFailed),
        };
        for address in &mut answer.addresses {
            *address = address.to_canonical();
        }
        let count = answer.addresses.len();
        if count == 0 || count > MOST_ADDRESSES {
            return Err(Reason::LookupFailed);
        }
        Ok(answer)
    }

    /// Screens the whole set: one bad address spoils it, for who answers so is not to be trusted with the
    /// others.
    pub(crate) fn screened(&self, addresses: &[IpAddr], inward: &[IpNet]) -> Result<(), Reason> {
        let screen = self.screen.load();
        addresses
            .iter()
            .try_for_each(|address| screen.check(*address, inward))
    }

    /// Connects to one of `addresses`, which were screened.
    pub(crate) async fn dial(&self, addresses: &[IpAddr], port: u16) -> Result<TcpStream, Reason> {
        let deadline = tokio::time::Instant::now() + DIAL;
        for (at, address) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let share = left / u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
            let target = SocketAddr::new(*address, port);
            let Ok(Ok(stream)) = timeout(share, TcpStream::connect(target)).await else {
                continue;
            };
            if stream.peer_addr().is_ok_and(|peer| peer == target) {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
        }
        Err(Reason::DialFailed)
    }
}
