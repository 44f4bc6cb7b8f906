//! What is read of SOCKS5 does not change with what follows it, and a host from it is one.
#![no_main]
#![allow(
    dead_code,
    reason = "the boundary uses more of this file than the parsers"
)]

use libfuzzer_sys::fuzz_target;
use namzu_egress::{Host, Reason};

#[rustfmt::skip]
#[path = "../../crates/egress/src/door/socks/parse.rs"]
mod parse;

fuzz_target!(|data: &[u8]| {
    stable(data, |bytes| {
        parse::greeting(bytes).map(|read| read.map(|(length, free)| (length, free)))
    });
    stable(data, |bytes| {
        parse::request(bytes).map(|read| read.map(|(length, host, port)| (length, (host, port))))
    });
    if let Ok(Some((_, host, port))) = parse::request(data) {
        assert_ne!(port, 0);
        assert_eq!(Host::parse(&host.to_string()), Ok(host));
    }
});

/// More bytes change nothing about what was read of fewer.
fn stable<T: PartialEq + std::fmt::Debug>(
    data: &[u8],
    read: impl Fn(&[u8]) -> Result<Option<(usize, T)>, parse::Fault>,
) {
    let whole = read(data);
    if let Ok(Some((length, _))) = &whole {
        assert!(*length <= data.len());
    }
    for end in 0..data.len().min(300) {
        match read(&data[..end]) {
            Ok(None) => {}
            sooner => assert_eq!(sooner, whole),
        }
    }
}
