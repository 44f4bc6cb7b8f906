//! The fd lane: streams that do not pass through the worker.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;

use namzu_protocol::connect::Code;
use namzu_protocol::ext::{LANE_HEADER, LANE_UNKNOWN, LaneMessage, STDIN, STDOUT};
use namzu_protocol::process::{StartOptions, StartRequest};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::support::{Client, Private, shell, start_with, worker};

async fn with_lane() -> (Private, OwnedFd) {
    let (lane, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let (host, inside) = StdUnixStream::pair().unwrap();
    let inside = OwnedFd::from(inside);
    let mut command = worker();
    command.args([
        "--listen",
        &format!("fd:{}", inside.as_raw_fd()),
        "--lane",
        &theirs.as_raw_fd().to_string(),
    ]);
    let running = start_with(&mut command, &[&inside, &theirs]);
    drop((inside, theirs));
    host.set_nonblocking(true).unwrap();
    let client = Client::new(tokio::net::UnixStream::from_std(host).unwrap()).await;
    (Private { client, running }, lane)
}

fn send(lane: &OwnedFd, message: LaneMessage, fds: &[&OwnedFd]) {
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(
        lane,
        &[IoSlice::new(&message.encode())],
        &mut ancillary,
        SendFlags::empty(),
    )
    .unwrap();
}

fn on_lane(lane: u64, request: StartRequest) -> StartRequest {
    StartRequest {
        options: Some(StartOptions {
            lane: Some(lane),
            ..StartOptions::default()
        }),
        ..request
    }
}

#[tokio::test]
async fn a_command_reads_and_writes_the_callers_own_pipes() {
    let (worker, lane) = with_lane().await;
    let (stdin, into) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let (from, stdout) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    send(
        &lane,
        LaneMessage {
            id: 7,
            mask: STDIN | STDOUT,
        },
        &[&stdin, &stdout],
    );
    drop((stdin, stdout));
    std::fs::File::from(into).write_all(b"hello").unwrap();
    let outcome = worker
        .client
        .run(&on_lane(
            7,
            shell("cat; echo err >&2; ls /proc/self/fd >&2"),
        ))
        .await;
    assert_eq!(
        outcome.stdout, b"",
        "a stream of the lane has no data events"
    );
    assert_eq!(
        String::from_utf8(outcome.stderr).unwrap(),
        "err\n0\n1\n2\n3\n"
    );
    // It ends: the worker has closed its copies.
    let mut read = String::new();
    std::fs::File::from(from).read_to_string(&mut read).unwrap();
    assert_eq!(read, "hello");
}

#[tokio::test]
async fn a_message_that_never_came_starts_nothing() {
    let (worker, _lane) = with_lane().await;
    let mut replies = worker.client.start(&on_lane(1, shell("true"))).await;
    assert!(replies.next().await.is_none());
    let end = replies.end.unwrap();
    assert_eq!(end.metadata(LANE_HEADER), Some(LANE_UNKNOWN));
    assert_eq!(end.error.unwrap().code, Code::InvalidArgument);
    let worker = crate::support::private(&[]).await;
    let error = worker
        .client
        .start(&on_lane(1, shell("true")))
        .await
        .failure()
        .await;
    assert_eq!(error.code, Code::InvalidArgument, "without a lane");
}
