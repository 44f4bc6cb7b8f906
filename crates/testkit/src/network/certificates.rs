//! Certificates for every name, of an authority that only tests trust.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Names below this one get a certificate for another name.
const WRONG_NAME: &str = ".wrong-name.test";

/// Names below this one get a certificate of an authority that nobody trusts.
const WRONG_AUTHORITY: &str = ".wrong-authority.test";

/// Signs a certificate for each name that it is asked for.
#[derive(Debug)]
pub(super) struct Authority {
    pem: String,
    trusted: Issuer<'static, KeyPair>,
    other: Issuer<'static, KeyPair>,
    leaves: Mutex<BTreeMap<String, Arc<CertifiedKey>>>,
}

impl Authority {
    pub(super) fn new() -> Result<Self, rcgen::Error> {
        let (pem, trusted) = authority("the tests' authority")?;
        let (_, other) = authority("nobody's authority")?;
        Ok(Self {
            pem,
            trusted,
            other,
            leaves: Mutex::default(),
        })
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate and its key, as PEM.
    pub(super) fn signed(&self, names: &[&str]) -> Result<(String, String), rcgen::Error> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        // Strict programs want to be told whose it is, and what it is for.
        params.use_authority_key_identifier_extension = true;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let leaf = params.signed_by(&key, &self.trusted)?;
        Ok((leaf.pem(), key.serialize_pem()))
    }

    fn leaf(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = leaves.get(name) {
            return Some(Arc::clone(known));
        }
        let issuer = if name.ends_with(WRONG_AUTHORITY) {
            &self.other
        } else {
            &self.trusted
        };
        let subject = if name.ends_with(WRONG_NAME) {
            "somebody-else.test"
        } else {
            name
        };
        let key = KeyPair::generate().ok()?;
        let params = CertificateParams::new([subject.to_owned()]).ok()?;
        let leaf = params.signed_by(&key, issuer).ok()?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).ok()?;
        let key = rustls::crypto::ring::sign::any_ecdsa_type(&key).ok()?;
        let leaf = Arc::new(CertifiedKey::new(vec![leaf.der().clone()], key));
        leaves.insert(name.to_owned(), Arc::clone(&leaf));
        Some(leaf)
    }
}

impl ResolvesServerCert for Authority {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.leaf(hello.server_name().unwrap_or("no-name.test"))
    }
}

fn authority(name: &str) -> Result<(String, Issuer<'static, KeyPair>), rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate()?;
    let pem = params.self_signed(&key)?.pem();
    Ok((pem, Issuer::new(params, key)))
}
