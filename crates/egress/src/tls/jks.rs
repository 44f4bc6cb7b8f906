//! A Java key store that holds nothing but trusted certificates: the JVM reads no PEM.
//!
//! The format of JDK 1.2, which every JVM since then reads whatever its default is. Only the parts that
//! the certificates of this host's roots need; the rest of what a key store can hold is not written.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::CertificateDer;

/// Opens it. Guards nothing: what is inside is public. It is the one that every tool tries.
pub(super) const PASSWORD: &str = "changeit";

const MAGIC: u32 = 0xFEED_FEED;
const VERSION: u32 = 2;
const TRUSTED: u32 = 2;
/// Between the password and the content in what the digest is made of.
const SALT: &[u8] = b"Mighty Aphrodite";

/// A key store that waits for one more certificate: what is the same for every sandbox is made once.
pub(super) struct Unfinished {
    bytes: Vec<u8>,
    digest: Context,
}

impl Unfinished {
    /// With all of `certificates`.
    pub(super) fn with(certificates: &[CertificateDer<'_>]) -> Self {
        let certificates = || certificates.iter().filter(|one| fits(one));
        let count = u32::try_from(certificates().count() + 1).unwrap_or(u32::MAX);
        let mut bytes = Vec::new();
        for number in [MAGIC, VERSION, count] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        for (at, certificate) in certificates().enumerate() {
            entry(&mut bytes, &format!("host-{at}"), certificate);
        }
        let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        for unit in PASSWORD.encode_utf16() {
            digest.update(&unit.to_be_bytes());
        }
        digest.update(SALT);
        digest.update(&bytes);
        Self { bytes, digest }
    }

    /// The key store, with `certificate` too.
    pub(super) fn finish(&self, certificate: &CertificateDer<'_>) -> Vec<u8> {
        let start = self.bytes.len();
        let mut bytes = Vec::with_capacity(start + certificate.len() + 128);
        bytes.extend_from_slice(&self.bytes);
        entry(&mut bytes, "namzu-egress", certificate);
        let mut digest = self.digest.clone();
        digest.update(&bytes[start..]);
        bytes.extend_from_slice(digest.finish().as_ref());
        bytes
    }
}

fn fits(certificate: &CertificateDer<'_>) -> bool {
    u32::try_from(certificate.len()).is_ok()
}

fn entry(into: &mut Vec<u8>, alias: &str, certificate: &CertificateDer<'_>) {
    into.extend_from_slice(&TRUSTED.to_be_bytes());
    text(into, alias);
    // When it was put in, which nobody asks.
    into.extend_from_slice(&0_u64.to_be_bytes());
    text(into, "X.509");
    into.extend_from_slice(&u32::try_from(certificate.len()).unwrap_or(0).to_be_bytes());
    into.extend_from_slice(certificate);
}

/// ASCII only, for which the format's own UTF-8 is UTF-8.
fn text(into: &mut Vec<u8>, text: &str) {
    into.extend_from_slice(&u16::try_from(text.len()).unwrap_or(0).to_be_bytes());
    into.extend_from_slice(text.as_bytes());
}
