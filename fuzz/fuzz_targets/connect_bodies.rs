//! Error bodies, ends of streams and the headers of Connect.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::{body, take};
use namzu_protocol::connect::{Code, ContentType, EndStream, ErrorBody, parse_timeout_ms};
use namzu_protocol::httperror::HttpError;

fuzz_target!(|data: &[u8]| {
    let mut data = data;
    let status = 400 + u16::from(take(&mut data));
    body::<EndStream>(data);
    body::<ErrorBody>(data);
    body::<HttpError>(data);
    let error = ErrorBody::from_response(status, data);
    assert_eq!(ErrorBody::from_response(status, &error.to_json()), error);
    assert_eq!(HttpError::from_response(status, data).code, status);
    if let Ok(text) = std::str::from_utf8(data) {
        if let Some(known) = ContentType::parse(text) {
            assert_eq!(ContentType::parse(known.as_str()), Some(known));
        }
        if let Ok(code) = text.parse::<Code>() {
            assert_eq!(code.as_str(), text);
        }
        if let Some(ms) = parse_timeout_ms(text) {
            assert_eq!(parse_timeout_ms(&ms.to_string()), Some(ms));
        }
    }
});
