//! Hosts and authorities as a program inside sends them, and the screen of addresses.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use namzu_egress::screen::{Screen, unwrap};
use namzu_egress::{Host, Name, is_host_allowed, parse_authority};

fn holds_of_name(name: &Name) {
    let text = name.as_str();
    assert!(text.len() <= 253 && !text.is_empty());
    for label in text.split('.') {
        assert!((1..=63).contains(&label.len()));
        assert!(!label.starts_with('-') && !label.ends_with('-'));
    }
    let known = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    assert!(text.bytes().all(known));
    // No reader of addresses takes it for one.
    assert!(text.parse::<IpAddr>().is_err());
    let last = text.rsplit('.').next().unwrap_or(text);
    assert!(!last.starts_with("0x") && last.parse::<u128>().is_err());
}

fuzz_target!(|data: &[u8]| {
    if let Ok(host) = Host::parse_bytes(data) {
        let shown = host.to_string();
        assert_eq!(Host::parse(&shown).as_ref(), Ok(&host));
        match &host {
            Host::Name(name) => holds_of_name(name),
            Host::Address(address) => {
                assert_eq!(unwrap(*address), *address);
                let open = ["0.0.0.0/0", "::/0"].map(|net| net.parse().expect("a range"));
                let screen = Screen::default();
                if screen.check(*address, &[]).is_ok() {
                    assert_eq!(screen.check(*address, &open), Ok(()));
                    assert!(is_host_allowed(&shown, &[&address.to_string()]));
                }
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(authority) = parse_authority(text)
    {
        assert_ne!(authority.port, Some(0));
        assert_eq!(parse_authority(&authority.to_string()), Ok(authority));
    }
});
