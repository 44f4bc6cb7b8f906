//! What the targets share: cutting bytes up, and the properties of messages.

use namzu_protocol::{Bytes, Codec, JsonBody, WireMessage, from_json, to_json};

/// Takes the first byte off, 0 when there is none.
pub fn take(data: &mut &[u8]) -> u8 {
    match data.split_first() {
        Some((first, rest)) => {
            *data = rest;
            *first
        }
        None => 0,
    }
}

/// Cuts `stream` in pieces whose lengths come from `cuts`, some of them empty.
pub fn pieces(stream: &Bytes, cuts: &[u8]) -> Vec<Bytes> {
    let mut rest = stream.clone();
    let mut pieces: Vec<_> = cuts
        .iter()
        .map(|cut| rest.split_to(usize::from(*cut).min(rest.len())))
        .collect();
    pieces.push(rest);
    pieces
}

/// Takes up to 16 cut lengths and a cap off the front; the rest is the stream.
pub fn stream(mut data: &[u8]) -> (usize, Vec<u8>, Bytes) {
    let max = usize::from(take(&mut data));
    let count = usize::from(take(&mut data) % 17).min(data.len());
    let (cuts, rest) = data.split_at(count);
    (max, cuts.to_vec(), Bytes::copy_from_slice(rest))
}

/// Whatever reads as a message survives both codecs.
pub fn message<M: WireMessage>(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(read) = Codec::Json.decode::<M>(bytes.clone()) {
        survives(&read, Codec::Json);
        survives(&read, Codec::Proto);
    }
    if let Ok(read) = Codec::Proto.decode::<M>(bytes) {
        survives(&read, Codec::Proto);
        // JSON clamps times to the years 1 to 9999, so only what JSON has written must survive it.
        let json = Codec::Json.encode(&read);
        let clamped: M = Codec::Json
            .decode(json.clone())
            .expect("our own JSON is read");
        assert_eq!(Codec::Json.encode(&clamped), json);
        survives(&clamped, Codec::Proto);
    }
}

fn survives<M: WireMessage>(message: &M, codec: Codec) {
    let again: M = codec
        .decode(codec.encode(message))
        .expect("our own bytes are read");
    assert_eq!(&again, message);
}

/// Whatever reads as a body survives being written.
pub fn body<T: JsonBody + PartialEq + std::fmt::Debug>(data: &[u8]) {
    if let Ok(read) = from_json::<T>(data) {
        let again = from_json(&to_json(&read)).expect("our own JSON is read");
        assert_eq!(read, again);
    }
}

/// Makes every 512-byte block one whose tar checksum is right, which no fuzzer would find.
pub fn with_tar_checksums(stream: &Bytes) -> Bytes {
    let mut blocks = stream.to_vec();
    for block in blocks.chunks_exact_mut(512) {
        if block.iter().all(|byte| *byte == 0) {
            continue;
        }
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    blocks.into()
}
