//! The certificate of each host, made when it is first needed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rcgen::{ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose, SanType};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SigningKey};

use super::ca::{CaError, validity};
use super::provider;
use crate::Host;
use crate::lock::locked;

/// How long a certificate is good for.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long it is handed out: the last one who gets it may hold on to it for a while.
const FRESH: Duration = Duration::from_secs(3 * 24 * 60 * 60);
/// Hosts whose certificates are kept. A wildcard rule lets a program inside name any number.
const KEPT: usize = 256;

/// The certificates of one authority. They share one key: only this process holds it, and what makes a
/// certificate costly is the key.
pub(super) struct Leaves {
    key: KeyPair,
    signer: Arc<dyn SigningKey>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Counts uses, so that the one that was used longest ago can be told.
    clock: u64,
    leaves: HashMap<Host, Leaf>,
}

struct Leaf {
    certified: Arc<CertifiedKey>,
    made: Instant,
    used: u64,
}

/// Answers every handshake with one certificate: whom the connection is for was checked before.
#[derive(Debug)]
pub(super) struct Fixed(pub(super) Arc<CertifiedKey>);

impl ResolvesServerCert for Fixed {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

impl Leaves {
    /// Makes the key.
    pub(super) fn generate() -> Result<Self, CaError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
            .map_err(|why| CaError::of(&why))?;
        let pkcs8 = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
        let signer = provider()
            .key_provider
            .load_private_key(pkcs8.into())
            .map_err(|why| CaError::of(&why))?;
        Ok(Self {
            key,
            signer,
            kept: Mutex::default(),
        })
    }

    /// The certificate of `host`, with its key.
    pub(super) fn get(
        &self,
        host: &Host,
        issuer: &Issuer<'_, KeyPair>,
    ) -> Result<Arc<CertifiedKey>, CaError> {
        let now = Instant::now();
        if let Some(found) = locked(&self.kept).find(host, now) {
            return Ok(found);
        }
        // Without the lock: two that need the same at once make it twice, and nobody waits.
        let certified = Arc::new(self.mint(host, issuer)?);
        locked(&self.kept).keep(host.clone(), Arc::clone(&certified), now);
        Ok(certified)
    }

    fn mint(&self, host: &Host, issuer: &Issuer<'_, KeyPair>) -> Result<CertifiedKey, CaError> {
        let mut params = validity(LIFETIME)?;
        params.subject_alt_names = vec![match host {
            Host::Name(name) => {
                SanType::DnsName(name.as_str().try_into().map_err(|why| CaError::of(&why))?)
            }
            Host::Address(address) => SanType::IpAddress(*address),
        }];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Strict verifiers, such as Python's since 3.13, ask for it.
        params.use_authority_key_identifier_extension = true;
        let certificate = params
            .signed_by(&self.key, issuer)
            .map_err(|why| CaError::of(&why))?;
        Ok(CertifiedKey::new(
            vec![certificate.der().clone()],
            Arc::clone(&self.signer),
        ))
    }
}

impl Kept {
    fn find(&mut self, host: &Host, now: Instant) -> Option<Arc<CertifiedKey>> {
        self.clock += 1;
        let leaf = self.leaves.get_mut(host)?;
        if now.duration_since(leaf.made) > FRESH {
            return None;
        }
        leaf.used = self.clock;
        Some(Arc::clone(&leaf.certified))
    }

    fn keep(&mut self, host: Host, certified: Arc<CertifiedKey>, now: Instant) {
        if self.leaves.len() >= KEPT && !self.leaves.contains_key(&host) {
            self.forget_one();
        }
        let leaf = Leaf {
            certified,
            made: now,
            used: self.clock,
        };
        self.leaves.insert(host, leaf);
    }

    /// Forgets the one that was used longest ago.
    fn forget_one(&mut self) {
        let oldest = self
            .leaves
            .iter()
            .min_by_key(|(_, leaf)| leaf.used)
            .map(|(host, _)| host.clone());
        if let Some(oldest) = oldest {
            self.leaves.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::tls::ca::Ca;

    fn host(number: u32) -> Host {
        Host::Address(IpAddr::V4(Ipv4Addr::from_bits(0xCB00_0000 + number)))
    }

    #[test]
    fn a_certificate_is_made_once_and_used_again() {
        let ca = Ca::generate().unwrap();
        let first = ca.leaf(&host(1)).unwrap();
        assert!(Arc::ptr_eq(&first, &ca.leaf(&host(1)).unwrap()));
        assert!(!Arc::ptr_eq(&first, &ca.leaf(&host(2)).unwrap()));
    }

    #[test]
    fn a_stale_certificate_is_not_handed_out() {
        let mut kept = Kept::default();
        let ca = Ca::generate().unwrap();
        let now = Instant::now();
        kept.keep(host(1), ca.leaf(&host(1)).unwrap(), now);
        assert!(kept.find(&host(1), now + FRESH).is_some());
        assert!(
            kept.find(&host(1), now + FRESH + Duration::from_secs(1))
                .is_none()
        );
    }

    #[test]
    fn however_many_hosts_are_named_the_certificates_kept_are_bounded() {
        let mut kept = Kept::default();
        let ca = Ca::generate().unwrap();
        let leaf = ca.leaf(&host(0)).unwrap();
        let now = Instant::now();
        for number in 0..2_000 {
            // The first stays in use all the time.
            assert!(number == 0 || kept.find(&host(0), now).is_some());
            kept.keep(host(number), Arc::clone(&leaf), now);
            assert!(kept.leaves.len() <= KEPT);
        }
        assert!(kept.find(&host(1_999), now).is_some());
        assert!(kept.find(&host(1), now).is_none());
    }
}
