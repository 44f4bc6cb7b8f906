//! Names and authorities, parsed once: every later step uses only these values.
//!
//! What a program inside sends is read strictly and never repaired: no percent decoding, no
//! Unicode mapping, no number that might be an address. Two readers of one text can then not differ.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use namzu_types::EgressScheme;

use crate::policy::{Pattern, overfills};
use crate::screen;

/// What is spoken on a connection.
pub type Scheme = EgressScheme;

/// The longest name, in bytes, without the final dot (RFC 1035 §2.3.4).
const MAX_NAME: usize = 253;
/// The longest label, in bytes.
const MAX_LABEL: usize = 63;

/// A host name: A-labels in lower case, without a final dot. A name of a single label is one, but no
/// wildcard matches it. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

/// A host as somebody named it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// By name.
    Name(Name),
    /// By address, IPv4 inside IPv6 already unwrapped where it can be: see [`From<IpAddr>`].
    Address(IpAddr),
}

/// A host and the port that was named with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// Parses a name as a program inside sends it: letters, digits, `-` inside a label, `_`; labels of
    /// at most 63 bytes, 253 in all; one final dot is dropped. A name whose last label is a number, decimal
    /// or hexadecimal, is none, since some resolvers read it as an address.
    ///
    /// # Errors
    ///
    /// [`HostError::Host`].
    pub fn parse(text: &str) -> Result<Self, HostError> {
        Self::parse_bytes(text.as_bytes())
    }

    /// [`Self::parse`] for bytes that may be no text at all.
    ///
    /// # Errors
    ///
    /// [`HostError::Host`].
    pub fn parse_bytes(bytes: &[u8]) -> Result<Self, HostError> {
        let name = bytes.strip_suffix(b".").unwrap_or(bytes);
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(HostError::Host);
        }
        let mut last: &[u8] = &[];
        for label in name.split(|byte| *byte == b'.') {
            if !is_label(label) {
                return Err(HostError::Host);
            }
            last = label;
        }
        if is_number(last) {
            return Err(HostError::Host);
        }
        let text = std::str::from_utf8(name).map_err(|_| HostError::Host)?;
        if name.iter().any(u8::is_ascii_uppercase) {
            return Ok(Self(text.to_ascii_lowercase().into()));
        }
        Ok(Self(text.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its labels from the last to the first.
    pub(crate) fn labels_from_root(&self) -> impl Iterator<Item = &str> {
        self.0.rsplit('.')
    }

    /// Whether it is `base` or below it.
    pub(crate) fn is_within(&self, base: &str) -> bool {
        self.0
            .strip_suffix(base)
            .is_some_and(|front| front.is_empty() || front.ends_with('.'))
    }

    /// Whether it has a single label.
    pub(crate) fn is_single(&self) -> bool {
        !self.0.contains('.')
    }
}

impl Host {
    /// Parses a host without a port; an IPv6 address in brackets.
    ///
    /// # Errors
    ///
    /// [`HostError::Host`].
    pub fn parse(text: &str) -> Result<Self, HostError> {
        Self::parse_bytes(text.as_bytes())
    }

    /// [`Self::parse`] for bytes that may be no text at all.
    ///
    /// # Errors
    ///
    /// [`HostError::Host`].
    pub fn parse_bytes(bytes: &[u8]) -> Result<Self, HostError> {
        match bytes {
            [b'[', inner @ .., b']'] => address::<Ipv6Addr>(inner),
            // Names end with a letter as good as always, addresses never.
            [.., b'0'..=b'9'] if looks_dotted(bytes) => address::<Ipv4Addr>(bytes),
            _ => Name::parse_bytes(bytes).map(Self::Name),
        }
    }
}

impl From<IpAddr> for Host {
    /// IPv4 inside IPv6 is unwrapped where it is mapped or compatible.
    fn from(address: IpAddr) -> Self {
        Self::Address(screen::unwrap(address))
    }
}

impl From<Name> for Host {
    fn from(name: Name) -> Self {
        Self::Name(name)
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

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => self.host.fmt(f),
        }
    }
}

/// Parses `host[:port]`.
///
/// # Errors
///
/// What is wrong with it. Port 0, no digits, a sign, a leading zero and more than 65535 are no port.
pub fn parse_authority(text: &str) -> Result<Authority, HostError> {
    parse_authority_bytes(text.as_bytes())
}

/// [`parse_authority`] for bytes that may be no text at all.
pub(crate) fn parse_authority_bytes(bytes: &[u8]) -> Result<Authority, HostError> {
    // Inside brackets colons belong to the address.
    let from = match bytes.first() {
        Some(b'[') => bytes
            .iter()
            .position(|byte| *byte == b']')
            .ok_or(HostError::Host)?,
        _ => 0,
    };
    let colon = bytes[from..].iter().position(|byte| *byte == b':');
    let (host, port) = match colon {
        Some(colon) => {
            let (host, rest) = bytes.split_at(from + colon);
            (host, Some(port(&rest[1..])?))
        }
        None => (bytes, None),
    };
    Ok(Authority {
        host: Host::parse_bytes(host)?,
        port,
    })
}

/// Whether `host` is matched by one of `patterns`, as the `allowedHosts` of a static policy would.
/// A pattern that such a policy refuses matches nothing, nor does a text that is no host.
#[must_use]
pub fn is_host_allowed(host: &str, patterns: &[&str]) -> bool {
    let Ok(host) = Host::parse(host) else {
        return false;
    };
    patterns.iter().any(|text| {
        Pattern::parse(text).is_ok_and(|pattern| {
            pattern.matches(&host)
                && !matches!(&host, Host::Name(name) if overfills(name, text))
                && pattern.broadness().is_none()
                && pattern.needs_inward(&[]).is_none()
        })
    })
}

fn is_label(label: &[u8]) -> bool {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    label.len() <= MAX_LABEL
        && label.iter().all(inside)
        && label
            .first()
            .zip(label.last())
            .is_some_and(|(first, last)| *first != b'-' && *last != b'-')
}

/// As in `2852039166`, `0xa9fea9fe` and the last label of `0251.0376.0.1`.
fn is_number(label: &[u8]) -> bool {
    label.iter().all(u8::is_ascii_digit) || matches!(label, [b'0', b'x' | b'X', ..])
}

fn looks_dotted(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

fn address<A: std::str::FromStr + Into<IpAddr>>(bytes: &[u8]) -> Result<Host, HostError> {
    let text = std::str::from_utf8(bytes).map_err(|_| HostError::Host)?;
    let address: A = text.parse().map_err(|_| HostError::Host)?;
    Ok(Host::from(address.into()))
}

fn port(digits: &[u8]) -> Result<u16, HostError> {
    if !matches!(digits, [b'1'..=b'9', ..]) || digits.len() > 5 {
        return Err(HostError::Port);
    }
    let port = digits.iter().try_fold(0u32, |port, digit| {
        digit
            .is_ascii_digit()
            .then(|| port * 10 + u32::from(digit - b'0'))
    });
    port.and_then(|port| u16::try_from(port).ok())
        .ok_or(HostError::Port)
}
