//! The messages of `filesystem.Filesystem`, in both codecs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::{message, take};
use namzu_protocol::filesystem as f;

fuzz_target!(|data: &[u8]| {
    let mut data = data;
    match take(&mut data) % 15 {
        0 => message::<f::StatResponse>(data),
        1 => message::<f::ListDirResponse>(data),
        2 => message::<f::WatchDirResponse>(data),
        3 => message::<f::GetWatcherEventsResponse>(data),
        4 => message::<f::CreateWatcherResponse>(data),
        5 => message::<f::MakeDirResponse>(data),
        6 => message::<f::MoveResponse>(data),
        7 => message::<f::RemoveResponse>(data),
        8 => message::<f::StatRequest>(data),
        9 => message::<f::MoveRequest>(data),
        10 => message::<f::ListDirRequest>(data),
        11 => message::<f::WatchDirRequest>(data),
        12 => message::<f::CreateWatcherRequest>(data),
        13 => message::<f::GetWatcherEventsRequest>(data),
        _ => message::<f::RemoveWatcherRequest>(data),
    }
});
