//! A host outside with a certificate, a sandbox with a policy, and a way for a program to connect.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tempfile::NamedTempFile;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use crate::audit::Audit;
use crate::audit::tests::{Memory, until};
use crate::place::testing::{Table, outside, place_with, policy};
use crate::place::{Ask, Place, Via};
use crate::stream::Inside;
use crate::tls::intercept::intercept;
use crate::tls::provider;
use crate::{Host, Scheme};

/// The host that rules name.
pub(super) const HOST: &str = "api.allowed.test";
/// What rules that name the credential `token` put into requests, after `Bearer `.
pub(super) const SECRET: &str = "s3cr3t-of-the-host";

/// Who vouches for hosts outside.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A sandbox and the port of the host outside.
pub(super) struct Ground {
    pub(super) place: Arc<Place>,
    pub(super) port: u16,
    /// What was recorded.
    pub(super) audit: Arc<Memory>,
    secret: NamedTempFile,
}

/// A program's TLS connection to the boundary.
pub(super) type Program = client::TlsStream<TcpStream>;

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn settings(&self, name: &str, alpn: &[&[u8]]) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::clone(provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|one| one.to_vec()).collect();
        config
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }
}

/// Serves TLS connections as `name` with `serve`.
async fn outside_host<F>(
    settings: ServerConfig,
    serve: impl Fn(server::TlsStream<TcpStream>) -> F + Send + Sync + 'static,
) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(settings));
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            // Whoever does not trust it breaks off.
            if let Ok(stream) = acceptor.accept(tcp).await {
                tokio::spawn(serve(stream));
            }
        }
    });
    port
}

impl Ground {
    /// A host that speaks `alpn` and is served by `serve`; the only rule ends its TLS at the boundary.
    pub(super) async fn new<F>(
        alpn: &[&[u8]],
        serve: impl Fn(server::TlsStream<TcpStream>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::with(HOST, alpn, "", serve).await
    }

    /// The host's certificate is for `name`; `more` are fields of the rule.
    pub(super) async fn with<F>(
        name: &str,
        alpn: &[&[u8]],
        more: &str,
        serve: impl Fn(server::TlsStream<TcpStream>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let authority = Authority::new();
        let port = outside_host(authority.settings(name, alpn), serve).await;
        let mut outside = outside(Table::loopback(&[HOST]));
        outside.roots = Arc::new(authority.roots());
        let audit = Arc::new(Memory::default());
        let metrics = Arc::clone(&outside.metrics);
        outside.audit = Audit::start(Arc::clone(&audit) as _, metrics).unwrap();
        let mut secret = NamedTempFile::new().unwrap();
        secret.write_all(SECRET.as_bytes()).unwrap();
        let rules = policy(&rules(port, more, secret.path()));
        Self {
            place: place_with(&rules, outside).await,
            port,
            audit,
            secret,
        }
    }

    /// Where one program may connect, as if it had asked a door for the host.
    pub(super) async fn door(&self) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let ask = Ask {
            via: Via::Connect,
            host: Host::parse(HOST).unwrap(),
            port: self.port,
            scheme: Some(Scheme::Https),
            request: None,
        };
        let place = Arc::clone(&self.place);
        tokio::spawn(async move {
            let (mut inside, _) = listener.accept().await.unwrap();
            let flow = match place.admit(ask).await {
                Ok(flow) => flow,
                Err(denial) => panic!("{denial:?}"),
            };
            // As a door has it: the first bytes were looked at.
            let mut early = BytesMut::with_capacity(64);
            inside.read_buf(&mut early).await.unwrap();
            intercept(flow, Inside::Tcp(inside), early).await;
        });
        address
    }

    /// Waits until the end of a flow was recorded as having ended for `reason`.
    pub(super) async fn ended_for(&self, reason: &str) {
        let reason = format!(r#""reason":"{reason}""#);
        let says = |line: &String| line.contains(r#""event":"end""#) && line.contains(&reason);
        until(async || self.audit.lines.lock().unwrap().iter().any(says)).await;
    }

    /// A program that trusts the sandbox's authority and nobody else.
    pub(super) async fn connect(&self, alpn: &[&[u8]]) -> Program {
        self.connect_as(HOST, alpn).await.unwrap()
    }

    /// One that sends another server name.
    pub(super) async fn connect_as(&self, name: &str, alpn: &[&[u8]]) -> std::io::Result<Program> {
        let mut roots = RootCertStore::empty();
        let ca = self.place.ca.as_ref().unwrap();
        roots.add(ca.der().clone()).unwrap();
        self.connect_trusting(roots, name, alpn).await
    }

    /// One that trusts whom it likes.
    pub(super) async fn connect_trusting(
        &self,
        roots: RootCertStore,
        name: &str,
        alpn: &[&[u8]],
    ) -> std::io::Result<Program> {
        let mut config = ClientConfig::builder_with_provider(Arc::clone(provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|one| one.to_vec()).collect();
        let tcp = TcpStream::connect(self.door().await).await?;
        TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from(name.to_owned()).unwrap(), tcp)
            .await
    }

    /// Puts the same rule in force, with other fields.
    pub(super) async fn change(&self, more: &str) {
        let rules = policy(&rules(self.port, more, self.secret.path()));
        self.place.change(&rules).await.unwrap();
    }

    /// Puts a policy in force that allows nothing of what the first did.
    pub(super) async fn narrow(&self) {
        let nothing = policy(r#"{"kind": "deny-all"}"#);
        self.place.change(&nothing).await.unwrap();
    }
}

fn rules(port: u16, more: &str, secret: &Path) -> String {
    let token = format!(
        r#""token": {{"mode": "inject", "header": "authorization", "format": "Bearer {{}}",
                      "source": {{"file": {secret:?}}}}}"#
    );
    // One that no rule uses is refused.
    let credentials = if more.contains("credential") {
        &*token
    } else {
        ""
    };
    format!(
        r#"{{"kind": "static",
            "rules": [{{"host": "{HOST}", "ports": [{port}], "tls": "terminate",
                        "inward": ["127.0.0.1/32"] {more}}}],
            "credentials": {{{credentials}}}}}"#
    )
}
