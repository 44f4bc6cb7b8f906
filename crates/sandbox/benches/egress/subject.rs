//! Who is measured, and what they are measured with.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::Result;
use crate::boundary::{NAME, Served};
use crate::peers::{Web, nginx};
use crate::proc::{Process, cpu, role};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No proxy.
    Direct,
    Ours,
    Squid,
    Tinyproxy,
    Srt,
    Mitmproxy,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Ours => "ours",
            Self::Squid => "squid",
            Self::Tinyproxy => "tinyproxy",
            Self::Srt => "srt",
            Self::Mitmproxy => "mitmproxy",
        }
    }

    /// What the server is called there. Only the boundary has a table of names; the others are not asked to
    /// resolve anything, but for TLS, which needs a name.
    pub(crate) const fn host(self) -> &'static str {
        match self {
            Self::Ours => NAME,
            _ => "127.0.0.1",
        }
    }
}

/// One who is measured.
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    /// Of the proxy.
    pub(crate) port: u16,
    /// What `Proxy-Authorization` says.
    pub(crate) password: Option<String>,
    pub(crate) process: Option<Process>,
}

impl Subject {
    pub(crate) const fn direct() -> Self {
        Self {
            kind: Kind::Direct,
            port: 0,
            password: None,
            process: None,
        }
    }

    /// The boundary as a proxy by itself.
    pub(crate) fn ours(served: &Served) -> Result<Self> {
        let arguments = served.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut process = role("proxy", &arguments)?;
        let port = process.line()?.parse()?;
        Ok(Self {
            kind: Kind::Ours,
            port,
            password: None,
            process: Some(process),
        })
    }

    /// Processor time of the proxy so far.
    pub(crate) fn cpu(&self) -> Duration {
        self.process
            .as_ref()
            .map_or(Duration::ZERO, |process| cpu(process.pid()))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::pid)
    }
}

/// The servers that everybody is asked to reach, and a folder for what peers keep.
pub(crate) struct Ground {
    pub(crate) web: Web,
    pub(crate) raw: Raw,
    roots: PathBuf,
    folder: TempDir,
}

/// The server that tunnels lead to.
pub(crate) struct Raw {
    pub(crate) port: u16,
    pub(crate) other: u16,
    _process: Process,
}

impl Raw {
    pub(crate) fn start() -> Result<Self> {
        let mut process = role("upstream", &[])?;
        let line = process.line()?;
        let (port, other) = line.split_once(' ').ok_or("the server names no ports")?;
        Ok(Self {
            port: port.parse()?,
            other: other.parse()?,
            _process: process,
        })
    }
}

impl Ground {
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (roots, certificate, key) = certificates(folder.path())?;
        Ok(Self {
            web: nginx(folder.path(), &certificate, &key)?,
            raw: Raw::start()?,
            roots,
            folder,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// PEM file of who vouches for the server.
    pub(crate) fn roots(&self) -> &Path {
        &self.roots
    }

    pub(crate) fn served(&self) -> Served {
        Served {
            tcp: vec![self.raw.port],
            http: Some(self.web.http),
            https: Some(self.web.https),
            roots: Some(self.roots.clone()),
        }
    }
}

/// An authority, and a certificate of it for the server's names: files with the root, the certificate, its
/// key.
fn certificates(folder: &Path) -> Result<(PathBuf, PathBuf, PathBuf)> {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Without a name of its own the server's certificate seems to have vouched for itself.
    authority
        .distinguished_name
        .push(DnType::CommonName, "bench");
    let root = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate()?;
    let names = [NAME, "localhost", "127.0.0.1"].map(str::to_owned);
    let certificate = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
    let written = |name: &str, text: String| -> Result<PathBuf> {
        let at = folder.join(name);
        std::fs::write(&at, text)?;
        Ok(at)
    };
    Ok((
        written("root.pem", root.pem())?,
        written("server.pem", certificate.pem())?,
        written("server.key", key.serialize_pem())?,
    ))
}
