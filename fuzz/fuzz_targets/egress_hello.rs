//! A hello is read the same however it is cut, and names the server that a TLS library takes it for.
#![no_main]
#![allow(
    dead_code,
    reason = "the boundary uses more of these files than its reader"
)]

use libfuzzer_sys::fuzz_target;
use namzu_egress::Name;
use namzu_fuzz::take;

#[rustfmt::skip]
#[path = "../../crates/egress/src/reader.rs"]
mod reader;
#[rustfmt::skip]
#[path = "../../crates/egress/src/tls/hello.rs"]
mod hello;

use hello::HelloError;

fuzz_target!(|data: &[u8]| {
    whole(data);
    // In records whose lengths are right, as a message whose length is right.
    let mut rest = data;
    let size = usize::from(take(&mut rest)) + 1;
    let [_, a, b, c] = u32::try_from(rest.len()).unwrap_or_default().to_be_bytes();
    let message = [&[1, a, b, c], rest].concat();
    let mut sent = Vec::new();
    for content in message.chunks(size) {
        let [high, low] = u16::try_from(content.len()).expect("at most 256").to_be_bytes();
        sent.extend([22, 3, 1, high, low]);
        sent.extend_from_slice(content);
    }
    whole(&sent);
});

fn whole(sent: &[u8]) {
    let read = hello::read(sent);
    if let Err(HelloError::Incomplete(length)) = read {
        assert!(length > sent.len() && length <= hello::LONGEST_RECORDS);
    }
    let step = sent.len() / 64 + 1;
    for length in (0..sent.len()).step_by(step) {
        match hello::read(&sent[..length]) {
            Err(HelloError::Incomplete(more)) => assert!(more > length),
            cut => assert_eq!(cut, read, "cut at {length}"),
        }
    }
    let (Ok(ours), Some(theirs)) = (read, library(sent)) else {
        return;
    };
    assert_eq!(ours.server_name.map(|name| name.to_string()), theirs);
}

/// What a TLS library reads; `None` where it reads no hello.
fn library(mut sent: &[u8]) -> Option<Option<String>> {
    let mut acceptor = rustls::server::Acceptor::default();
    while !sent.is_empty() {
        if acceptor.read_tls(&mut sent).ok()? == 0 {
            return None;
        }
        if let Some(accepted) = acceptor.accept().ok()? {
            let name = accepted.client_hello().server_name().map(str::to_owned);
            return Some(name.map(|name| name.trim_end_matches('.').to_ascii_lowercase()));
        }
    }
    None
}
