//! The message that goes with descriptors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_protocol::ext::LaneMessage;

fuzz_target!(|data: &[u8]| {
    if let Ok(message) = LaneMessage::decode(data) {
        assert_eq!(message.encode(), data);
        assert!((1..=3).contains(&message.descriptors()));
    }
});
