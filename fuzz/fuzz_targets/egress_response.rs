//! The head of a response never crashes, and its body is read the same however it is cut.
#![no_main]
#![allow(
    dead_code,
    reason = "the boundary uses more of these files than the parsers"
)]

use bytes::{Bytes, BytesMut};
use http::Method;
use libfuzzer_sys::fuzz_target;
use namzu_egress::Reason;
use namzu_fuzz::{pieces, stream, take};

#[rustfmt::skip]
#[path = "../../crates/egress/src/http/body.rs"]
mod body;
#[rustfmt::skip]
#[path = "../../crates/egress/src/http/fields.rs"]
mod fields;
#[rustfmt::skip]
#[path = "../../crates/egress/src/http/response.rs"]
mod response;
#[rustfmt::skip]
#[path = "../../crates/egress/src/http/scan.rs"]
mod scan;

use body::{Body, Malformed, Next};
use fields::Framing;
use response::ResponseHead;
use scan::{Kind, Scan};

fuzz_target!(|data: &[u8]| {
    let mut data = data;
    let method = match take(&mut data) % 2 {
        0 => Method::GET,
        _ => Method::HEAD,
    };
    let (_, cuts, stream) = stream(data);
    let Ok(Some(end)) = Scan::new(Kind::Response).end(&stream) else {
        // Without a head that a fuzzer would have to find first.
        same(Framing::Chunked, &stream, &cuts);
        return;
    };
    if let Ok(head) = ResponseHead::parse(&stream.slice(..end), &method) {
        assert!(head.framing != Framing::UntilClose || !head.keep_alive);
        same(head.framing, &stream.slice(end..), &cuts);
    }
});

fn same(framing: Framing, stream: &Bytes, cuts: &[u8]) {
    let whole = read(framing, &[stream.clone()]);
    assert_eq!(whole, read(framing, &pieces(stream, cuts)));
    if let Ok((data, left)) = whole {
        assert!(data.len() + left <= stream.len());
    }
}

fn read(framing: Framing, pieces: &[Bytes]) -> Result<(Vec<u8>, usize), Malformed> {
    let mut body = Body::new(framing);
    let mut buffer = BytesMut::new();
    let mut data = Vec::new();
    let mut pieces = pieces.iter();
    loop {
        match body.next(&mut buffer)? {
            Next::Data(length) => data.extend_from_slice(&buffer.split_to(length)),
            Next::More => match pieces.next() {
                Some(piece) => buffer.extend_from_slice(piece),
                None => return body.closed().map(|()| (data, 0)),
            },
            Next::End => {
                return Ok((data, buffer.len() + pieces.map(Bytes::len).sum::<usize>()));
            }
        }
    }
}
