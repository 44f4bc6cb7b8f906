//! A stream of v1 frames reads the same however it is cut, and writes back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::{pieces, stream};
use namzu_protocol::Bytes;
use namzu_protocol::v1::{FrameDecoder, FrameError, encode_frame};

fn read(max: usize, pieces: Vec<Bytes>) -> (Vec<Bytes>, Result<(), FrameError>) {
    let mut decoder = FrameDecoder::new(max);
    let mut payloads = Vec::new();
    for mut piece in pieces {
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(payload)) => payloads.push(payload),
                Ok(None) => break,
                Err(error) => return (payloads, Err(error)),
            }
        }
        assert!(piece.is_empty());
    }
    (payloads, decoder.finish())
}

fuzz_target!(|data: &[u8]| {
    let (max, cuts, stream) = stream(data);
    let whole = read(max, vec![stream.clone()]);
    assert_eq!(whole, read(max, pieces(&stream, &cuts)));
    let mut written = Vec::new();
    for payload in &whole.0 {
        assert!(payload.len() <= max);
        written.extend_from_slice(&encode_frame(payload).expect("short"));
    }
    assert!(stream.starts_with(&written));
});
