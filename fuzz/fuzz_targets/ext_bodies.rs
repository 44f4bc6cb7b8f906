//! The bodies of ext/v1.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::body;
use namzu_protocol::ext::{
    DoorsRequest, DoorsResponse, Info, KillRequest, KillResponse, ProbeRequest, ProbeResponse, Reach,
};

fuzz_target!(|data: &[u8]| {
    body::<DoorsRequest>(data);
    body::<DoorsResponse>(data);
    body::<Info>(data);
    body::<KillRequest>(data);
    body::<KillResponse>(data);
    body::<ProbeRequest>(data);
    body::<ProbeResponse>(data);
    body::<Reach>(data);
});
