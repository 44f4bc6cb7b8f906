//! Bytes made to break the reader. Each must be refused without a panic and without an allocation
//! that its own size does not pay for.

use namzu_protocol::connect::{EnvelopeDecoder, EnvelopeError, Frame};
use namzu_protocol::filesystem as fs;
use namzu_protocol::process;
use namzu_protocol::v1::{Event, FrameDecoder, FrameError, LineDecoder, LineError};
use namzu_protocol::{Bytes, Codec, DecodeError, MAX_LIST_ITEMS, WireMessage};

fn json<M: WireMessage>(text: impl Into<Vec<u8>>) -> Result<M, DecodeError> {
    Codec::Json.decode(Bytes::from(text.into()))
}

#[test]
fn an_announced_length_over_the_cap_is_refused_at_the_header() {
    let mut chunk = Bytes::from_static(&[0, 0, 0, 4, 1]);
    assert!(matches!(
        EnvelopeDecoder::new(1024).decode(&mut chunk),
        Err(EnvelopeError::TooLarge {
            length: 1025,
            max: 1024
        })
    ));
    let mut chunk = Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff]);
    assert!(matches!(
        EnvelopeDecoder::new(usize::MAX >> 40).decode(&mut chunk),
        Err(EnvelopeError::TooLarge { .. })
    ));
    let mut chunk = Bytes::from_static(b"ffffffff\n");
    assert_eq!(
        FrameDecoder::new(1024).decode(&mut chunk),
        Err(FrameError::TooLarge {
            length: 0xffff_ffff,
            max: 1024
        })
    );
}

#[test]
fn a_payload_of_exactly_the_cap_passes() {
    let mut chunk = Bytes::from_static(&[0, 0, 0, 0, 2, b'{', b'}']);
    assert_eq!(
        EnvelopeDecoder::new(2).decode(&mut chunk).unwrap(),
        Some(Frame::Message(Bytes::from_static(b"{}")))
    );
    let mut chunk = Bytes::from_static(b"00000002\n{}");
    assert_eq!(
        FrameDecoder::new(2).decode(&mut chunk),
        Ok(Some(Bytes::from_static(b"{}")))
    );
    let mut chunk = Bytes::from_static(b"{}\r\n{ }\n");
    let mut lines = LineDecoder::new(2);
    assert_eq!(
        lines.decode(&mut chunk),
        Ok(Some(Bytes::from_static(b"{}")))
    );
    assert_eq!(lines.decode(&mut chunk), Err(LineError::TooLong { max: 2 }));
}

#[test]
fn a_line_without_end_is_refused_at_the_cap() {
    let mut lines = LineDecoder::new(10);
    let mut fed = 0;
    let refused = loop {
        let mut chunk = Bytes::from_static(b"xxx");
        fed += chunk.len();
        match lines.decode(&mut chunk) {
            Ok(None) => assert!(fed <= 11, "{fed} bytes were kept"),
            other => break other,
        }
    };
    assert_eq!(refused, Err(LineError::TooLong { max: 10 }));
}

#[test]
fn compressed_and_unknown_flags_are_refused_by_name() {
    let mut chunk = Bytes::from_static(&[1, 0, 0, 0, 0]);
    assert!(matches!(
        EnvelopeDecoder::new(9).decode(&mut chunk),
        Err(EnvelopeError::Compressed)
    ));
    let mut chunk = Bytes::from_static(&[0x82, 0, 0, 0, 0]);
    assert!(matches!(
        EnvelopeDecoder::new(9).decode(&mut chunk),
        Err(EnvelopeError::UnknownFlags(0x82))
    ));
}

#[test]
fn nothing_may_follow_the_end_and_nothing_may_be_missing() {
    let mut decoder = EnvelopeDecoder::new(9);
    let mut chunk = Bytes::from_static(&[2, 0, 0, 0, 2, b'{', b'}', 0]);
    assert!(matches!(
        decoder.decode(&mut chunk),
        Ok(Some(Frame::End(_)))
    ));
    assert!(decoder.has_ended());
    assert!(decoder.finish_response().is_ok());
    assert!(matches!(
        decoder.decode(&mut chunk),
        Err(EnvelopeError::AfterEnd)
    ));

    let mut decoder = EnvelopeDecoder::new(9);
    let mut chunk = Bytes::from_static(&[0, 0, 0, 0, 2, b'{']);
    assert_eq!(decoder.decode(&mut chunk).unwrap(), None);
    assert!(decoder.finish_request().is_err());
    let mut chunk = Bytes::from_static(b"}");
    assert!(decoder.decode(&mut chunk).unwrap().is_some());
    assert!(decoder.finish_request().is_ok());
    assert!(matches!(
        decoder.finish_response(),
        Err(EnvelopeError::Truncated)
    ));
}

#[test]
fn malformed_ends_are_refused() {
    for payload in [
        "",
        "[]",
        "{\"error\":5}",
        "{\"metadata\":{\"a\":\"b\"}}",
        "{",
    ] {
        let mut wire = vec![2, 0, 0, 0, u8::try_from(payload.len()).unwrap()];
        wire.extend_from_slice(payload.as_bytes());
        assert!(
            matches!(
                EnvelopeDecoder::new(99).decode(&mut Bytes::from(wire)),
                Err(EnvelopeError::InvalidEnd(_))
            ),
            "{payload}"
        );
    }
}

#[test]
fn malformed_frame_headers_are_refused() {
    for header in [
        "0000000A\n",
        "00000001\r",
        "0000000 \n",
        "+0000001\n",
        "GET / HTT",
    ] {
        assert_eq!(
            FrameDecoder::new(99).decode(&mut Bytes::from(header)),
            Err(FrameError::InvalidHeader),
            "{header}"
        );
    }
}

#[test]
fn json_nested_without_end_is_refused() {
    let deep = |open: &str| open.repeat(1 << 18);
    assert!(json::<process::StartRequest>(deep("[")).is_err());
    assert!(json::<process::StartRequest>(format!("{{\"x\":{}", deep("["))).is_err());
    assert!(json::<process::StartRequest>(deep("{\"process\":")).is_err());
    assert!(Event::from_json(format!("{{\"type\":{}", deep("[")).as_bytes()).is_err());
    assert!(Event::from_json(format!("{{\"x\":{}", deep("{\"x\":")).as_bytes()).is_err());
}

#[test]
fn binary_groups_nested_without_end_are_refused() {
    // Field 7, start of a group, over and over.
    let wire = vec![0x3b; 1 << 18];
    assert!(matches!(
        Codec::Proto.decode::<process::StartRequest>(Bytes::from(wire)),
        Err(DecodeError::Proto(_))
    ));
}

#[test]
fn a_list_of_empty_elements_is_refused_at_its_cap() {
    let at_cap = b"\x0a\x00".repeat(MAX_LIST_ITEMS);
    let list: fs::ListDirResponse = Codec::Proto.decode(Bytes::from(at_cap)).unwrap();
    assert_eq!(list.entries.len(), MAX_LIST_ITEMS);

    let over = b"\x0a\x00".repeat(MAX_LIST_ITEMS + 1);
    assert!(matches!(
        Codec::Proto.decode::<fs::ListDirResponse>(Bytes::from(over)),
        Err(DecodeError::ListTooLong)
    ));

    let mut over = b"{\"entries\":[{}".to_vec();
    over.extend_from_slice(&b",{}".repeat(MAX_LIST_ITEMS));
    over.extend_from_slice(b"]}");
    assert!(json::<fs::ListDirResponse>(over).is_err());
}

#[test]
fn values_of_the_wrong_kind_are_refused() {
    for text in [
        r#"{"event":{"data":{"stdout":"a"}}}"#,
        r#"{"event":{"data":{"stdout":"!!!!"}}}"#,
        r#"{"event":{"data":{"stdout":"+_8="}}}"#,
        r#"{"event":{"data":{"stdout":5}}}"#,
        r#"{"event":{"data":{"stdout":"aGkK","stderr":"aGkK"}}}"#,
        r#"{"event":{"start":{},"end":{}}}"#,
        r#"{"event":{"start":{"pid":-1}}}"#,
        r#"{"event":{"start":{"pid":4294967296}}}"#,
        r#"{"event":{"start":{"pid":"0x10"}}}"#,
        r#"{"event":{"start":{"pid":1.5}}}"#,
        r#"{"event":{"start":{"pid":1e300}}}"#,
        r#"{"event":{"end":{"exitCode":1,"exit_code":1}}}"#,
        r#"{"event":{"end":{"exited":"true"}}}"#,
        "[]",
        "{",
        "{}x",
        "{\"event\":{\"end\":{\"status\":\"\u{1}\"}}}",
    ] {
        assert!(json::<process::StartResponse>(text).is_err(), "{text}");
    }
    assert!(json::<process::StartResponse>(b"{\"\xff\":1}".to_vec()).is_err());
    assert!(json::<process::SendSignalRequest>(r#"{"signal":"SIGKILL"}"#).is_err());
    assert!(json::<process::SendSignalRequest>(r#"{"signal":2147483648}"#).is_err());
    assert!(json::<fs::StatResponse>(r#"{"entry":{"modifiedTime":"yesterday"}}"#).is_err());
    assert!(json::<fs::StatResponse>(r#"{"entry":{"modifiedTime":5}}"#).is_err());
}

#[test]
fn truncated_binary_is_refused_at_every_byte() {
    let whole = Codec::Proto.encode(&process::StartRequest {
        process: Some(process::ProcessConfig {
            cmd: "/bin/true".to_owned(),
            args: vec!["x".to_owned()],
            envs: [("A".to_owned(), "B".to_owned())].into(),
            cwd: Some("/".to_owned()),
        }),
        ..Default::default()
    });
    for length in 1..whole.len() {
        assert!(
            Codec::Proto
                .decode::<process::StartRequest>(whole.slice(..length))
                .is_err(),
            "{length}"
        );
    }
}

#[test]
fn events_without_their_fields_are_refused() {
    for text in [
        r#"{"type":"stdout_delta"}"#,
        r#"{"type":"error"}"#,
        r#"{"type":"other","data":""}"#,
        r#"{"data":"x"}"#,
        r#"{"type":"result","exitCode":2147483648}"#,
        "null",
        "",
    ] {
        assert!(Event::from_json(text.as_bytes()).is_err(), "{text}");
    }
}
