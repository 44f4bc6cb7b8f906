//! Commands: how they end, and who ends them.

use std::sync::Arc;
use std::time::Duration;

use namzu_client::{CancellationToken, Event, ExecRequest, ExitStatus, OutputCap, partial_output};
use namzu_core::ErrorCode;
use namzu_protocol::process::{self as wire, EndInfo, StartRequest};
use namzu_protocol::{Codec, ext};
use tokio::sync::mpsc;

use crate::fake::{FakeBackend, Script};

/// What the worker is told.
#[derive(Debug, PartialEq)]
enum Told {
    Started(Box<StartRequest>),
    Reset,
    Killed(ext::KillRequest),
}

/// A worker that starts everything as process 7, runs `first`, and tells what it hears.
fn listening(
    first: impl Fn(&mut Script) + Send + Sync + 'static,
) -> (Arc<FakeBackend>, mpsc::UnboundedReceiver<Told>) {
    let (tx, rx) = mpsc::unbounded_channel();
    let first = Arc::new(first);
    let backend = FakeBackend::new(move |mut call| {
        let (tx, first) = (tx.clone(), Arc::clone(&first));
        async move {
            let body = call.read().await;
            match call.path.as_str() {
                wire::START => {
                    let mut envelope = body.slice(5..);
                    let request = Codec::Proto
                        .decode(envelope.split_to(envelope.len()))
                        .unwrap();
                    tx.send(Told::Started(Box::new(request))).unwrap();
                    let mut script = call.started(7);
                    first(&mut script);
                    script.reset().await;
                    let _ = tx.send(Told::Reset);
                }
                ext::KILL => {
                    let request = ext::from_json(&body).unwrap();
                    let _ = tx.send(Told::Killed(request));
                    call.answer(200, "application/json", r#"{"killed":1}"#);
                }
                other => panic!("an unexpected call: {other}"),
            }
        }
    });
    (backend, rx)
}

fn kill() -> Told {
    Told::Killed(ext::KillRequest {
        pid: Some(7),
        tag: None,
        signal: 9,
        tree: true,
    })
}

#[tokio::test]
async fn output_and_end_come_as_they_were_sent() {
    let (backend, _told) = listening(|script| {
        script.stdout(b"hel");
        script.stdout(b"lo");
        script.end(
            3,
            EndInfo {
                stdout_bytes: 5,
                user_us: 1500,
                max_rss: 4096,
                ..EndInfo::default()
            },
        );
        script.close();
    });
    let sandbox = backend.sandbox().await;
    let output = sandbox.exec(ExecRequest::new(["x"])).await.unwrap();
    assert_eq!(output.status, ExitStatus::Code(3));
    assert_eq!(output.stdout.to_vec(), b"hello");
    assert_eq!(output.stdout.total, 5);
    assert_eq!(output.usage.user, Duration::from_micros(1500));
    assert_eq!(output.usage.max_rss, 4096);
}

#[tokio::test]
async fn a_time_limit_beyond_all_clocks_is_none() {
    let (backend, mut told) = listening(|script| {
        script.end(0, EndInfo::default());
        script.close();
    });
    let sandbox = backend.sandbox().await;
    let request = ExecRequest {
        timeout: Some(Duration::MAX),
        ..ExecRequest::new(["x"])
    };
    assert!(sandbox.exec(request).await.unwrap().status.success());
    let Some(Told::Started(request)) = told.recv().await else {
        panic!("nothing was started");
    };
    assert_eq!(request.options.unwrap().timeout_ms, Some(u64::MAX));
}

#[tokio::test]
async fn a_signal_is_no_exit_code() {
    let (backend, _told) = listening(|script| {
        let info = EndInfo {
            signal: 11,
            ..EndInfo::default()
        };
        script.end(-1, info);
        script.close();
    });
    let sandbox = backend.sandbox().await;
    let output = sandbox.exec(ExecRequest::new(["x"])).await.unwrap();
    assert_eq!(output.status, ExitStatus::Signal(11));
}

#[tokio::test]
async fn arguments_that_are_no_text_travel_exactly() {
    let (backend, mut told) = listening(|script| {
        script.end(0, EndInfo::default());
        script.close();
    });
    let sandbox = backend.sandbox().await;
    let argv = [b"\xff".to_vec(), b"a b".to_vec()];
    sandbox.exec(ExecRequest::new(argv.clone())).await.unwrap();
    let Some(Told::Started(request)) = told.recv().await else {
        panic!("nothing was started");
    };
    let options = request.options.unwrap();
    assert_eq!(options.argv, argv);
    assert!(options.kill_on_disconnect);
}

#[tokio::test]
async fn what_was_dropped_on_the_way_is_counted() {
    let (backend, mut told) = listening(|script| {
        script.stdout(b"head");
        script.event(wire::process_event::Event::Data(wire::DataEvent {
            output: Some(wire::data_event::Output::Stdout(b"tail"[..].into())),
            offset: 1004,
            skipped: 1000,
        }));
        let info = EndInfo {
            stdout_bytes: 1008,
            ..EndInfo::default()
        };
        script.end(0, info);
        script.close();
    });
    let sandbox = backend.sandbox().await;
    let mut request = ExecRequest::new(["x"]);
    request.output = OutputCap { head: 4, tail: 4 };
    let output = sandbox.exec(request).await.unwrap();
    assert_eq!(output.stdout.head, b"head");
    assert_eq!(output.stdout.tail, b"tail");
    assert_eq!(output.stdout.total, 1008);
    assert!(output.stdout.is_truncated());
    let Some(Told::Started(request)) = told.recv().await else {
        panic!("nothing was started");
    };
    let options = request.options.unwrap();
    assert_eq!((options.head, options.tail), (Some(4), Some(4)));
}

#[tokio::test]
async fn a_deadline_is_an_error_with_what_was_printed() {
    let (backend, _told) = listening(|script| {
        script.stdout(b"so far");
        let info = EndInfo {
            signal: 9,
            timed_out: true,
            ..EndInfo::default()
        };
        script.end(-1, info);
        script.close();
    });
    let sandbox = backend.sandbox().await;
    let err = sandbox.exec(ExecRequest::new(["x"])).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::ExecTimeout);
    let partial = partial_output(&err).unwrap();
    assert_eq!(partial.stdout.to_vec(), b"so far");
    assert_eq!(partial.status, ExitStatus::Signal(9));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ignores_the_deadline_does_not_hold_us() {
    let (backend, mut told) = listening(|script| script.stdout(b"so far"));
    let sandbox = backend.sandbox().await;
    let mut request = ExecRequest::new(["x"]);
    request.timeout = Some(Duration::from_secs(1));
    let err = sandbox.exec(request).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::ExecTimeout);
    assert_eq!(partial_output(&err).unwrap().stdout.to_vec(), b"so far");
    let Some(Told::Started(request)) = told.recv().await else {
        panic!("nothing was started");
    };
    assert_eq!(request.options.unwrap().timeout_ms, Some(1000));
    assert_eq!(told.recv().await, Some(kill()));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ignores_the_deadline_does_not_hold_a_reader_of_events() {
    let (backend, mut told) = listening(|script| script.stdout(b"so far"));
    let sandbox = backend.sandbox().await;
    let mut request = ExecRequest::new(["x"]);
    request.timeout = Some(Duration::from_secs(1));
    let mut process = sandbox.spawn(request).await.unwrap();
    let event = process.next().await.unwrap();
    assert_eq!(event, Some(Event::Stdout("so far".into())));
    let err = process.next().await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::ExecTimeout);
    let err = process.next().await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::ExecTimeout);
    assert!(matches!(told.recv().await, Some(Told::Started(_))));
    assert_eq!(told.recv().await, Some(kill()));
}

#[tokio::test]
async fn memory_is_told_from_a_kill() {
    let (backend, _told) = listening(|script| {
        let info = EndInfo {
            signal: 9,
            oom: true,
            ..EndInfo::default()
        };
        script.end(-1, info);
        script.close();
    });
    let sandbox = backend.sandbox().await;
    let err = sandbox.exec(ExecRequest::new(["x"])).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::OutOfMemory);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_command_is_killed_with_its_tree() {
    let (backend, mut told) = listening(|script| script.stdout(b"so far"));
    let sandbox = backend.sandbox().await;
    let cancel = CancellationToken::new();
    let exec = sandbox.exec_cancellable(ExecRequest::new(["x"]), &cancel);
    let (done, ()) = tokio::join!(exec, async {
        assert!(matches!(told.recv().await, Some(Told::Started(_))));
        // Until everything that was sent is read.
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
        assert_eq!(told.recv().await, Some(kill()));
    });
    let err = done.unwrap_err();
    assert_eq!(err.code(), ErrorCode::Cancelled);
    assert_eq!(partial_output(&err).unwrap().stdout.to_vec(), b"so far");
}

#[tokio::test]
async fn a_token_that_is_cancelled_already_starts_nothing() {
    let (backend, mut told) = listening(|_| {});
    let sandbox = backend.sandbox().await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let err = sandbox
        .exec_cancellable(ExecRequest::new(["x"]), &cancel)
        .await
        .unwrap_err();
    assert_eq!(err.code(), ErrorCode::Cancelled);
    assert!(told.try_recv().is_err());
}

#[tokio::test]
async fn dropping_the_future_kills_the_command() {
    let (backend, mut told) = listening(|_| {});
    let sandbox = backend.sandbox().await;
    let mut exec = Box::pin(sandbox.exec(ExecRequest::new(["x"])));
    tokio::select! {
        biased;
        _ = &mut exec => panic!("it never ends"),
        started = told.recv() => assert!(matches!(started, Some(Told::Started(_)))),
    }
    // It may still be on its way to us that it runs; both ways of killing it are right.
    drop(exec);
    assert!(matches!(
        told.recv().await,
        Some(Told::Reset | Told::Killed(_))
    ));
}

#[tokio::test]
async fn dropping_a_spawned_process_kills_its_tree() {
    let (backend, mut told) = listening(|_| {});
    let sandbox = backend.sandbox().await;
    let process = sandbox.spawn(ExecRequest::new(["x"])).await.unwrap();
    assert!(matches!(told.recv().await, Some(Told::Started(_))));
    drop(process);
    let mut heard = vec![told.recv().await.unwrap(), told.recv().await.unwrap()];
    heard.sort_by_key(|told| *told == Told::Reset);
    assert_eq!(heard, [kill(), Told::Reset]);
}

#[tokio::test]
async fn dropping_a_background_process_leaves_it() {
    let (backend, mut told) = listening(|_| {});
    let sandbox = backend.sandbox().await;
    let process = sandbox
        .spawn_background(ExecRequest::new(["x"]))
        .await
        .unwrap();
    let Some(Told::Started(request)) = told.recv().await else {
        panic!("nothing was started");
    };
    assert!(!request.options.unwrap().kill_on_disconnect);
    drop(process);
    assert_eq!(told.recv().await, Some(Told::Reset));
    assert!(told.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lost_sandbox_is_never_an_exit_code() {
    let (backend, mut told) = listening(|script| script.stdout(b"x"));
    let sandbox = backend.sandbox().await;
    let fate = Arc::clone(&backend.fate);
    let (done, ()) = tokio::join!(sandbox.exec(ExecRequest::new(["x"])), async {
        told.recv().await;
        fate.cut();
    });
    assert_eq!(done.unwrap_err().code(), ErrorCode::SandboxLost);
}

#[tokio::test(start_paused = true)]
async fn the_backend_knows_why_it_was_lost() {
    let (backend, mut told) = listening(|_| {});
    let sandbox = backend.sandbox().await;
    let fate = Arc::clone(&backend.fate);
    let (done, ()) = tokio::join!(sandbox.exec(ExecRequest::new(["x"])), async {
        told.recv().await;
        fate.cut();
        *fate.obituary.lock().unwrap() = Some(ErrorCode::LifetimeExceeded);
    });
    assert_eq!(done.unwrap_err().code(), ErrorCode::LifetimeExceeded);
}

#[tokio::test]
async fn nonsense_is_refused_before_it_is_sent() {
    let (backend, mut told) = listening(|_| {});
    let sandbox = backend.sandbox().await;
    for argv in [vec![], vec![b"".to_vec()], vec![b"a\0b".to_vec()]] {
        let err = sandbox.exec(ExecRequest::new(argv)).await.unwrap_err();
        assert_eq!(err.code(), ErrorCode::InvalidArgument);
    }
    assert!(told.try_recv().is_err());
}

#[tokio::test]
async fn events_follow_one_another_and_then_nothing() {
    let (backend, _told) = listening(|script| {
        script.stdout(b"a");
        script.end(0, EndInfo::default());
        script.close();
    });
    let sandbox = backend.sandbox().await;
    let mut process = sandbox.spawn(ExecRequest::new(["x"])).await.unwrap();
    assert_eq!(process.pid(), 7);
    assert!(matches!(process.next().await, Ok(Some(Event::Stdout(a))) if a == "a"));
    assert_eq!(process.cursor().stdout, 1);
    assert!(matches!(process.next().await, Ok(Some(Event::End(_)))));
    assert!(matches!(process.next().await, Ok(None)));
}
