//! Names and authorities, parsed once: every later step uses only these values.

use std::fmt;
use std::net::IpAddr;

use namzu_types::EgressScheme;

/// What is spoken on a connection.
pub type Scheme = EgressScheme;

/// A host name: A-labels in lower case, without a final dot, at least two of them unless a rule names a
/// single one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<str>);

/// A host as somebody named it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// By name.
    Name(Name),
    /// By address, IPv4 inside IPv6 already unwrapped where it can be.
    Address(IpAddr),
}

/// A host and the port that was named with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// Absent where none was named.
    pub port: Option<u16>,
}

/// Why a text is no host or authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// It is no host.
    #[error("no host name")]
    Host,
    /// Its port is none.
    #[error("no port")]
    Port,
}

impl Name {
    /// Parses a name as a program inside sends it. A numeric or hexadecimal last label is none.
    ///
    /// # Errors
    ///
    /// [`HostError::Host`].
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let _ = text;
        Err(HostError::Host)
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Host {
    /// Parses a host without a port; an IPv6 address in brackets.
    ///
    /// # Errors
    ///
    /// [`HostError::Host`].
    pub fn parse(text: &str) -> Result<Self, HostError> {
        Name::parse(text).map(Self::Name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    /// An IPv6 address in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Parses `host[:port]`.
///
/// # Errors
///
/// What is wrong with it. Port 0, a sign, leading spaces and more than five digits are no port.
pub fn parse_authority(text: &str) -> Result<Authority, HostError> {
    Ok(Authority {
        host: Host::parse(text)?,
        port: None,
    })
}

/// Whether `host` is matched by one of `patterns`, as a static policy of these would.
#[must_use]
pub fn is_host_allowed(host: &str, patterns: &[&str]) -> bool {
    let _ = (host, patterns);
    false
}
