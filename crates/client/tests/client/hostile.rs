//! A worker that was taken over: whatever it sends is an error in bounded memory, never a panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use std::future::poll_fn;
use std::pin::pin;

use bytes::{BufMut, Bytes, BytesMut};
use namzu_client::{ExecRequest, WatchKind};
use namzu_core::types::SandboxSpec;
use namzu_core::{Error, ErrorCode};
use namzu_protocol::Codec;
use namzu_protocol::connect::Envelope;
use namzu_protocol::filesystem::watch_dir_response::Event;
use namzu_protocol::filesystem::{EventType, FilesystemEvent, WatchDirResponse, WatchStart};
use namzu_protocol::process::{EndInfo, StartEvent, process_event};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::fake::{Call, FakeBackend, Script};

/// What running a command gives when the worker answers its start with `script`.
async fn exec(script: impl Fn(Call) -> Option<Script> + Send + Sync + 'static) -> Error {
    let script = Arc::new(script);
    let backend = FakeBackend::new(move |call| {
        let script = Arc::clone(&script);
        async move {
            if call.path != namzu_protocol::process::START {
                return;
            }
            if let Some(mut under_way) = script(call) {
                under_way.reset().await;
            }
        }
    });
    let sandbox = backend.sandbox().await;
    sandbox.exec(ExecRequest::new(["x"])).await.unwrap_err()
}

/// As [`exec`], after the start event.
async fn after_start(script: impl Fn(&mut Script) + Send + Sync + 'static) -> ErrorCode {
    exec(move |call| {
        let mut under_way = call.started(1);
        script(&mut under_way);
        Some(under_way)
    })
    .await
    .code()
}

const BROKEN: ErrorCode = ErrorCode::ProtocolViolation;

#[tokio::test]
async fn a_second_end_is_a_violation() {
    let twice = after_start(|script| {
        script.end(0, EndInfo::default());
        script.end(0, EndInfo::default());
        script.close();
    });
    assert_eq!(twice.await, BROKEN);
}

#[tokio::test]
async fn output_after_the_end_is_a_violation() {
    let after = after_start(|script| {
        script.end(0, EndInfo::default());
        script.stdout(b"late");
        script.close();
    });
    assert_eq!(after.await, BROKEN);
}

#[tokio::test]
async fn bytes_after_the_last_envelope_are_a_violation() {
    let after = after_start(|script| {
        script.end(0, EndInfo::default());
        // An end-of-stream envelope, and something behind it.
        script.raw(&b"\x02\0\0\0\x02{}\0"[..]);
    });
    assert_eq!(after.await, BROKEN);
}

#[tokio::test]
async fn a_second_start_is_a_violation() {
    let twice = after_start(|script| {
        script.event(process_event::Event::Start(StartEvent { pid: 2 }));
    });
    assert_eq!(twice.await, BROKEN);
}

#[tokio::test]
async fn a_stream_that_ends_before_the_command_is_a_violation() {
    assert_eq!(after_start(Script::close).await, BROKEN);
}

#[tokio::test]
async fn a_missing_start_is_a_violation() {
    let err = exec(|call| {
        let mut script = call.stream("application/connect+proto");
        script.stdout(b"x");
        Some(script)
    });
    assert_eq!(err.await.code(), BROKEN);
}

#[tokio::test]
async fn a_wrong_content_type_is_a_violation() {
    for kind in [
        "text/html",
        "application/connect+json",
        "application/proto",
        "",
    ] {
        let err = exec(move |call| {
            call.answer(200, kind, "x");
            None
        });
        assert_eq!(err.await.code(), BROKEN, "{kind:?}");
    }
}

#[tokio::test]
async fn garbage_is_a_violation() {
    for garbage in [
        // No protobuf.
        &b"\0\0\0\0\x03\xff\xff\xff"[..],
        // A string that is not UTF-8, in the status of an end event.
        b"\0\0\0\0\x07\x0a\x05\x1a\x03\x1a\x01\xff",
        // Compressed, though nobody asked for it.
        b"\x01\0\0\0\0",
        // Flags that do not exist.
        b"\x80\0\0\0\0",
        // 4 GiB announced.
        b"\0\xff\xff\xff\xff",
        // The end of the stream is no JSON.
        b"\x02\0\0\0\x03{\"\xff",
    ] {
        let code = after_start(move |script| script.raw(garbage)).await;
        assert_eq!(code, BROKEN, "{garbage:?}");
    }
}

#[tokio::test]
async fn the_words_of_a_refusal_cannot_drive_a_terminal() {
    let err = exec(|call| {
        let body = r#"{"code":"invalid_argument","message":"\u001b]0;owned\u0007"}"#;
        call.answer(400, "application/json", body);
        None
    })
    .await;
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
    assert!(!err.to_string().contains(char::is_control));
}

#[tokio::test]
async fn a_refusal_without_end_is_a_violation() {
    let err = exec(|call| {
        call.answer(500, "application/json", vec![b'x'; 1 << 20]);
        None
    });
    assert_eq!(err.await.code(), BROKEN);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_keep_alives_do_not_hold_off_a_cancellation() {
    let killed = Arc::new(AtomicBool::new(false));
    let backend = FakeBackend::new(move |call| {
        let killed = Arc::clone(&killed);
        async move {
            if call.path != namzu_protocol::process::START {
                killed.store(true, Ordering::SeqCst);
                return;
            }
            let mut script = call.started(1);
            while !killed.load(Ordering::SeqCst) {
                let nothing = namzu_protocol::process::KeepAlive {};
                script.event(process_event::Event::Keepalive(nothing));
                tokio::task::yield_now().await;
            }
            script.end(0, EndInfo::default());
            script.close();
            script.reset().await;
        }
    });
    let sandbox = backend.sandbox().await;
    let cancel = namzu_client::CancellationToken::new();
    let exec = sandbox.exec_cancellable(ExecRequest::new(["x"]), &cancel);
    let (done, ()) = tokio::join!(exec, async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_eq!(done.unwrap_err().code(), ErrorCode::Cancelled);
}

#[tokio::test]
async fn changes_of_no_known_kind_do_not_hold_the_thread() {
    const MANY: usize = 50_000;
    let backend = FakeBackend::new(|call| async move {
        let message = |event| {
            let message = WatchDirResponse { event: Some(event) };
            Envelope::encode(Codec::Proto, &message)
                .unwrap()
                .into_bytes()
        };
        let change = |kind| {
            Event::Filesystem(FilesystemEvent {
                name: "x".into(),
                r#type: kind,
                ..FilesystemEvent::default()
            })
        };
        let mut script = call.stream("application/connect+proto");
        script.raw(message(Event::Start(WatchStart {})));
        script.raw(message(change(77)).repeat(MANY));
        script.raw(message(change(EventType::Create.into())));
        script.reset().await;
    });
    let sandbox = backend.sandbox().await;
    let mut watch = sandbox.files().watch("/", false).await.unwrap();
    let mut turns = 0;
    let mut next = pin!(watch.next());
    let event = poll_fn(|cx| {
        turns += 1;
        next.as_mut().poll(cx)
    });
    assert_eq!(event.await.unwrap().unwrap().kind, WatchKind::Create);
    assert!(turns > MANY / 256, "{turns} turns for {MANY} changes");
}

#[tokio::test]
async fn success_before_the_whole_was_sent_is_a_violation() {
    let backend =
        FakeBackend::new(|call| async move { call.answer(200, "application/json", "[]") });
    let sandbox = backend.sandbox().await;
    let (_open, source) = tokio::io::duplex(64);
    let err = sandbox.files().write_from("/x", source).await.unwrap_err();
    assert_eq!(err.code(), BROKEN);
}

/// What reading and looking at a file give when the worker answers everything with `body`.
async fn files(kind: &'static str, body: Vec<u8>) -> (Error, Error) {
    let body = Bytes::from(body);
    let backend = FakeBackend::new(move |call| {
        let body = body.clone();
        async move { call.answer(200, kind, body) }
    });
    let sandbox = backend.sandbox().await;
    let files = sandbox.files();
    let read = files.read("/x", 1 << 20).await.unwrap_err();
    let stat = files.stat("/x").await.unwrap_err();
    (read, stat)
}

#[tokio::test]
async fn an_answer_longer_than_its_cap_is_refused() {
    let (read, stat) = files("application/proto", vec![0; 9 << 20]).await;
    assert_eq!(read.code(), ErrorCode::InvalidArgument);
    assert_eq!(stat.code(), BROKEN);
}

#[tokio::test]
async fn an_answer_without_an_entry_is_a_violation() {
    let backend = FakeBackend::new(|call| async move {
        call.answer(200, "application/proto", "");
    });
    let sandbox = backend.sandbox().await;
    let err = sandbox.files().stat("/x").await.unwrap_err();
    assert_eq!(err.code(), BROKEN);
}

/// What creating a sandbox gives when its worker is `serve`.
async fn create<F, Fut>(serve: F) -> ErrorCode
where
    F: Fn(DuplexStream) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let backend = FakeBackend::raw(serve);
    let made = backend.provider().create(SandboxSpec::default()).await;
    made.unwrap_err().code()
}

/// One HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_uint(payload.len() as u64, 3);
    frame.put_u8(kind);
    frame.put_u8(flags);
    frame.put_u32(stream);
    frame.put_slice(payload);
    frame.freeze()
}

const SETTINGS: u8 = 4;

/// Opens a connection as a server does, after the client's preface.
async fn greet(io: &mut DuplexStream) {
    let mut preface = [0; 24];
    io.read_exact(&mut preface).await.unwrap();
    io.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
}

#[tokio::test]
async fn endless_headers_are_a_violation() {
    let code = create(|mut io| async move {
        greet(&mut io).await;
        // A literal header field; the block goes on for ever.
        let mut field = BytesMut::from(&b"\x00\x01a\x7f\x80\x01"[..]);
        field.put_bytes(b'x', 255);
        let mut sent = io.write_all(&frame(1, 0, 1, &field)).await;
        let more = frame(9, 0, 1, &field.repeat(32));
        while sent.is_ok() {
            sent = io.write_all(&more).await;
        }
    });
    assert_eq!(code.await, BROKEN);
}

#[tokio::test]
async fn a_frame_longer_than_agreed_is_a_violation() {
    let code = create(|mut io| async move {
        greet(&mut io).await;
        // Announced, not even sent.
        let _ = io.write_all(b"\xff\xff\xff\0\0\0\0\0\x01").await;
        std::future::pending::<()>().await;
    });
    assert_eq!(code.await, BROKEN);
}

#[tokio::test]
async fn what_is_no_http_is_a_violation() {
    let code = create(|mut io| async move {
        let _ = io
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await;
        std::future::pending::<()>().await;
    });
    assert_eq!(code.await, BROKEN);
}

#[tokio::test]
async fn a_pushed_stream_is_a_violation() {
    let code = create(|mut io| async move {
        greet(&mut io).await;
        let _ = io.write_all(&frame(5, 4, 1, &[0, 0, 0, 2])).await;
        std::future::pending::<()>().await;
    });
    assert_eq!(code.await, BROKEN);
}

#[tokio::test]
async fn a_worker_that_hangs_up_is_lost() {
    let code = create(|io| async move { drop(io) });
    assert_eq!(code.await, ErrorCode::SandboxLost);
}

#[tokio::test]
async fn more_than_was_asked_for_cannot_be_sent() {
    let code = create(|mut io| async move {
        greet(&mut io).await;
        // Data on a stream that gave it no window: a mebibyte and a bit.
        let _ = io.write_all(&frame(1, 4, 1, &[0x88])).await;
        let data = frame(0, 0, 1, &[0; 16 << 10]);
        while io.write_all(&data).await.is_ok() {}
    });
    assert_eq!(code.await, BROKEN);
}
