//! The fields of a head: what they say of its framing is read here, and what concerns one hop only ends here.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::Reason;

/// The most options that a `Connection` field may name.
const OPTIONS_MAX: usize = 32;

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none.
    None,
    /// So many bytes.
    Length(u64),
    /// In chunks, until the empty one.
    Chunked,
    /// Until the connection ends; of responses alone.
    UntilClose,
}

/// What the fields of a head say.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// Those that go on to the other side.
    pub(crate) map: HeaderMap,
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    /// The connection is to be upgraded, to this.
    pub(crate) upgrade: Option<HeaderValue>,
    pub(crate) expect: Option<HeaderValue>,
    pub(crate) host: Option<HeaderValue>,
}

impl Fields {
    /// Reads the fields of a head, given as `parsed` with slices of `head`.
    ///
    /// # Errors
    ///
    /// [`Reason::RequestMalformed`] for what is ambiguous: two lengths, a length beside an encoding, an
    /// encoding other than `chunked`, two hosts.
    pub(crate) fn read(head: &Bytes, parsed: &[httparse::Header<'_>]) -> Result<Self, Reason> {
        let mut read = Self {
            map: HeaderMap::with_capacity(parsed.len()),
            ..Self::default()
        };
        let mut upgrade = false;
        let mut named: Vec<HeaderName> = Vec::new();
        for field in parsed {
            let name = HeaderName::from_bytes(field.name.as_bytes())
                .map_err(|_| Reason::RequestMalformed)?;
            let value = HeaderValue::from_maybe_shared(head.slice_ref(field.value))
                .map_err(|_| Reason::RequestMalformed)?;
            match name {
                header::CONTENT_LENGTH => once(&mut read.length, length(value.as_bytes())?)?,
                header::TRANSFER_ENCODING => {
                    if read.chunked || !value.as_bytes().eq_ignore_ascii_case(b"chunked") {
                        return Err(Reason::RequestMalformed);
                    }
                    read.chunked = true;
                }
                header::HOST => once(&mut read.host, value)?,
                header::EXPECT => once(&mut read.expect, value)?,
                header::UPGRADE => once(&mut read.upgrade, value)?,
                header::CONNECTION => {
                    read.options(value.as_bytes(), &mut upgrade, &mut named)?;
                }
                header::TE | header::TRAILER => {}
                _ if one_hop(name.as_str()) => {}
                _ => {
                    read.map
                        .try_append(name, value)
                        .map_err(|_| Reason::RequestTooLarge)?;
                }
            }
        }
        if read.chunked && read.length.is_some() {
            return Err(Reason::RequestMalformed);
        }
        for name in named {
            read.map.remove(name);
        }
        if !upgrade {
            read.upgrade = None;
        }
        Ok(read)
    }

    /// Reads a `Connection` field.
    fn options(
        &mut self,
        value: &[u8],
        upgrade: &mut bool,
        named: &mut Vec<HeaderName>,
    ) -> Result<(), Reason> {
        for (count, option) in value.split(|byte| *byte == b',').enumerate() {
            let option = option.trim_ascii();
            if count >= OPTIONS_MAX {
                return Err(Reason::RequestTooLarge);
            }
            if option.is_empty() {
                continue;
            }
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                *upgrade = true;
            } else {
                named.push(HeaderName::from_bytes(option).map_err(|_| Reason::RequestMalformed)?);
            }
        }
        Ok(())
    }
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), Reason> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Reason::RequestMalformed),
    }
}

/// A length is digits: no sign, no list, no prefix.
fn length(value: &[u8]) -> Result<u64, Reason> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(Reason::RequestMalformed);
    }
    Ok(value
        .iter()
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// Whether a field is for the next hop alone, beside those that the framing is read from.
pub(crate) fn one_hop(name: &str) -> bool {
    name.starts_with("proxy-") || name == "keep-alive" || name == "http2-settings"
}
