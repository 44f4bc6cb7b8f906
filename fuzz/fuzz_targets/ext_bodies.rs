//! The bodies of ext/v1.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::body;
use namzu_protocol::ext::{Info, KillRequest, KillResponse, Reach};

fuzz_target!(|data: &[u8]| {
    body::<Info>(data);
    body::<KillRequest>(data);
    body::<KillResponse>(data);
    body::<Reach>(data);
});
