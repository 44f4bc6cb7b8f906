//! Paths that are no UTF-8, in fields that must be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_protocol::path_text;

fuzz_target!(|data: &[u8]| {
    if let Ok(path) = path_text::decode(data) {
        // No NUL gets through, so what was read can be handed to the kernel.
        assert!(!path.contains(&0));
        assert_eq!(
            path_text::decode(path_text::encode(&path).as_bytes()),
            Ok(path)
        );
    }
});
