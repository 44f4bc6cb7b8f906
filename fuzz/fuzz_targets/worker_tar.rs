//! The worker's tar parser reads a stream the same however it is cut.
#![no_main]
#![allow(
    dead_code,
    reason = "the worker uses more of these files than the parser"
)]

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::{pieces, stream, with_tar_checksums};
use namzu_protocol::Bytes;

#[path = "shim/fail.rs"]
mod fail;
#[rustfmt::skip]
#[path = "../../crates/worker/src/files/tar/format.rs"]
mod format;
#[rustfmt::skip]
#[path = "../../crates/worker/src/files/tar/parse.rs"]
mod parse;

mod files {
    pub(crate) use crate::fail;

    pub(crate) mod jail {
        pub(crate) const PATH_MAX: usize = 4096;
    }
}

#[derive(Debug, PartialEq)]
enum Told {
    Entry(format::Header),
    Data(Vec<u8>),
    End,
}

fn read(pieces: Vec<Bytes>) -> (Vec<Told>, fail::Outcome<()>) {
    let mut parser = parse::Parser::default();
    let mut told = Vec::new();
    for piece in pieces {
        let pushed = parser.push(&piece, &mut |event| {
            match (event, told.last_mut()) {
                (parse::Event::Entry(header), _) => told.push(Told::Entry(header)),
                (parse::Event::Data([]), _) => {}
                (parse::Event::Data(more), Some(Told::Data(data))) => data.extend(more),
                (parse::Event::Data(data), _) => told.push(Told::Data(data.to_vec())),
                (parse::Event::End, _) => told.push(Told::End),
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
    let (patch, cuts, stream) = stream(data);
    let stream = if patch % 4 == 0 {
        stream
    } else {
        with_tar_checksums(&stream)
    };
    let whole = read(vec![stream.clone()]);
    assert_eq!(whole, read(pieces(&stream, &cuts)));
    let content: usize = whole
        .0
        .iter()
        .map(|told| match told {
            Told::Data(data) => data.len(),
            Told::Entry(_) | Told::End => 0,
        })
        .sum();
    assert!(content <= stream.len());
});
