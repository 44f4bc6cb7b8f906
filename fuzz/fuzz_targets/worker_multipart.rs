//! The worker's multipart parser reads a body the same however it is cut.
#![no_main]
#![allow(
    dead_code,
    reason = "the worker uses more of these files than the parser"
)]

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::{pieces, stream};
use namzu_protocol::Bytes;

#[path = "shim/fail.rs"]
mod fail;
#[rustfmt::skip]
#[path = "../../crates/worker/src/files/multipart.rs"]
mod multipart;
#[rustfmt::skip]
#[path = "../../crates/worker/src/files/query.rs"]
mod query;

#[derive(Debug, PartialEq)]
enum Told {
    Part(multipart::Head),
    Data(Vec<u8>),
    End,
}

fn read(pieces: Vec<Bytes>) -> (Vec<Told>, fail::Outcome<()>) {
    let header = b"multipart/form-data; boundary=b";
    let mut parser = multipart::Multipart::new(header).expect("a good header");
    let mut told = Vec::new();
    for piece in pieces {
        let pushed = parser.push(&piece, &mut |event| {
            match (event, told.last_mut()) {
                (multipart::Event::Part(head), _) => told.push(Told::Part(head)),
                (multipart::Event::Data([]), _) => {}
                (multipart::Event::Data(more), Some(Told::Data(data))) => data.extend(more),
                (multipart::Event::Data(data), _) => told.push(Told::Data(data.to_vec())),
                (multipart::Event::End, _) => told.push(Told::End),
            }
            Ok(())
        });
        if pushed.is_err() {
            return (told, pushed);
        }
    }
    (told, parser.finish())
}

fuzz_target!(|data: &[u8]| {
    // Any header may come; most are refused.
    let _ = multipart::Multipart::new(data);
    let (_, cuts, stream) = stream(data);
    let whole = read(vec![stream.clone()]);
    assert_eq!(whole, read(pieces(&stream, &cuts)));
});
