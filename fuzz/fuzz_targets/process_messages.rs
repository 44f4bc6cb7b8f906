//! The messages of `process.Process`, in both codecs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::{message, take};
use namzu_protocol::process as p;

fuzz_target!(|data: &[u8]| {
    let mut data = data;
    match take(&mut data) % 14 {
        0 => message::<p::StartResponse>(data),
        1 => message::<p::ConnectResponse>(data),
        2 => message::<p::ListResponse>(data),
        3 => message::<p::StartRequest>(data),
        4 => message::<p::ConnectRequest>(data),
        5 => message::<p::UpdateRequest>(data),
        6 => message::<p::SendInputRequest>(data),
        7 => message::<p::StreamInputRequest>(data),
        8 => message::<p::SendSignalRequest>(data),
        9 => message::<p::CloseStdinRequest>(data),
        10 => message::<p::ListRequest>(data),
        11 => message::<p::UpdateResponse>(data),
        12 => message::<p::SendInputResponse>(data),
        _ => message::<p::StreamInputResponse>(data),
    }
});
