//! One strict reading of a request's head. Nothing of a request goes on before its head was read here, and
//! what goes on is written anew from what was read.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::fields::{Fields, Framing};
use super::scan::FIELDS_MAX;
use super::target::{Target, authority};
use crate::policy::is_never_forwarded;
use crate::{Authority, Reason};

/// The head of a request.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) target: Target,
    /// Of HTTP/1: 0 or 1.
    pub(crate) minor: u8,
    /// What goes on to the outside: without `Host`, and without what concerns this hop alone.
    pub(crate) headers: HeaderMap,
    /// What `Host` says.
    pub(crate) host: Option<Authority>,
    pub(crate) framing: Framing,
    /// The client may send another request after it.
    pub(crate) keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub(crate) expects: bool,
    /// The client wants to go on in the protocol of WebSocket.
    pub(crate) websocket: bool,
}

impl RequestHead {
    /// Reads a whole head, as [`Scan`](super::scan::Scan) has found it.
    ///
    /// # Errors
    ///
    /// [`Reason::RequestMalformed`], [`Reason::RequestTooLarge`], [`Reason::NameMalformed`],
    /// [`Reason::PortMalformed`], [`Reason::TraceRefused`], [`Reason::UpgradeRefused`].
    pub(crate) fn parse(head: &Bytes) -> Result<Self, Reason> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut parsed = httparse::Request::new(&mut []);
        match parsed.parse_with_uninit_headers(head, &mut fields) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            Err(httparse::Error::TooManyHeaders) => return Err(Reason::RequestTooLarge),
            _ => return Err(Reason::RequestMalformed),
        }
        let (Some(method), Some(target), Some(minor)) =
            (parsed.method, parsed.path, parsed.version)
        else {
            return Err(Reason::RequestMalformed);
        };
        let method = read_method(method)?;
        let target = head.slice_ref(target.as_bytes());
        let target = if method == Method::CONNECT {
            Target::of_connect(&target)?
        } else {
            Target::of_request(&target)?
        };
        if target == Target::Asterisk && method != Method::OPTIONS {
            return Err(Reason::RequestMalformed);
        }
        Self::judge(method, target, minor, Fields::read(head, parsed.headers)?)
    }

    fn judge(method: Method, target: Target, minor: u8, fields: Fields) -> Result<Self, Reason> {
        let host = match &fields.host {
            Some(host) => Some(authority(host.as_bytes())?),
            None if minor == 0 => None,
            None => return Err(Reason::RequestMalformed),
        };
        let framing = match (fields.chunked, fields.length) {
            // HTTP/1.0 knows no encodings: whoever sends one means to be misread.
            (true, _) if minor == 0 => return Err(Reason::RequestMalformed),
            (true, _) => Framing::Chunked,
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::None,
        };
        if method == Method::CONNECT && !matches!(framing, Framing::None | Framing::Length(0)) {
            return Err(Reason::RequestMalformed);
        }
        let websocket = is_websocket(&fields) && minor == 1;
        if websocket && (method != Method::GET || framing != Framing::None) {
            return Err(Reason::UpgradeRefused);
        }
        Ok(Self {
            expects: expects(&fields)? && minor == 1,
            keep_alive: !fields.close && (minor == 1 || fields.keep_alive),
            method,
            target,
            minor,
            headers: fields.map,
            host,
            framing,
            websocket,
        })
    }
}

/// Refuses the methods that are not forwarded; CONNECT is for the door to take.
fn read_method(text: &str) -> Result<Method, Reason> {
    let method = Method::from_bytes(text.as_bytes()).map_err(|_| Reason::RequestMalformed)?;
    if method != Method::CONNECT && is_never_forwarded(text) {
        return Err(Reason::TraceRefused);
    }
    Ok(method)
}

/// Other upgrades than to WebSocket are not passed on, which tells the client that there is none: HTTP/2 in
/// the clear would be a tunnel whose requests nobody judges.
fn is_websocket(fields: &Fields) -> bool {
    fields
        .upgrade
        .as_ref()
        .is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

fn expects(fields: &Fields) -> Result<bool, Reason> {
    match &fields.expect {
        None => Ok(false),
        Some(what) if what.as_bytes().eq_ignore_ascii_case(b"100-continue") => Ok(true),
        Some(_) => Err(Reason::RequestMalformed),
    }
}

#[cfg(test)]
mod tests;
