//! JSON that is not canonical and still means something, as envd's server takes it.

use namzu_protocol::connect::{Code, ContentType, ErrorBody, parse_timeout_ms};
use namzu_protocol::filesystem as fs;
use namzu_protocol::httperror::HttpError;
use namzu_protocol::process::{self, data_event::Output, process_event::Event};
use namzu_protocol::{Bytes, Codec, WireMessage};

fn read<M: WireMessage>(json: &str) -> M {
    Codec::Json
        .decode(Bytes::copy_from_slice(json.as_bytes()))
        .expect("lenient JSON must be read")
}

#[test]
fn both_spellings_of_a_field_are_read() {
    let camel: process::StartResponse = read(r#"{"event":{"end":{"exitCode":3,"exited":true}}}"#);
    let snake: process::StartResponse = read(r#"{"event":{"end":{"exit_code":3,"exited":true}}}"#);
    assert_eq!(camel, snake);
    assert!(matches!(
        camel.event.unwrap().event,
        Some(Event::End(end)) if end.exit_code == 3
    ));

    let camel: fs::CreateWatcherRequest =
        read(r#"{"path":"/a","includeEntry":true,"allowNetworkMounts":true}"#);
    let snake: fs::CreateWatcherRequest =
        read(r#"{"path":"/a","include_entry":true,"allow_network_mounts":true}"#);
    assert_eq!(camel, snake);
    assert!(camel.include_entry);

    let camel: process::StartRequest =
        read(r#"{"options":{"timeoutMs":1,"killOnDisconnect":true}}"#);
    let snake: process::StartRequest =
        read(r#"{"options":{"timeout_ms":1,"kill_on_disconnect":true}}"#);
    assert_eq!(camel, snake);
    assert_eq!(camel.options.unwrap().timeout_ms, Some(1));
}

#[test]
fn integers_are_read_from_numbers_strings_and_whole_floats() {
    for size in ["7", "\"7\"", "7.0", "0.7e1"] {
        let stat: fs::StatResponse = read(&format!(r#"{{"entry":{{"size":{size}}}}}"#));
        assert_eq!(stat.entry.unwrap().size, 7, "{size}");
    }
    let large: process::ConnectRequest =
        read(r#"{"cursor":{"stdout":"18446744073709551615","stderr":18446744073709551615}}"#);
    let cursor = large.cursor.unwrap();
    assert_eq!((cursor.stdout, cursor.stderr), (u64::MAX, u64::MAX));
    let selector: process::UpdateRequest = read(r#"{"process":{"pid":"12"}}"#);
    assert_eq!(selector.process, Some(process::ProcessSelector::pid(12)));
}

#[test]
fn enums_are_read_by_name_and_number_and_unknown_numbers_survive() {
    for signal in ["\"SIGNAL_SIGKILL\"", "9"] {
        let request: process::SendSignalRequest = read(&format!(r#"{{"signal":{signal}}}"#));
        assert_eq!(request.signal, i32::from(process::Signal::Sigkill));
    }
    let request: process::SendSignalRequest = read(r#"{"signal":2}"#);
    assert_eq!(request.signal, 2);
    assert_eq!(Codec::Json.encode(&request), r#"{"signal":2}"#);
}

#[test]
fn bytes_are_read_from_both_alphabets_padded_or_not() {
    for text in ["+/8=", "-_8=", "+/8", "-_8"] {
        let json = format!(r#"{{"event":{{"data":{{"stdout":"{text}"}}}}}}"#);
        let message: process::StartResponse = read(&json);
        let Some(Event::Data(data)) = message.event.unwrap().event else {
            panic!("{text} gave no data event");
        };
        assert_eq!(
            data.output,
            Some(Output::Stdout(Bytes::from_static(&[0xfb, 0xff])))
        );
    }
}

#[test]
fn unknown_fields_nulls_and_empty_bodies_are_nothing() {
    let message: process::StartRequest = read(
        r#"{"x":{"y":[1,{}]},"process":{"cmd":null,"args":null,"envs":null,"cwd":null},"tag":null}"#,
    );
    assert_eq!(message.process, Some(process::ProcessConfig::default()));
    assert_eq!(
        read::<process::ListRequest>(""),
        process::ListRequest::default()
    );
    assert_eq!(
        read::<process::ListRequest>("{}"),
        process::ListRequest::default()
    );
    let end: process::StartResponse = read(
        r#"{"event":{"start":null,"data":null,"end":{"exitCode":null,"exited":null,"status":null,"error":null}}}"#,
    );
    assert!(matches!(end.event.unwrap().event, Some(Event::End(_))));
    let entry: fs::StatResponse =
        read(r#"{"entry":{"size":null,"type":null,"modifiedTime":null}}"#);
    assert_eq!(entry.entry, Some(fs::EntryInfo::default()));
}

#[test]
fn unknown_binary_fields_are_skipped() {
    // Field 7 (varint), 8 (bytes), 9 (fixed32), 10 (fixed64), then pid = 5.
    let wire: &[u8] = &[
        0x38, 1, 0x42, 1, 0, 0x4d, 0, 0, 0, 0, 0x51, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 5,
    ];
    let mut list = vec![0x0a, u8::try_from(wire.len()).unwrap()];
    list.extend_from_slice(wire);
    let list: process::ListResponse = Codec::Proto.decode(Bytes::from(list)).unwrap();
    assert_eq!(list.processes[0].pid, 5);
}

#[test]
fn a_content_type_is_read_without_case_and_parameters() {
    for (header, read) in [
        ("application/json", Some(ContentType::Unary(Codec::Json))),
        (
            "Application/JSON; charset=utf-8",
            Some(ContentType::Unary(Codec::Json)),
        ),
        ("application/proto", Some(ContentType::Unary(Codec::Proto))),
        (
            "application/connect+json",
            Some(ContentType::Stream(Codec::Json)),
        ),
        (
            "application/connect+proto",
            Some(ContentType::Stream(Codec::Proto)),
        ),
        ("application/grpc", None),
        ("", None),
    ] {
        assert_eq!(ContentType::parse(header), read, "{header}");
    }
}

#[test]
fn codes_and_statuses_map_both_ways() {
    for code in Code::ALL {
        assert_eq!(code.as_str().parse(), Ok(*code));
    }
    assert!("NOT_FOUND".parse::<Code>().is_err());
    assert_eq!(Code::NotFound.http_status(), 404);
    assert_eq!(Code::Canceled.http_status(), 499);
    assert_eq!(Code::from_http_status(502), Code::Unavailable);
    assert_eq!(Code::from_http_status(418), Code::Unknown);
}

#[test]
fn an_error_body_is_read_whatever_it_is() {
    let read = |body: &str| ErrorBody::from_response(503, body.as_bytes());
    assert_eq!(
        read(r#"{"code":"not_found","message":"no such pid","details":[{"x":1}]}"#),
        ErrorBody::new(Code::NotFound, "no such pid")
    );
    // envd's HTTP errors have the status as a number.
    assert_eq!(
        read(r#"{"code":503,"message":"busy"}"#),
        ErrorBody::new(Code::Unavailable, "busy")
    );
    assert_eq!(
        read(r#"{"code":{"a":[1]},"message":null}"#),
        ErrorBody::new(Code::Unavailable, "")
    );
    assert_eq!(read("<html>"), ErrorBody::new(Code::Unavailable, ""));
    assert_eq!(
        HttpError::from_response(404, br#"{"code":404,"message":"gone"}"#),
        HttpError::new(404, "gone")
    );
    // A peer that answers in Connect's shape is understood, too.
    assert_eq!(
        HttpError::from_response(404, br#"{"code":"not_found","message":"gone"}"#),
        HttpError::new(404, "gone")
    );
    assert_eq!(HttpError::from_response(404, b"x"), HttpError::new(404, ""));
    assert_eq!(
        HttpError::new(507, "disk full").to_json(),
        br#"{"code":507,"message":"disk full"}"#
    );
}

#[test]
fn a_timeout_is_one_to_ten_digits() {
    assert_eq!(parse_timeout_ms("60000"), Some(60_000));
    assert_eq!(parse_timeout_ms("9999999999"), Some(9_999_999_999));
    for bad in ["", "-1", "+1", "1.5", "99999999999", " 1"] {
        assert_eq!(parse_timeout_ms(bad), None, "{bad}");
    }
}
