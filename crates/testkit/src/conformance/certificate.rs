//! A certificate authority of the suite's own world.

use std::sync::Arc;

use namzu_core::{Error, ErrorCode, Result};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// Signs the certificates of the world's servers.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

fn failed(err: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorCode::Internal, "make a certificate for the suite").with_source(err)
}

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate,
        })
    }

    /// Its own certificate, to be trusted.
    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Accepts TLS as `host`.
    pub(crate) fn acceptor(&self, host: &str) -> Result<TlsAcceptor> {
        let key = KeyPair::generate().map_err(failed)?;
        let params = CertificateParams::new([host.to_owned()]).map_err(failed)?;
        let leaf = params.signed_by(&key, &self.issuer).map_err(failed)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .map_err(failed)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
