//! Bytes as E2B's SDKs and envd put them on the wire, byte for byte.

use namzu_protocol::connect::{Code, EndStream, Envelope, EnvelopeDecoder, Frame};
use namzu_protocol::filesystem as fs;
use namzu_protocol::process::{self, data_event::Output, process_event::Event};
use namzu_protocol::{Bytes, Codec, Timestamp, WireMessage};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(hex_byte).collect()
}

fn hex_byte(pair: &[u8]) -> u8 {
    let text = std::str::from_utf8(pair).expect("the test's own text");
    u8::from_str_radix(text, 16).expect("the test's own digits")
}

fn response(event: Event) -> process::StartResponse {
    process::StartResponse {
        event: Some(event.into()),
    }
}

fn envelope(message: &impl WireMessage) -> Vec<u8> {
    Envelope::encode(Codec::Json, message)
        .expect("shorter than 4 GiB")
        .into_bytes()
        .to_vec()
}

#[test]
fn the_events_of_a_command_are_the_captured_bytes() {
    let start = response(Event::Start(process::StartEvent { pid: 29537 }));
    let stdout = response(Event::Data(process::DataEvent {
        output: Some(Output::Stdout(Bytes::from_static(b"hi\n"))),
        ..Default::default()
    }));
    let stderr = response(Event::Data(process::DataEvent {
        output: Some(Output::Stderr(Bytes::from_static(b"err\n"))),
        ..Default::default()
    }));
    let end = response(Event::End(process::EndEvent {
        exit_code: 0,
        exited: true,
        status: "exit status 0".to_owned(),
        ..Default::default()
    }));
    for (message, header, json) in [
        (start, "0000000021", r#"{"event":{"start":{"pid":29537}}}"#),
        (
            stdout,
            "0000000024",
            r#"{"event":{"data":{"stdout":"aGkK"}}}"#,
        ),
        (
            stderr,
            "0000000028",
            r#"{"event":{"data":{"stderr":"ZXJyCg=="}}}"#,
        ),
        (
            end,
            "0000000047",
            r#"{"event":{"end":{"exitCode":0,"exited":true,"status":"exit status 0"}}}"#,
        ),
    ] {
        let mut wire = hex(header);
        wire.extend_from_slice(json.as_bytes());
        assert_eq!(envelope(&message), wire);
        let read: process::StartResponse = Codec::Json.decode(Bytes::from(json)).unwrap();
        assert_eq!(read, message);
    }
}

#[test]
fn the_ends_of_a_stream_are_the_captured_bytes() {
    let end = |end: &EndStream| Envelope::end(end).unwrap().into_bytes().to_vec();
    let mut success = hex("0200000002");
    success.extend_from_slice(b"{}");
    assert_eq!(end(&EndStream::success()), success);

    let json = br#"{"error":{"code":"deadline_exceeded","message":"too late"}}"#;
    let mut failure = vec![2, 0, 0, 0, u8::try_from(json.len()).unwrap()];
    failure.extend_from_slice(json);
    let failed = EndStream::failure(Code::DeadlineExceeded, "too late");
    assert_eq!(end(&failed), failure);

    let mut chunk = Bytes::from(failure);
    let read = EnvelopeDecoder::new(1024).decode(&mut chunk).unwrap();
    assert_eq!(read, Some(Frame::End(failed)));
}

#[test]
fn the_start_of_a_command_reads_as_the_sdk_sends_it() {
    let json = r#"{"process":{"cmd":"/bin/bash","args":["-l","-c","echo hi; echo err >&2; echo $A"]},"stdin":false}"#;
    let request: process::StartRequest = Codec::Json.decode(Bytes::from(json)).unwrap();
    let process = request.process.clone().unwrap();
    assert_eq!(process.cmd, "/bin/bash");
    assert_eq!(process.args, ["-l", "-c", "echo hi; echo err >&2; echo $A"]);
    assert_eq!(process.cwd, None);
    assert_eq!(request.stdin, Some(false));
    assert_eq!(Codec::Json.encode(&request), json);
    assert_eq!(json.len(), 0x61);
}

#[test]
fn a_keep_alive_is_an_empty_member() {
    let message = response(Event::Keepalive(process::KeepAlive {}));
    assert_eq!(
        Codec::Json.encode(&message),
        r#"{"event":{"keepalive":{}}}"#
    );
    assert_eq!(&*Codec::Proto.encode(&message), hex("0a 02 22 00"));
}

#[test]
fn binary_field_numbers_are_those_of_the_descriptors() {
    // exit_code is zig-zag: -1 is 1.
    let killed = response(Event::End(process::EndEvent {
        exit_code: -1,
        exited: false,
        status: "signal: killed".to_owned(),
        error: Some("signal: killed".to_owned()),
        info: None,
    }));
    let mut wire = hex("0a 24 1a 22 08 01 1a 0e");
    wire.extend_from_slice(b"signal: killed");
    wire.extend_from_slice(&hex("22 0e"));
    wire.extend_from_slice(b"signal: killed");
    assert_eq!(&*Codec::Proto.encode(&killed), wire);

    let signal = process::SendSignalRequest {
        process: Some(process::ProcessSelector::pid(300)),
        signal: process::Signal::Sigkill.into(),
    };
    assert_eq!(&*Codec::Proto.encode(&signal), hex("0a 03 08 ac 02  10 09"));

    let input = process::StreamInputRequest {
        event: Some(process::stream_input_request::Event::Data(
            process::StreamInputData {
                input: Some(process::ProcessInput {
                    input: Some(process::process_input::Input::Pty(Bytes::from_static(b"x"))),
                }),
            },
        )),
    };
    assert_eq!(&*Codec::Proto.encode(&input), hex("12 05 12 03 12 01 78"));

    let entry = fs::StatResponse {
        entry: Some(fs::EntryInfo {
            name: "a".to_owned(),
            r#type: fs::FileType::Directory.into(),
            path: "/a".to_owned(),
            size: 1,
            mode: 0o755,
            permissions: "d".to_owned(),
            owner: "o".to_owned(),
            group: "g".to_owned(),
            modified_time: Some(Timestamp {
                seconds: 1,
                nanos: 2,
            }),
            symlink_target: Some("t".to_owned()),
            metadata: [("k".to_owned(), "v".to_owned())].into(),
            is_symlink: true,
        }),
    };
    assert_eq!(
        &*Codec::Proto.encode(&entry),
        hex(
            "0a 2a 0a 01 61 10 02 1a 02 2f 61 20 01 28 ed 03 32 01 64 3a 01 6f 42 01 67
             4a 04 08 01 10 02 52 01 74 5a 06 0a 01 6b 12 01 76 60 01"
        )
    );
}

#[test]
fn our_fields_have_the_documented_numbers() {
    let options = process::StartRequest {
        options: Some(process::StartOptions {
            timeout_ms: Some(1),
            cpu_seconds: Some(2),
            address_space: Some(3),
            file_size: Some(4),
            open_files: Some(5),
            lane: Some(6),
            retain_bytes: Some(7),
            argv: vec![Bytes::from_static(&[0xff])],
            kill_on_disconnect: true,
            head: Some(10),
            tail: Some(11),
        }),
        ..Default::default()
    };
    assert_eq!(
        &*Codec::Proto.encode(&options),
        hex("c2 3e 17 08 01 10 02 18 03 20 04 28 05 30 06 38 07 42 01 ff 48 01 50 0a 58 0b")
    );
    assert_eq!(
        Codec::Json.encode(&options),
        concat!(
            r#"{"options":{"timeoutMs":"1","cpuSeconds":"2","addressSpace":"3","fileSize":"4","#,
            r#""openFiles":"5","lane":"6","retainBytes":"7","argv":["/w=="],"#,
            r#""killOnDisconnect":true,"head":"10","tail":"11"}}"#
        )
    );

    let data = response(Event::Data(process::DataEvent {
        output: Some(Output::Pty(Bytes::from_static(b"x"))),
        offset: 5,
        skipped: 2,
    }));
    assert_eq!(
        &*Codec::Proto.encode(&data),
        hex("0a 0b 12 09 1a 01 78 c0 3e 05 c8 3e 02")
    );
    assert_eq!(
        Codec::Json.encode(&data),
        r#"{"event":{"data":{"pty":"eA==","offset":"5","skipped":"2"}}}"#
    );

    let connect = process::ConnectRequest {
        process: Some(process::ProcessSelector::tag("t")),
        cursor: Some(process::Cursor {
            stdout: 1,
            stderr: 2,
            pty: 3,
        }),
    };
    assert_eq!(
        &*Codec::Proto.encode(&connect),
        hex("0a 03 12 01 74 c2 3e 06 08 01 10 02 18 03")
    );

    let end = response(Event::End(process::EndEvent {
        info: Some(process::EndInfo {
            signal: 9,
            timed_out: true,
            oom: true,
            stdout_bytes: 4,
            stderr_bytes: 5,
            user_us: 6,
            system_us: 7,
            max_rss: 8,
            duration_us: 9,
        }),
        ..Default::default()
    }));
    assert_eq!(
        &*Codec::Proto.encode(&end),
        hex("0a 17 1a 15 c2 3e 12 08 09 10 01 18 01 20 04 28 05 30 06 38 07 40 08 48 09")
    );

    let list = process::ListResponse {
        processes: vec![process::ProcessInfo {
            pid: 1,
            state: Some(process::ProcessState {
                running: true,
                started_unix_ms: 2,
                exit: None,
                stdout_bytes: 4,
                stderr_bytes: 5,
            }),
            ..Default::default()
        }],
    };
    assert_eq!(
        &*Codec::Proto.encode(&list),
        hex("0a 0d 10 01 c2 3e 08 08 01 10 02 20 04 28 05")
    );
}

#[test]
fn an_entry_is_written_as_envd_writes_it() {
    let response = fs::ListDirResponse {
        entries: vec![fs::EntryInfo {
            name: "notes".to_owned(),
            r#type: fs::FileType::File.into(),
            path: "/home/user/notes".to_owned(),
            size: 12,
            mode: 0o644,
            permissions: "-rw-r--r--".to_owned(),
            owner: "user".to_owned(),
            group: "user".to_owned(),
            modified_time: Some("2026-01-02T03:04:05.678Z".parse().unwrap()),
            ..Default::default()
        }],
    };
    assert_eq!(
        Codec::Json.encode(&response),
        concat!(
            r#"{"entries":[{"name":"notes","type":"FILE_TYPE_FILE","path":"/home/user/notes","#,
            r#""size":"12","mode":420,"permissions":"-rw-r--r--","owner":"user","group":"user","#,
            r#""modifiedTime":"2026-01-02T03:04:05.678Z"}]}"#
        )
    );
}

#[test]
fn a_change_is_written_as_envd_writes_it() {
    let message = fs::WatchDirResponse::from(fs::watch_dir_response::Event::Filesystem(
        fs::FilesystemEvent {
            name: "a.txt".to_owned(),
            r#type: fs::EventType::Create.into(),
            entry: None,
        },
    ));
    assert_eq!(
        Codec::Json.encode(&message),
        r#"{"filesystem":{"name":"a.txt","type":"EVENT_TYPE_CREATE"}}"#
    );
    assert_eq!(
        &*Codec::Proto.encode(&message),
        hex("12 09 0a 05 61 2e 74 78 74 10 01")
    );
}

#[test]
fn the_bytes_of_a_binary_message_are_not_copied() {
    let message = response(Event::Data(process::DataEvent {
        output: Some(Output::Stdout(Bytes::from(vec![7; 4096]))),
        ..Default::default()
    }));
    let wire = Codec::Proto.encode(&message);
    let range = wire.as_ptr_range();
    let read: process::StartResponse = Codec::Proto.decode(wire).unwrap();
    let Some(Event::Data(data)) = read.event.unwrap().event else {
        panic!("no data event");
    };
    let Some(Output::Stdout(bytes)) = data.output else {
        panic!("no stdout");
    };
    assert!(range.contains(&bytes.as_ptr()));
}
