//! The outside's half: who it is is proved before a byte of a request leaves.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Resumption};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{H2, HTTP1, provider};
use crate::denial::Denial;
use crate::place::Flow;
use crate::{Host, Reason};

/// For a handshake.
const DEADLINE: Duration = Duration::from_secs(10);
/// Sessions that can be resumed, of all hosts of a sandbox.
const SESSIONS: usize = 512;

/// What the connections of one sandbox to the outside share. Another sandbox resumes no session of it.
#[derive(Debug, Default)]
pub(crate) struct Upstream {
    sessions: OnceLock<Arc<dyn ClientSessionStore>>,
    /// By which protocols are offered.
    configs: [OnceLock<Arc<ClientConfig>>; 4],
}

impl Upstream {
    /// The settings that offer those of `alpn` that the boundary speaks.
    fn config(
        &self,
        roots: &Arc<RootCertStore>,
        alpn: &[&[u8]],
    ) -> Result<Arc<ClientConfig>, rustls::Error> {
        let h2 = alpn.contains(&H2);
        let http1 = alpn.contains(&HTTP1);
        let slot = &self.configs[usize::from(h2) << 1 | usize::from(http1)];
        if let Some(config) = slot.get() {
            return Ok(Arc::clone(config));
        }
        let mut config = verifying(roots)?;
        let sessions = self
            .sessions
            .get_or_init(|| Arc::new(ClientSessionMemoryCache::new(SESSIONS)));
        config.resumption = Resumption::store(Arc::clone(sessions));
        for (offered, protocol) in [(h2, H2), (http1, HTTP1)] {
            if offered {
                config.alpn_protocols.push(protocol.to_vec());
            }
        }
        Ok(Arc::clone(slot.get_or_init(|| Arc::new(config))))
    }
}

/// TLS 1.2 and 1.3, no client certificate.
fn verifying(roots: &Arc<RootCertStore>) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider()))
        .with_protocol_versions(rustls::ALL_VERSIONS)?;
    Ok(builder
        .with_root_certificates(Arc::clone(roots))
        .with_no_client_auth())
}

/// Makes `tcp`, which was dialled for `flow`, a TLS connection to the flow's host, and verifies that it
/// is: to the name that was decided about, never to one that somebody sent later.
///
/// # Errors
///
/// [`Reason::UpstreamTls`]; [`Reason::Deadline`] after 10 s.
///
/// # Cancel safety
///
/// The connection is lost.
pub(crate) async fn connect(
    flow: &Flow,
    tcp: TcpStream,
    alpn: &[&[u8]],
) -> Result<TlsStream<TcpStream>, Denial> {
    let denied = |reason| flow.denial(reason);
    let Some(name) = server_name(&flow.ask.host) else {
        return Err(denied(Reason::UpstreamTls));
    };
    let roots = &flow.place.outside.roots;
    let Ok(config) = flow.place.upstream.config(roots, alpn) else {
        return Err(denied(Reason::Internal));
    };
    match timeout(DEADLINE, TlsConnector::from(config).connect(name, tcp)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(why)) => {
            note(flow, &why);
            Err(denied(Reason::UpstreamTls))
        }
        Err(_) => Err(denied(Reason::Deadline)),
    }
}

fn note(flow: &Flow, why: &io::Error) {
    tracing::debug!(host = %flow.ask.host, port = flow.ask.port, %why, "the outside did not prove who it is");
}

fn server_name(host: &Host) -> Option<ServerName<'static>> {
    match host {
        Host::Name(name) => ServerName::try_from(name.as_str().to_owned()).ok(),
        Host::Address(address) => Some(ServerName::IpAddress((*address).into())),
    }
}
