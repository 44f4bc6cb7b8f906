//! What a secret may look like, and how it is made ready for use.

use ::http::{HeaderMap, HeaderName, HeaderValue};
use namzu_types::Secret;

use super::scrub::Scrub;
use super::standin::Standin;
use crate::policy::credential::{halves, header_name};

/// The shortest secret, in bytes. What is shorter turns up in answers by chance, and could be guessed by
/// watching what is taken out of them.
const SHORTEST: usize = 8;

/// The longest secret, in bytes: many servers refuse longer headers.
const LONGEST: usize = 8 * 1024;

/// What a secret is for.
pub(super) enum Usage {
    /// A header is set to it.
    Inject {
        header: HeaderName,
        before: Box<str>,
        after: Box<str>,
    },
    /// A stand-in is exchanged for it.
    Sentinel { standin: Standin },
}

/// A secret that can be used.
pub(super) struct Ready {
    pub(super) secret: Secret,
    /// What the header is set to, where one is.
    pub(super) header: Option<HeaderValue>,
    pub(super) scrub: Scrub,
}

impl Usage {
    /// # Errors
    ///
    /// Why the header or the format is none, which a policy that was compiled does not have.
    pub(super) fn inject(header: &str, format: &str) -> Result<Self, &'static str> {
        let header = header_name(header)?;
        let (before, after) = halves(format)?;
        Ok(Self::Inject {
            header,
            before: before.into(),
            after: after.into(),
        })
    }

    pub(super) const fn standin(&self) -> Option<&Standin> {
        match self {
            Self::Sentinel { standin } => Some(standin),
            Self::Inject { .. } => None,
        }
    }

    /// Makes a secret ready for use.
    ///
    /// # Errors
    ///
    /// Why it cannot be used, without showing it.
    pub(super) fn prepare(&self, secret: Secret) -> Result<Ready, &'static str> {
        let text = secret.expose();
        fits_a_header(text)?;
        let (header, scrub) = match self {
            Self::Inject { before, after, .. } => {
                let mut value = HeaderValue::try_from(format!("{before}{text}{after}"))
                    .map_err(|_| "it does not fit into a header")?;
                value.set_sensitive(true);
                let basic = before.eq_ignore_ascii_case("basic ");
                (Some(value), Scrub::new(text, None, basic))
            }
            Self::Sentinel { standin } => (None, Scrub::new(text, Some(standin.as_str()), false)),
        };
        Ok(Ready {
            secret,
            header,
            scrub,
        })
    }
}

fn fits_a_header(text: &str) -> Result<(), &'static str> {
    if text.len() < SHORTEST {
        return Err("it is shorter than 8 bytes");
    }
    if text.len() > LONGEST {
        return Err("it is longer than 8 KiB");
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err("it holds a line end, NUL or another control character");
    }
    // A server would drop the space, and what comes back would not be known again.
    if text.starts_with(' ') || text.ends_with(' ') {
        return Err("it begins or ends with a space");
    }
    Ok(())
}

/// Takes a header out, and those that a server may read as the same one: CGI and its heirs see no
/// difference between `x-api-key` and `x_api_key`.
pub(super) fn strip(headers: &mut HeaderMap, header: &HeaderName) {
    let wanted = dashed(header);
    let alike: Vec<HeaderName> = headers
        .keys()
        .filter(|name| dashed(name) == wanted)
        .cloned()
        .collect();
    for name in alike {
        headers.remove(name);
    }
}

fn dashed(name: &HeaderName) -> String {
    name.as_str().replace('_', "-")
}
