//! The `Namzu-Oldest` header: only what we write is read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_protocol::ext::{format_oldest, parse_oldest};

fuzz_target!(|data: &str| {
    if let Ok(oldest) = parse_oldest(data) {
        assert_eq!(format_oldest(&oldest), data);
    }
});
