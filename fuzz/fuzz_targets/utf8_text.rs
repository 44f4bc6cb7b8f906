//! Text reads the same however its bytes are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::{pieces, stream};
use namzu_protocol::v1::Utf8Decoder;

fuzz_target!(|data: &[u8]| {
    let (_, cuts, stream) = stream(data);
    let mut decoder = Utf8Decoder::new();
    let mut text = String::new();
    for piece in pieces(&stream, &cuts) {
        text.push_str(&decoder.decode(&piece));
    }
    text.push_str(decoder.finish());
    assert_eq!(text, String::from_utf8_lossy(&stream));
});
