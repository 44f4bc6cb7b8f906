//! The fd lane, with a worker that does what it wants with the descriptors.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use namzu_client::{ExecRequest, ExitStatus};
use namzu_core::ErrorCode;
use namzu_protocol::connect::{Code, EndStream};
use namzu_protocol::process::{EndInfo, StartRequest};
use namzu_protocol::{Codec, ext};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::fake::{Call, FakeBackend, Script};

/// The descriptors of the next message.
fn receive(lane: &OwnedFd) -> Vec<OwnedFd> {
    let mut bytes = [0; 9];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut into = [std::io::IoSliceMut::new(&mut bytes)];
    recvmsg(lane, &mut into, &mut rights, RecvFlags::CMSG_CLOEXEC).unwrap();
    rights
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect()
}

/// The lane's id in a start, if it names one.
async fn named(call: &mut Call) -> Option<u64> {
    let body = call.read().await;
    let start: StartRequest = Codec::Proto.decode(body.slice(5..)).unwrap();
    start.options.unwrap().lane
}

/// A worker that gives each command's descriptors and stream to `command`.
fn backend(
    command: impl Fn(Vec<OwnedFd>, &mut Script) + Send + Sync + 'static,
) -> Arc<FakeBackend> {
    let command = Arc::new(command);
    let lane: Arc<std::sync::Mutex<Option<OwnedFd>>> = Arc::default();
    let theirs = Arc::clone(&lane);
    FakeBackend::with_lane(lane, move |mut call| {
        let (command, lane) = (Arc::clone(&command), Arc::clone(&theirs));
        async move {
            if call.path != namzu_protocol::process::START {
                return;
            }
            assert!(named(&mut call).await.is_some());
            let descriptors = receive(lane.lock().unwrap().as_ref().unwrap());
            let mut script = call.started(1);
            command(descriptors, &mut script);
            script.reset().await;
        }
    })
}

/// Ends a command in good order.
fn end(script: &mut Script) {
    script.end(0, EndInfo::default());
    script.close();
}

#[tokio::test]
async fn output_comes_through_the_pipes() {
    let backend = backend(|descriptors, script| {
        let [stdout, stderr] = <[OwnedFd; 2]>::try_from(descriptors).unwrap();
        std::fs::File::from(stdout).write_all(b"out").unwrap();
        std::fs::File::from(stderr).write_all(b"err").unwrap();
        end(script);
    });
    let sandbox = backend.sandbox().await;
    let output = sandbox.exec(ExecRequest::new(["x"])).await.unwrap();
    assert_eq!(output.stdout.to_vec(), b"out");
    assert_eq!(output.stderr.to_vec(), b"err");
    assert_eq!(output.stdout.total, 3);
}

#[tokio::test]
async fn pipes_that_are_kept_full_after_the_end_are_closed() {
    let backend = backend(|descriptors, script| {
        for descriptor in descriptors {
            std::thread::spawn(move || {
                let mut pipe = std::fs::File::from(descriptor);
                while pipe.write_all(&[b'x'; 1 << 16]).is_ok() {}
            });
        }
        end(script);
    });
    let sandbox = backend.sandbox().await;
    let exec = sandbox.exec(ExecRequest::new(["x"]));
    let output = tokio::time::timeout(Duration::from_secs(20), exec)
        .await
        .expect("it reads for ever")
        .unwrap();
    assert_eq!(output.status, ExitStatus::Code(0));
}

#[tokio::test]
async fn what_the_command_wrote_is_read_however_slow_the_reader() {
    let backend = backend(|descriptors, script| {
        let [stdout, stderr] = <[OwnedFd; 2]>::try_from(descriptors).unwrap();
        std::fs::File::from(stdout.try_clone().unwrap())
            .write_all(&[b'x'; 50_000])
            .unwrap();
        // Somebody inherited them.
        script.keep(vec![stdout, stderr]);
        end(script);
    });
    let sandbox = backend.sandbox().await;
    let mut process = sandbox.spawn(ExecRequest::new(["x"])).await.unwrap();
    let mut total = 0;
    loop {
        match process.next().await.unwrap().unwrap() {
            namzu_client::Event::Stdout(bytes) => total += bytes.len(),
            namzu_client::Event::End(_) => break,
            other => panic!("{other:?}"),
        }
        // Longer than pipes are kept open for those who inherited them.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(total, 50_000);
}

#[tokio::test]
async fn a_worker_that_does_not_take_the_lane_is_served_without() {
    let backend = FakeBackend::with_lane(Arc::default(), |mut call| async move {
        if named(&mut call).await.is_some() {
            let mut script = call.stream("application/connect+proto");
            let refusal = EndStream::failure(Code::InvalidArgument, "in any words");
            script.fail(&refusal.with_metadata(ext::LANE_HEADER, ext::LANE_UNKNOWN));
            script.reset().await;
            return;
        }
        let mut script = call.started(1);
        script.stdout(b"out");
        end(&mut script);
        script.reset().await;
    });
    let sandbox = backend.sandbox().await;
    for _ in 0..2 {
        let output = sandbox.exec(ExecRequest::new(["x"])).await.unwrap();
        assert_eq!(output.stdout.to_vec(), b"out");
    }
}

#[tokio::test]
async fn a_start_is_tried_again_for_the_lane_alone() {
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&starts);
    let backend = FakeBackend::with_lane(Arc::default(), move |call| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            let refusal = r#"{"code":"invalid_argument","message":"came over the lane"}"#;
            call.answer(400, "application/json", refusal);
        }
    });
    let sandbox = backend.sandbox().await;
    let err = sandbox.exec(ExecRequest::new(["x"])).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
    assert_eq!(starts.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_lane_that_nobody_reads_costs_no_command() {
    // Refuses every start without having looked at the lane.
    let backend = FakeBackend::with_lane(Arc::default(), |call| async move {
        call.answer(
            404,
            "application/json",
            r#"{"code":"not_found","message":"no"}"#,
        );
    });
    let sandbox = backend.sandbox().await;
    for _ in 0..500 {
        let err = sandbox.exec(ExecRequest::new(["x"])).await.unwrap_err();
        assert_eq!(err.code(), ErrorCode::CommandNotStarted);
    }
}
