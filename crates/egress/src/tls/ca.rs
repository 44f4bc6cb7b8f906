//! The certificate authority of one sandbox: made with it, kept in memory, gone with it.
//!
//! It carries no name constraints. They are fixed when the certificate is made, but a policy changes
//! while the sandbox runs: a rule added later would meet programs that call its certificate invalid for
//! no reason that they can name. They would guard nothing either: the key never leaves this process,
//! the certificate is trusted in one sandbox only, and whether a connection is ended here is decided
//! by the policy in force, not by what the authority could sign.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    SerialNumber,
};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::ServerSessionMemoryCache;
use rustls::sign::CertifiedKey;

use super::leaf::{Fixed, Leaves};
use super::provider;
use crate::Host;

/// Before a sandbox was made its clock may well be, after a pause or a restored snapshot.
pub(super) const BACKDATED: Duration = Duration::from_secs(24 * 60 * 60);
/// The certificate cannot be exchanged inside a running sandbox, so it must outlast the longest; time
/// adds nothing to its safety, for the key is gone with the sandbox.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Sessions that programs inside may resume, besides those in tickets.
const SESSIONS: usize = 256;

/// Why an authority or a certificate could not be made. Says nothing of keys.
#[derive(Debug, thiserror::Error)]
#[error("the boundary's certificates could not be made: {0}")]
pub(crate) struct CaError(String);

/// An authority.
pub(crate) struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
    leaves: Leaves,
    /// Without protocols and certificate, which differ by connection.
    template: ServerConfig,
}

impl CaError {
    pub(super) fn of(why: &impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

impl Ca {
    /// Makes one. Takes about as long as two signatures.
    ///
    /// # Errors
    ///
    /// Those of the random source.
    pub(crate) fn generate() -> Result<Self, CaError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
            .map_err(|why| CaError::of(&why))?;
        let mut params = validity(LIFETIME)?;
        // Two authorities that a nested sandbox meets must not have the same name.
        let mark: u64 = u64::from_be_bytes(random()?);
        params.distinguished_name.push(
            DnType::CommonName,
            format!("namzu-sandbox egress {mark:016x}"),
        );
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(|why| CaError::of(&why))?;
        Ok(Self {
            issuer,
            leaves: Leaves::generate()?,
            template: template()?,
        })
    }

    /// Its certificate, as PEM with a final line end.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Its certificate.
    pub(crate) fn der(&self) -> &CertificateDer<'static> {
        self.issuer.der()
    }

    /// The certificate and key of `host`; made now if there is none that is fresh.
    pub(super) fn leaf(&self, host: &Host) -> Result<Arc<CertifiedKey>, CaError> {
        self.leaves.get(host, &self.issuer)
    }

    /// What the boundary answers a handshake for `host` with; `protocol` is what it says it speaks, if
    /// it was asked.
    pub(super) fn server(
        &self,
        host: &Host,
        protocol: Option<&[u8]>,
    ) -> Result<Arc<ServerConfig>, CaError> {
        let mut config = self.template.clone();
        config.cert_resolver = Arc::new(Fixed(self.leaf(host)?));
        config.alpn_protocols = protocol.map(<[u8]>::to_vec).into_iter().collect();
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ca").finish_non_exhaustive()
    }
}

/// Parameters that are valid from a while ago until `lifetime` from now, with a serial number that
/// nobody else has: some programs refuse two certificates of one issuer with the same.
pub(super) fn validity(lifetime: Duration) -> Result<CertificateParams, CaError> {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_err(|why| CaError::of(&why))?;
    let mut params = CertificateParams::default();
    params.not_before = epoch + now.saturating_sub(BACKDATED);
    params.not_after = epoch + now + lifetime;
    let mut serial: [u8; 16] = random()?;
    // Positive, and of full length.
    serial[0] = serial[0] & 0x3f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "namzu-sandbox egress");
    Ok(params)
}

fn random<const N: usize>() -> Result<[u8; N], CaError> {
    let mut bytes = [0; N];
    provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| CaError("no random bytes".to_owned()))?;
    Ok(bytes)
}

/// Sessions are shared by all certificates of the sandbox: they are told apart by the server name that
/// they were made under. No early data, which could be replayed.
fn template() -> Result<ServerConfig, CaError> {
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| CaError::of(&why))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new()));
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(|why| CaError::of(&why))?;
    // One spare is enough for programs that open connections one after the other, and each costs a
    // record and an encryption.
    config.send_tls13_tickets = 1;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    fn accepts(ca: &Ca, leaf: &CertifiedKey, name: &str) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(ca.der().clone()).unwrap();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider()))
                .build()
                .unwrap();
        verifier
            .verify_server_cert(
                &leaf.cert[0],
                &leaf.cert[1..],
                &ServerName::try_from(name.to_owned()).unwrap(),
                &[],
                UnixTime::now(),
            )
            .is_ok()
    }

    fn name(text: &str) -> Host {
        Host::Name(crate::Name::parse(text).unwrap())
    }

    #[test]
    fn a_leaf_is_good_for_its_name_and_no_other() {
        let ca = Ca::generate().unwrap();
        let leaf = ca.leaf(&name("api.allowed.test")).unwrap();
        assert!(accepts(&ca, &leaf, "api.allowed.test"));
        assert!(!accepts(&ca, &leaf, "allowed.test"));
        assert!(!accepts(&ca, &leaf, "x.api.allowed.test"));
    }

    #[test]
    fn an_address_gets_a_certificate_for_the_address() {
        let ca = Ca::generate().unwrap();
        for address in ["203.0.113.7", "2001:db8::7"] {
            let leaf = ca.leaf(&Host::Address(address.parse().unwrap())).unwrap();
            assert!(accepts(&ca, &leaf, address), "{address}");
            assert!(!accepts(&ca, &leaf, "203.0.113.8"));
        }
    }

    #[test]
    fn one_sandbox_does_not_trust_the_certificates_of_another() {
        let ours = Ca::generate().unwrap();
        let theirs = Ca::generate().unwrap();
        let leaf = theirs.leaf(&name("api.allowed.test")).unwrap();
        assert!(!accepts(&ours, &leaf, "api.allowed.test"));
        assert_ne!(ours.pem(), theirs.pem());
    }

    #[test]
    fn a_name_as_long_as_names_get_has_a_certificate() {
        let ca = Ca::generate().unwrap();
        let label = "a".repeat(61);
        let long = format!("{label}.{label}.{label}.{label}.test");
        let leaf = ca.leaf(&name(&long)).unwrap();
        assert!(accepts(&ca, &leaf, &long));
    }

    #[test]
    fn what_is_printed_of_an_authority_holds_no_key() {
        let ca = Ca::generate().unwrap();
        assert_eq!(format!("{ca:?}"), "Ca { .. }");
    }
}
