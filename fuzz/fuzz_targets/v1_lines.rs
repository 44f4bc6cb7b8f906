//! A stream of lines reads the same however it is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::{pieces, stream};
use namzu_protocol::Bytes;
use namzu_protocol::v1::{LineDecoder, LineError, encode_line};

fn read(max: usize, pieces: Vec<Bytes>) -> (Vec<Bytes>, Result<(), LineError>) {
    let mut decoder = LineDecoder::new(max);
    let mut lines = Vec::new();
    for mut piece in pieces {
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(line)) => lines.push(line),
                Ok(None) => break,
                Err(error) => return (lines, Err(error)),
            }
        }
        assert!(piece.is_empty());
    }
    let last = decoder.finish().map(|last| lines.extend(last));
    (lines, last)
}

fuzz_target!(|data: &[u8]| {
    let (max, cuts, stream) = stream(data);
    let whole = read(max, vec![stream.clone()]);
    assert_eq!(whole, read(max, pieces(&stream, &cuts)));
    for line in &whole.0 {
        assert!(line.len() <= max && !line.contains(&b'\n'));
    }
    let written: Vec<_> = whole.0.iter().map(|line| encode_line(line)).collect();
    let again = read(usize::MAX - 1, written);
    assert_eq!(again.0.len(), whole.0.len());
});
