//! What a sandbox must find so that its programs trust the boundary, whatever they are written in.
//!
//! Most programs take *one* file instead of the system's, so that file holds the host's roots as well:
//! connections that pass through the boundary unopened still have to be verified. It lies at a path of
//! its own, which the variables name, and over the system's stores for programs that read no variable.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use namzu_core::egress::WiredFile;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::ca::Ca;
use super::jks::{PASSWORD, Unfinished};

/// The boundary's own certificate, for programs that add it to what they trust already.
pub(crate) const CA: &str = "/etc/namzu/ca.pem";
/// All roots, for programs that replace what they trust.
pub(crate) const BUNDLE: &str = "/etc/namzu/ca-bundle.pem";
/// All roots, for the JVM.
pub(crate) const KEYSTORE: &str = "/etc/namzu/cacerts.jks";

/// Where distributions keep all roots in one PEM file; a link to another of these is one too.
const STORES: [&str; 5] = [
    // Debian, Alpine, Arch, Gentoo, NixOS
    "/etc/ssl/certs/ca-certificates.crt",
    // Fedora and its kin, by name and by where the name leads
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    // SUSE
    "/etc/ssl/ca-bundle.pem",
    // OpenSSL's own default, e.g. on Alpine
    "/etc/ssl/cert.pem",
];

/// Where distributions keep the roots of their JVM.
const KEYSTORES: [&str; 2] = [
    "/etc/ssl/certs/java/cacerts",
    "/etc/pki/ca-trust/extracted/java/cacerts",
];

/// Variables that replace what a program trusts.
const REPLACING: [&str; 15] = [
    // OpenSSL, and with it Python, Ruby, PHP and Rust's native-tls; Go; uv; .NET
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "NIX_SSL_CERT_FILE",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "HTTPLIB2_CA_CERTS",
    "PERL_LWP_SSL_CA_FILE",
    "COMPOSER_CAFILE",
    "HEX_CACERTS_PATH",
    "JULIA_SSL_CA_ROOTS_PATH",
];

/// Variables that add to what a program trusts.
const ADDING: [&str; 2] = ["NODE_EXTRA_CA_CERTS", "DENO_CERT"];

/// The roots of this host in the forms that programs read. Made once, used for every sandbox.
pub(crate) struct Bundle {
    pem: Vec<u8>,
    keystore: Unfinished,
}

impl Bundle {
    /// Of these certificates, which a host trusts.
    pub(crate) fn of(certificates: &[CertificateDer<'_>]) -> Self {
        let mut pem = Vec::new();
        for certificate in certificates {
            encode(&mut pem, certificate);
        }
        Self {
            pem,
            keystore: Unfinished::with(certificates),
        }
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle")
            .field("pem", &self.pem.len())
            .finish_non_exhaustive()
    }
}

/// The roots that this host trusts, and `extra`: to verify the outside with, and to give to sandboxes.
///
/// Reads files, so it may block. What cannot be read is left out: without a root no host can prove who
/// it is, and each connection that ends here is denied and says so.
pub(crate) fn load(extra: Vec<CertificateDer<'static>>) -> (Arc<RootCertStore>, Arc<Bundle>) {
    let found = rustls_native_certs::load_native_certs();
    for why in &found.errors {
        tracing::warn!(%why, "roots of this host could not be read");
    }
    let mut certificates = found.certs;
    certificates.extend(extra);
    of(&certificates)
}

/// Nothing but these roots.
pub(crate) fn of(certificates: &[CertificateDer<'static>]) -> (Arc<RootCertStore>, Arc<Bundle>) {
    let mut store = RootCertStore::empty();
    let (_, left_out) = store.add_parsable_certificates(certificates.iter().cloned());
    if left_out > 0 {
        tracing::debug!(left_out, "roots of this host that make no sense");
    }
    (Arc::new(store), Arc::new(Bundle::of(certificates)))
}

/// What a sandbox must find: variables, and files. Those over the system's stores belong only where the
/// place has such a file.
pub(crate) fn trust(ca: &Ca, host: &Bundle) -> (BTreeMap<String, String>, Vec<WiredFile>) {
    let own = ca.pem();
    let mut all = Vec::with_capacity(host.pem.len() + own.len());
    all.extend_from_slice(&host.pem);
    all.extend_from_slice(own.as_bytes());
    let all: Arc<[u8]> = all.into();
    let keystore: Arc<[u8]> = host.keystore.finish(ca.der()).into();

    let mut files = vec![file(CA, &own.into_bytes().into())];
    files.extend(
        std::iter::once(BUNDLE)
            .chain(STORES)
            .map(|path| file(path, &all)),
    );
    files.extend(
        std::iter::once(KEYSTORE)
            .chain(KEYSTORES)
            .map(|path| file(path, &keystore)),
    );
    (variables(), files)
}

fn file(path: &str, contents: &Arc<[u8]>) -> WiredFile {
    WiredFile {
        path: path.to_owned(),
        contents: Arc::clone(contents),
    }
}

fn variables() -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for name in REPLACING {
        variables.insert(name.to_owned(), BUNDLE.to_owned());
    }
    for name in ADDING {
        variables.insert(name.to_owned(), CA.to_owned());
    }
    // uv has roots of its own unless it is told.
    variables.insert("UV_NATIVE_TLS".to_owned(), "1".to_owned());
    variables.insert(
        "JAVA_TOOL_OPTIONS".to_owned(),
        format!(
            "-Djavax.net.ssl.trustStore={KEYSTORE} -Djavax.net.ssl.trustStoreType=JKS \
             -Djavax.net.ssl.trustStorePassword={PASSWORD}"
        ),
    );
    variables
}

fn encode(into: &mut Vec<u8>, certificate: &CertificateDer<'_>) {
    let text = base64::engine::general_purpose::STANDARD.encode(certificate);
    into.extend_from_slice(b"-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        into.extend_from_slice(line);
        into.push(b'\n');
    }
    into.extend_from_slice(b"-----END CERTIFICATE-----\n");
}
