//! The head of a request ends at the same place however it is cut, and what goes on of it is read the same.
#![no_main]
#![allow(
    dead_code,
    reason = "the boundary uses more of these files than the parsers"
)]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use namzu_egress::{Authority, Reason, Scheme, parse_authority};
use namzu_fuzz::{pieces, stream};

/// Where the boundary keeps them.
mod host {
    use namzu_egress::{Authority, parse_authority};

    pub(crate) use namzu_egress::HostError;

    pub(crate) fn parse_authority_bytes(bytes: &[u8]) -> Result<Authority, HostError> {
        parse_authority(std::str::from_utf8(bytes).map_err(|_| HostError::Host)?)
    }
}
mod policy {
    pub(crate) use namzu_egress::policy::is_never_forwarded;
}

#[rustfmt::skip]
#[path = "../../crates/egress/src/http/fields.rs"]
mod fields;
#[rustfmt::skip]
#[path = "../../crates/egress/src/http/head.rs"]
mod head;
#[rustfmt::skip]
#[path = "../../crates/egress/src/http/scan.rs"]
mod scan;
#[rustfmt::skip]
#[path = "../../crates/egress/src/http/target.rs"]
mod target;

use fields::Framing;
use head::RequestHead;
use scan::{HEAD_MAX, Kind, Scan};
use target::Target;

const ENDS_HERE: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
];

fuzz_target!(|data: &[u8]| {
    let (_, cuts, stream) = stream(data);
    if stream.len() >= HEAD_MAX {
        return;
    }
    let whole = Scan::new(Kind::Request).end(&stream);
    assert_eq!(whole, cut(&pieces(&stream, &cuts)));
    if let Ok(Some(end)) = whole
        && let Ok(head) = RequestHead::parse(&stream.slice(..end))
    {
        check(&head);
    }
});

fn cut(pieces: &[Bytes]) -> Result<Option<usize>, Reason> {
    let mut scan = Scan::new(Kind::Request);
    let mut bytes = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(piece);
        if let Some(end) = scan.end(&bytes)? {
            return Ok(Some(end));
        }
    }
    scan.end(&bytes)
}

fn check(head: &RequestHead) {
    for name in head.headers.keys().map(http::HeaderName::as_str) {
        assert!(!ENDS_HERE.contains(&name) && !name.starts_with("proxy-"));
    }
    assert!(!head.method.as_str().eq_ignore_ascii_case("TRACE"));
    let path = match &head.target {
        Target::Origin(path) => path.as_str(),
        Target::Asterisk => "*",
        Target::Authority(authority) => {
            assert!(authority.port.is_some());
            return;
        }
        Target::Absolute(_, authority, path) => {
            assert_eq!(
                parse_authority(&authority.host.to_string()).map(|again| again.host),
                Ok(authority.host.clone())
            );
            path.as_str()
        }
    };
    // As it is written to the outside.
    let mut text = format!("{} {path} HTTP/1.1\r\nhost: a.test\r\n", head.method).into_bytes();
    for (name, value) in &head.headers {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    match head.framing {
        Framing::None => {}
        Framing::Length(length) => {
            text.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
        }
        Framing::Chunked => text.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Framing::UntilClose => panic!("a request ends before its connection"),
    }
    text.extend_from_slice(b"\r\n");
    let text = Bytes::from(text);
    if head.headers.len() > scan::FIELDS_MAX - 2 || text.len() >= HEAD_MAX {
        return;
    }
    assert_eq!(Scan::new(Kind::Request).end(&text), Ok(Some(text.len())));
    let again = RequestHead::parse(&text).expect("what goes on is a head");
    assert_eq!(again.method, head.method);
    assert_eq!(again.framing, head.framing);
    assert_eq!(again.headers, head.headers);
}
