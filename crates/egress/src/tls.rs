//! TLS that ends at the boundary, on both sides.
//!
//! Only where a rule needs to see requests: a credential, methods, paths, or because it says so. The
//! outside is dialled and verified first, and only then is the handshake with the program inside
//! completed, with the protocol that the outside chose. There is no way back to plaintext, no client
//! certificate and no encrypted client hello: each of these ends the connection.

use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;

pub(crate) use self::intercept::intercept;

pub(crate) mod ca;
mod deny;
mod h2;
pub(crate) mod hello;
mod intercept;
mod jks;
mod leaf;
mod replay;
#[cfg(test)]
mod tests;
pub(crate) mod trust;
pub(crate) mod upstream;

/// HTTP/2, as ALPN calls it.
pub(crate) const H2: &[u8] = b"h2";
/// HTTP/1.1, as ALPN calls it.
pub(crate) const HTTP1: &[u8] = b"http/1.1";

/// The cryptography of both sides. Named everywhere, so that it does not depend on what else in the
/// process has installed a default.
pub(crate) fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));
    &PROVIDER
}
