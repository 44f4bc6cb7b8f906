//! A stream of Connect envelopes reads the same however it is cut, and writes back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::{pieces, stream};
use namzu_protocol::Bytes;
use namzu_protocol::connect::{Envelope, EnvelopeDecoder, Frame};

fn read(max: usize, pieces: Vec<Bytes>) -> (Vec<Frame>, Option<String>, bool, bool) {
    let mut decoder = EnvelopeDecoder::new(max);
    let mut frames = Vec::new();
    for mut piece in pieces {
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error.to_string()), false, false),
            }
        }
        assert!(piece.is_empty());
    }
    let request = decoder.finish_request().is_ok();
    (frames, None, request, decoder.finish_response().is_ok())
}

fuzz_target!(|data: &[u8]| {
    let (max, cuts, stream) = stream(data);
    let whole = read(max, vec![stream.clone()]);
    assert_eq!(whole, read(max, pieces(&stream, &cuts)));

    let mut written = Vec::new();
    for frame in &whole.0 {
        let envelope = match frame {
            Frame::Message(payload) => {
                assert!(payload.len() <= max);
                Envelope::message(payload.clone())
            }
            Frame::End(end) => Envelope::end(end),
        };
        written.extend_from_slice(&envelope.expect("short").into_bytes());
    }
    let again = read(usize::MAX, vec![written.into()]);
    assert_eq!(again.0, whole.0);
    assert_eq!(again.1, None);
});
