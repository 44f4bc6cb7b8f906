//! Want of memory: which command is told that it died of it.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use namzu_protocol::process::{StartOptions, StartRequest};

use crate::support::{Client, Private, private_inheriting, shell};

/// A worker that counts in a file of the test's, as the kernel would in `memory.events`.
async fn counted() -> (Private, File) {
    let counter = tempfile::tempfile().unwrap();
    set(&counter, 3);
    let inherited = OwnedFd::from(counter.try_clone().unwrap());
    let number = inherited.as_raw_fd().to_string();
    let worker = private_inheriting(&["--init", "--memory-events", &number], &[&inherited]).await;
    (worker, counter)
}

/// The memory limit has killed this many by now.
fn set(counter: &File, kills: u64) {
    let text = format!("low 0\noom 9\noom_kill {kills}\n");
    counter.write_all_at(text.as_bytes(), 0).unwrap();
}

/// Runs a line that waits for its input, after something happened meanwhile.
async fn meanwhile(client: &Client, line: &str, what: impl FnOnce()) -> bool {
    let request = StartRequest {
        stdin: Some(true),
        ..shell(&format!("echo ready; read -r _; {line}"))
    };
    let mut replies = client.start(&request).await;
    let pid = replies.until_started("ready").await;
    what();
    crate::input::send(client, pid, b"go\n").await.unwrap();
    replies.outcome().await.info().oom
}

#[tokio::test]
async fn a_killed_child_is_not_charged_to_the_next_command() {
    let (worker, counter) = counted().await;
    let client = &worker.client;
    assert!(!meanwhile(client, "true", || set(&counter, 4)).await);
    let next = client.sh("kill -9 $$").await;
    assert_eq!(
        (next.info().signal, next.info().oom),
        (libc::SIGKILL, false)
    );
}

#[tokio::test]
async fn a_kill_before_the_start_is_not_charged_to_the_command() {
    let (worker, counter) = counted().await;
    let client = &worker.client;
    let mut older = client.start(&shell("echo ready; exec sleep 1000")).await;
    older.until_started("ready").await;
    set(&counter, 4);
    assert!(!client.sh("kill -9 $$").await.info().oom);
}

#[tokio::test]
async fn every_victim_is_told_of_once() {
    let (worker, counter) = counted().await;
    let client = &worker.client;
    let die = "kill -9 $$";
    assert!(meanwhile(client, die, || set(&counter, 4)).await);
    assert!(!client.sh(die).await.info().oom);
    // Two victims of one moment.
    let mut other = client.start(&shell("echo ready; exec sleep 1000")).await;
    let pid = i32::try_from(other.until_started("ready").await).unwrap();
    assert!(meanwhile(client, die, || set(&counter, 6)).await);
    let victim = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
    assert!(other.outcome().await.info().oom);
}

#[tokio::test]
async fn a_kill_of_our_own_is_no_want_of_memory() {
    let (worker, counter) = counted().await;
    let client = &worker.client;
    let mut request = shell("echo ready; exec sleep 1000");
    request.options = Some(StartOptions {
        timeout_ms: Some(500),
        ..StartOptions::default()
    });
    let mut replies = client.start(&request).await;
    replies.until_started("ready").await;
    set(&counter, 4);
    let info = replies.outcome().await.info();
    assert_eq!((info.timed_out, info.oom), (true, false));

    for tree in [true, false] {
        let mut replies = client.start(&shell("echo ready; exec sleep 1000")).await;
        let pid = replies.until_started("ready").await;
        set(&counter, if tree { 5 } else { 6 });
        let body = format!(r#"{{"pid":{pid},"signal":9,"tree":{tree}}}"#);
        client.http(http::Method::POST, "/ext/v1/kill", body).await;
        assert!(!replies.outcome().await.info().oom);
    }
}
