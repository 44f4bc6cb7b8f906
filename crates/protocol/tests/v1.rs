//! The v1 wires as existing hosts and workers speak them.

use namzu_protocol::v1::{
    Encoding, Event, ExecuteRequest, ExecuteResult, FrameDecoder, FrameRequest, FrameRequestError,
    LineDecoder, ReadFileRequest, ReadFileResponse, Refusal, Utf8Decoder, WriteFileRequest,
    WriteFileResponse, encode_frame, encode_line, is_frame_header,
};
use namzu_protocol::{Bytes, JsonBody, to_json};

#[test]
fn events_are_the_documented_objects() {
    for (event, json) in [
        (
            Event::StdoutDelta {
                data: "a\n".to_owned(),
            },
            r#"{"type":"stdout_delta","data":"a\n"}"#,
        ),
        (
            Event::StderrDelta {
                data: "é".to_owned(),
            },
            r#"{"type":"stderr_delta","data":"é"}"#,
        ),
        (
            Event::Result(ExecuteResult {
                exit_code: 1,
                timed_out: false,
                duration_ms: 12,
                stdout_truncated: true,
                stderr_truncated: false,
                signal: None,
            }),
            concat!(
                r#"{"type":"result","exitCode":1,"timedOut":false,"durationMs":12,"#,
                r#""stdoutTruncated":true,"stderrTruncated":false}"#
            ),
        ),
        (
            Event::Error {
                error: "spawn failed".to_owned(),
            },
            r#"{"type":"error","error":"spawn failed"}"#,
        ),
    ] {
        assert_eq!(event.to_json(), json.as_bytes());
        assert_eq!(Event::from_json(json.as_bytes()).unwrap(), event);
    }
}

#[test]
fn a_result_with_what_javascript_gives_is_read() {
    let json = br#"{"type":"result","exitCode":null,"durationMs":12.4,"extra":[{}]}"#;
    let Event::Result(result) = Event::from_json(json).unwrap() else {
        panic!("no result");
    };
    assert_eq!((result.exit_code, result.duration_ms), (-1, 13));
}

#[test]
fn a_timeout_out_of_range_survives_to_be_refused_by_the_worker() {
    for (given, read) in [("-5", 0), ("0.5", 1), ("1e300", u64::MAX), ("1500", 1500)] {
        let json = format!(r#"{{"op":"execute","body":{{"command":"x","timeoutMs":{given}}}}}"#);
        let Ok(FrameRequest::Execute(request)) = FrameRequest::from_json(json.as_bytes()) else {
            panic!("{given} was refused");
        };
        assert_eq!(request.timeout_ms, Some(read));
    }
}

#[test]
fn frame_requests_survive_the_wire() {
    for (request, json) in [
        (
            FrameRequest::Execute(ExecuteRequest {
                command: Some("ls".to_owned()),
                args: Some(vec!["-l".to_owned()]),
                ..Default::default()
            }),
            r#"{"op":"execute","body":{"command":"ls","args":["-l"]}}"#,
        ),
        (
            FrameRequest::ReadFile(ReadFileRequest {
                path: "a".to_owned(),
                encoding: Some(Encoding::Base64),
            }),
            r#"{"op":"read-file","body":{"path":"a","encoding":"base64"}}"#,
        ),
        (
            FrameRequest::WriteFile(WriteFileRequest {
                path: "a".to_owned(),
                content: "eA==".to_owned(),
                encoding: Some(Encoding::Base64),
            }),
            r#"{"op":"write-file","body":{"path":"a","content":"eA==","encoding":"base64"}}"#,
        ),
        (FrameRequest::Healthz, r#"{"op":"healthz","body":{}}"#),
    ] {
        assert_eq!(
            String::from_utf8(request.to_json()).unwrap(),
            json.to_owned()
        );
        assert_eq!(FrameRequest::from_json(json.as_bytes()), Ok(request));
    }
    assert_eq!(
        FrameRequest::from_json(br#"{"op":"healthz"}"#),
        Ok(FrameRequest::Healthz)
    );
}

#[test]
fn what_is_no_request_says_what_to_do_about_it() {
    assert_eq!(
        FrameRequest::from_json(br#"{"op":"rm","body":{}}"#),
        Err(FrameRequestError::UnknownOp("rm".to_owned()))
    );
    for text in ["", "x", "{}", r#"{"op":5}"#, r#"{"op":"execute","body":{}"#] {
        assert!(
            matches!(
                FrameRequest::from_json(text.as_bytes()),
                Err(FrameRequestError::Malformed(_))
            ),
            "{text}"
        );
    }
    for (text, execute) in [
        (r#"{"op":"execute"}"#, true),
        (r#"{"op":"execute","body":{"command":5}}"#, true),
        (r#"{"op":"read-file","body":{}}"#, false),
    ] {
        assert!(
            matches!(
                FrameRequest::from_json(text.as_bytes()),
                Err(FrameRequestError::InvalidBody { is_execute, .. }) if is_execute == execute
            ),
            "{text}"
        );
    }
}

#[test]
fn answers_are_the_documented_objects() {
    assert_eq!(
        text(&ReadFileResponse {
            ok: true,
            content: "x".to_owned(),
            size_bytes: 1,
            encoding: Encoding::Utf8,
        }),
        r#"{"ok":true,"content":"x","sizeBytes":1,"encoding":"utf8"}"#
    );
    assert_eq!(
        text(&WriteFileResponse {
            ok: true,
            bytes_written: 3,
        }),
        r#"{"ok":true,"bytesWritten":3}"#
    );
    assert_eq!(
        text(&Refusal::file("unknown_op: rm")),
        r#"{"ok":false,"error":"unknown_op: rm"}"#
    );
    assert_eq!(
        text(&Refusal::command("invalid_cwd", "it leaves")),
        r#"{"error":"invalid_cwd","message":"it leaves"}"#
    );
    assert_eq!(text(&Refusal::not_found()), r#"{"error":"not_found"}"#);
}

fn text(body: &impl JsonBody) -> String {
    String::from_utf8(to_json(body)).expect("JSON is UTF-8")
}

#[test]
fn content_is_read_as_its_encoding_says() {
    assert_eq!(
        Encoding::Utf8.decode("é".to_owned()).unwrap(),
        "é".as_bytes()
    );
    assert_eq!(Encoding::Base64.decode("/w".to_owned()).unwrap(), [0xff]);
    assert!(Encoding::Base64.decode("/".to_owned()).is_err());
    assert_eq!(Encoding::Base64.encode(&[0xff]), "/w==");
    assert_eq!(Encoding::Utf8.encode(&[b'a', 0xff]), "a\u{FFFD}");
}

#[test]
fn frames_are_the_documented_bytes() {
    assert_eq!(encode_frame(b"").unwrap(), "00000000\n");
    assert_eq!(encode_frame(&[b'x'; 26]).unwrap()[..9], *b"0000001a\n");
    assert!(is_frame_header(b"0000001a\n"));
    for other in [b"PRI * HTT", b"GET / HTT", b"0000001A\n", b"00000001\0"] {
        assert!(!is_frame_header(other));
    }
}

#[test]
fn frames_read_the_same_however_they_are_cut() {
    let mut wire = Vec::new();
    for payload in [&b"abc"[..], b"", b"0000000f\nx"] {
        wire.extend_from_slice(&encode_frame(payload).unwrap());
    }
    let wire = Bytes::from(wire);
    for first in 0..=wire.len() {
        for second in first..=wire.len() {
            let mut decoder = FrameDecoder::new(64);
            let mut read = Vec::new();
            for mut part in [
                wire.slice(..first),
                wire.slice(first..second),
                wire.slice(second..),
            ] {
                while let Some(payload) = decoder.decode(&mut part).unwrap() {
                    read.push(payload);
                }
                assert!(part.is_empty());
            }
            assert_eq!(read, [&b"abc"[..], b"", b"0000000f\nx"]);
            assert!(decoder.finish().is_ok());
        }
    }
}

#[test]
fn lines_read_the_same_however_they_are_cut() {
    let wire = Bytes::from_static(b"{\"a\":1}\r\n\n \nsecond\nlast");
    for first in 0..=wire.len() {
        for second in first..=wire.len() {
            let mut decoder = LineDecoder::new(7);
            let mut read = Vec::new();
            for mut part in [
                wire.slice(..first),
                wire.slice(first..second),
                wire.slice(second..),
            ] {
                while let Some(line) = decoder.decode(&mut part).unwrap() {
                    read.push(line);
                }
                assert!(part.is_empty());
            }
            read.extend(decoder.finish().unwrap());
            assert_eq!(read, [&b"{\"a\":1}"[..], b"second", b"last"]);
        }
    }
    assert_eq!(encode_line(b"{}"), "{}\n");
}

#[test]
fn text_reads_the_same_however_its_bytes_are_cut() {
    let cases: [&[u8]; 6] = [
        "aé€😀z".as_bytes(),
        b"\xff\xe2\x82z\xf0\x9f\x98",
        b"\xf0\x9f\x98\x80\xf0\x9f",
        b"\xed\xa0\x80x",
        b"\xc3",
        b"\xe2\x28\xa1",
    ];
    for bytes in cases {
        let whole = String::from_utf8_lossy(bytes);
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut decoder = Utf8Decoder::new();
                let mut text = String::new();
                for part in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    text.push_str(&decoder.decode(part));
                }
                text.push_str(decoder.finish());
                assert_eq!(text, whole, "{bytes:?} cut at {first} and {second}");
            }
        }
    }
}
