//! Whatever is taken for a question is one, and each answer is an answer to it that fits.
#![no_main]
#![allow(
    dead_code,
    reason = "the boundary uses more of these files than its reader and writer"
)]

use hickory_proto::op::Message;
use libfuzzer_sys::fuzz_target;
use namzu_fuzz::take;

#[rustfmt::skip]
#[path = "../../crates/egress/src/reader.rs"]
mod reader;
#[rustfmt::skip]
#[path = "../../crates/egress/src/door/dns/wire.rs"]
mod wire;

use wire::{Code, Record};

fuzz_target!(|data: &[u8]| {
    whole(data);
    // Behind a header that is right, which no fuzzer would find.
    let mut rest = data;
    let additional = take(&mut rest) % 2;
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, additional];
    message.extend_from_slice(rest);
    whole(&message);
});

fn whole(message: &[u8]) {
    let query = match wire::read(message) {
        Ok(query) => query,
        Err(garbage) => {
            if let Some(answer) = garbage.answer() {
                assert!(answer.len() < 24);
                Message::from_vec(&answer).expect("an answer to garbage");
            }
            return;
        }
    };
    let asked = Message::from_vec(message);
    for (code, record, why) in [
        (Code::NoError, Record::Address([198, 18, 0, 1].into(), 60), None),
        (Code::NoError, Record::Pointer("a.example.com", 60), None),
        (Code::NoError, Record::None, None),
        (Code::NxDomain, Record::None, Some((15, "not_listed: no rule"))),
        (Code::Refused, Record::None, Some((18, ""))),
    ] {
        let answer = query.answer(code, record, why);
        assert!(answer.len() <= 512);
        // A library may be stricter with names than the wire is.
        if let Ok(asked) = &asked {
            let answer = Message::from_vec(&answer).expect("an answer");
            assert_eq!(answer.queries, asked.queries);
            assert_eq!(answer.metadata.id, asked.metadata.id);
            assert_eq!(answer.edns.is_some(), asked.edns.is_some());
            assert_eq!(answer.answers.len(), usize::from(record != Record::None));
        }
    }
}
