//! What rules say of hosts.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{confusable, special};
use crate::screen::{is_forbidden_range, is_private_range, unwrap};
use crate::{Host, HostError, Name};

/// The shortest prefixes of a range of addresses.
const MIN_PREFIX_V4: u8 = 8;
const MIN_PREFIX_V6: u8 = 16;

/// The longest text that a wildcard may stand for, in bytes. Names of real services stay well below;
/// it bounds what one look-up could carry to whoever answers for the wildcard's domain.
const WILDCARD_STANDS_FOR: usize = 100;

/// What a rule says of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pattern {
    /// `x`: that name.
    Exact(Name),
    /// `*.x`: every name below `x`, by however many labels; not `x`.
    Below(Name),
    /// `**.x` and `.x`: `x` and every name below it.
    Within(Name),
    /// An address, which is a range of one, or a range of addresses.
    Range(IpNet),
}

impl Pattern {
    /// Reads a pattern. Names in Unicode are accepted here, and nowhere else, where they are spelled as
    /// IDNA 2008 would spell them.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for a person.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(range) = range(text)? {
            return Ok(Self::Range(range));
        }
        // Whoever writes one of these thinks of a URL, whose name alone would be matched.
        if text.contains(['/', '@', '?', '#', ':']) || text.contains(char::is_whitespace) {
            return Err("is no host name; ports and paths have fields of their own".to_owned());
        }
        let (make, base): (fn(Name) -> Self, &str) = if let Some(base) = text.strip_prefix("**.") {
            (Self::Within, base)
        } else if let Some(base) = text.strip_prefix("*.") {
            (Self::Below, base)
        } else if let Some(base) = text.strip_prefix('.') {
            (Self::Within, base)
        } else {
            (Self::Exact, text)
        };
        if base.contains('*') {
            return Err(match text {
                "*" | "**" => {
                    "names every host, for which there are `allow-all` and `deny-all`".to_owned()
                }
                _ => "a `*` stands only for whole labels, at the front".to_owned(),
            });
        }
        name(base).map(make)
    }

    /// Whether it names `host`.
    #[must_use]
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exact(own), Host::Name(name)) => own == name,
            (Self::Below(base), Host::Name(name)) => base != name && name.is_within(base.as_str()),
            (Self::Within(base), Host::Name(name)) => name.is_within(base.as_str()),
            (Self::Range(range), Host::Address(address)) => range.contains(address),
            _ => false,
        }
    }

    /// Why it names too much to be allowed: whatever anybody can register, or a large part of all
    /// addresses.
    #[must_use]
    pub fn broadness(&self) -> Option<String> {
        match self {
            Self::Exact(_) => None,
            Self::Below(base) | Self::Within(base) => is_public_suffix(base).then(|| {
                format!("is too broad: anybody can have a name below the public suffix `{base}`")
            }),
            Self::Range(range) if range.prefix_len() < min_prefix(range) => Some(format!(
                "is too broad: a range has a prefix of at least {} bits",
                min_prefix(range)
            )),
            Self::Range(range) if is_forbidden_range(range) => {
                Some("holds nothing but addresses that nothing in a sandbox may reach".to_owned())
            }
            Self::Range(_) => None,
        }
    }

    /// Why it reaches nothing unless `inward` says more: private addresses, and names that never mean a
    /// public host.
    #[must_use]
    pub fn needs_inward(&self, inward: &[IpNet]) -> Option<String> {
        match self {
            Self::Range(range) => {
                let covered = inward.iter().any(|net| net.contains(range));
                (is_private_range(range) && !covered)
                    .then(|| format!("is private: it needs `inward` with `{range}`"))
            }
            Self::Exact(name) => (inward.is_empty() && special::is_special(name)).then(near),
            Self::Below(base) | Self::Within(base) => {
                (inward.is_empty() && (base.is_single() || special::is_special(base))).then(near)
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => name.fmt(f),
            Self::Below(base) => write!(f, "*.{base}"),
            Self::Within(base) => write!(f, "**.{base}"),
            Self::Range(range) if range.prefix_len() == range.max_prefix_len() => {
                range.addr().fmt(f)
            }
            Self::Range(range) => range.fmt(f),
        }
    }
}

/// Whether a name puts more than it may into the place of a rule's wildcard.
///
/// Only the length is bounded, not how random the text looks: content networks have hashes for labels,
/// and a tunnel can speak in words. How many names are asked for in a minute bounds the rest.
pub(crate) fn overfills(name: &Name, pattern: &str) -> bool {
    let apex = pattern.trim_start_matches('*');
    let Some(apex) = apex.strip_prefix('.') else {
        return false;
    };
    let filled = name.as_str().len().saturating_sub(apex.len() + 1);
    filled > WILDCARD_STANDS_FOR
}

fn near() -> String {
    "never names a public host: it needs `inward` with the private range it leads to".to_owned()
}

/// Reads an address or a range of addresses, `None` where it is neither.
pub(super) fn range(text: &str) -> Result<Option<IpNet>, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(Some(unwrap(address).into()));
    }
    let Ok(range) = text.parse::<IpNet>() else {
        return Ok(None);
    };
    if range.addr() != range.network() {
        return Err(format!(
            "has bits beyond its prefix; `{}` is what it covers",
            range.trunc()
        ));
    }
    if range.prefix_len() >= 96 && unwrap(range.addr()) != range.addr() {
        return Err("writes IPv4 as IPv6; write it as IPv4".to_owned());
    }
    Ok(Some(range))
}

fn min_prefix(range: &IpNet) -> u8 {
    match range {
        IpNet::V4(_) => MIN_PREFIX_V4,
        IpNet::V6(_) => MIN_PREFIX_V6,
    }
}

/// Whether anybody can have a name below `base`. An end that is on no list is left to `needs_inward`: it
/// is somebody's own.
fn is_public_suffix(base: &Name) -> bool {
    // Of some bases every name directly below is a suffix, such as of `kawasaki.jp`.
    is_listed(base.as_str()) || is_listed(&format!("anybody.{base}"))
}

fn is_listed(name: &str) -> bool {
    psl::suffix(name.as_bytes())
        .is_some_and(|suffix| suffix.is_known() && suffix.as_bytes() == name.as_bytes())
}

fn name(text: &str) -> Result<Name, String> {
    let parsed = if text.is_ascii() {
        Name::parse(text)
    } else {
        if let Some(label) = confusable::label(text) {
            return Err(format!(
                "`{label}` looks like a name in another script; write it as `xn--…` if it is meant"
            ));
        }
        unicode(text)
    };
    parsed.map_err(|_| "is no host name".to_owned())
}

/// What IDNA would replace by something else (wide letters, an ideographic full stop) is not what the name
/// is written as anywhere, and refused.
fn unicode(text: &str) -> Result<Name, HostError> {
    let ascii = idna::domain_to_ascii_strict(text).map_err(|_| HostError::Host)?;
    let (again, valid) = idna::domain_to_unicode(&ascii);
    if valid.is_err() || again != text.to_lowercase() {
        return Err(HostError::Host);
    }
    Name::parse(&ascii)
}
