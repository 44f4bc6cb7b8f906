//! The events, requests and answers of v1.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::body;
use namzu_protocol::v1::{
    Encoding, Event, ExecuteRequest, FrameRequest, Health, ReadFileRequest, ReadFileResponse,
    Refusal, WriteFileRequest, WriteFileResponse,
};

fuzz_target!(|data: &[u8]| {
    body::<Event>(data);
    body::<ExecuteRequest>(data);
    body::<Health>(data);
    body::<ReadFileRequest>(data);
    body::<ReadFileResponse>(data);
    body::<WriteFileRequest>(data);
    body::<WriteFileResponse>(data);
    body::<Refusal>(data);
    if let Ok(request) = FrameRequest::from_json(data) {
        assert_eq!(FrameRequest::from_json(&request.to_json()), Ok(request));
    }
    let text = Encoding::Base64.encode(data);
    assert_eq!(Encoding::Base64.decode(text).as_deref(), Ok(data));
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(bytes) = Encoding::Base64.decode(text.to_owned())
    {
        let again = Encoding::Base64.decode(Encoding::Base64.encode(&bytes));
        assert_eq!(again, Ok(bytes));
    }
});
