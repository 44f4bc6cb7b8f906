//! Killing: whole trees, groups, everything at the end.

use http::{Method, StatusCode};
use namzu_protocol::connect::Code;
use namzu_protocol::process::{self as wire, SendSignalRequest, SendSignalResponse, Signal};

use crate::support::{Client, alive, by_pid, command, eventually, private, private_with, shell};

/// A daemon in the old way: forked twice, in a session of its own, its parents gone.
const DAEMON: &str = "setsid sh -c 'setsid sleep 1000 & echo $!' ; wait; echo ready; sleep 1000";

async fn signal(
    client: &Client,
    pid: u32,
    signal: Signal,
) -> Result<SendSignalResponse, namzu_protocol::connect::ErrorBody> {
    let request = SendSignalRequest {
        process: by_pid(pid),
        signal: signal as i32,
    };
    client.unary(wire::SEND_SIGNAL, &request).await
}

#[tokio::test]
async fn sigkill_reaches_a_daemon_that_left_session_and_parents() {
    let worker = private(&["--init"]).await;
    let mut replies = worker.client.start(&shell(DAEMON)).await;
    let pid = replies.pid().await;
    let daemon = replies
        .until("ready")
        .await
        .lines()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(alive(daemon));
    signal(&worker.client, pid, Signal::Sigkill).await.unwrap();
    assert!(!alive(daemon) && !alive(pid));
    let outcome = replies.outcome().await;
    assert_eq!(outcome.info().signal, libc::SIGKILL);
    let error = signal(&worker.client, pid, Signal::Sigkill)
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::NotFound, "it has ended");
}

#[tokio::test]
async fn a_tree_that_forks_all_the_time_is_killed() {
    let worker = private(&["--init"]).await;
    let mark = format!("MARK=forks-{}", worker.running.pid());
    let line = "f() { while :; do (sleep 0.01 & (setsid sleep 1000 &) ); done; }; f & f & f & echo ready; wait";
    let mut request = shell(line);
    let (name, value) = mark.split_once('=').unwrap();
    request.process.as_mut().unwrap().envs = [(name.to_owned(), value.to_owned())].into();
    let mut replies = worker.client.start(&request).await;
    let pid = replies.pid().await;
    replies.until("ready").await;
    eventually(|| marked(&mark) > 20).await;
    signal(&worker.client, pid, Signal::Sigkill).await.unwrap();
    replies.outcome().await;
    assert_eq!(marked(&mark), 0);
}

/// How many processes have `variable` in their environment.
fn marked(variable: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let blocks = processes.filter_map(|process| std::fs::read(process.path().join("environ")).ok());
    blocks
        .filter(|block| {
            block
                .split(|byte| *byte == 0)
                .any(|found| found == variable.as_bytes())
        })
        .count()
}

#[tokio::test]
async fn sigterm_goes_to_the_whole_group() {
    let worker = private(&[]).await;
    let line = "sh -c 'trap \"echo child; exit\" TERM; echo ready; while :; do sleep 0.01; done' & trap 'wait; exit 3' TERM; wait";
    let mut replies = worker.client.start(&shell(line)).await;
    let pid = replies.pid().await;
    replies.until("ready").await;
    signal(&worker.client, pid, Signal::Sigterm).await.unwrap();
    let outcome = replies.outcome().await;
    assert_eq!((outcome.text(), outcome.code()), ("child", 3));
}

#[tokio::test]
async fn ext_kill_tells_leader_from_tree() {
    let worker = private(&["--init"]).await;
    let client = &worker.client;
    let mut replies = client.start(&shell(DAEMON)).await;
    let pid = replies.pid().await;
    let daemon: u32 = replies
        .until("ready")
        .await
        .lines()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let (status, body) = client
        .http(
            Method::POST,
            "/ext/v1/kill",
            format!(r#"{{"pid":{pid},"signal":9}}"#),
        )
        .await;
    assert_eq!(
        (status, &body[..]),
        (StatusCode::OK, &br#"{"killed":1}"#[..])
    );
    replies.outcome().await;
    assert!(alive(daemon));
    // The leader is gone, the command is still known, its cookie finds the rest.
    let (status, _) = client
        .http(
            Method::POST,
            "/ext/v1/kill",
            format!(r#"{{"pid":{pid},"signal":9,"tree":true}}"#),
        )
        .await;
    assert_eq!(status, StatusCode::OK);
    eventually(|| !alive(daemon)).await;

    for (body, expected) in [
        (r#"{"signal":9}"#, StatusCode::BAD_REQUEST),
        (r#"{"pid":1,"tag":"x","signal":9}"#, StatusCode::BAD_REQUEST),
        (r#"{"pid":1,"signal":9}"#, StatusCode::NOT_FOUND),
        (r#"{"pid":1,"signal":999}"#, StatusCode::BAD_REQUEST),
        ("nonsense", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(
            client.http(Method::POST, "/ext/v1/kill", body).await.0,
            expected,
            "{body}"
        );
    }
}

#[tokio::test]
async fn the_end_of_the_private_stream_is_the_end_of_everything() {
    let worker = private(&["--init"]).await;
    let mut replies = worker.client.start(&shell(DAEMON)).await;
    let pid = replies.pid().await;
    let daemon = replies
        .until("ready")
        .await
        .lines()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    drop((replies, worker.client));
    assert!(worker.running.wait().await.success());
    assert!(!alive(pid) && !alive(daemon));
}

#[tokio::test]
async fn shutdown_kills_and_ends() {
    let worker = private(&[]).await;
    let mut replies = worker.client.start(&shell("sleep 1000")).await;
    let pid = replies.pid().await;
    let (status, _) = worker
        .client
        .http(Method::POST, "/ext/v1/shutdown", "")
        .await;
    assert_eq!(status, StatusCode::OK);
    assert!(worker.running.wait().await.success());
    assert!(!alive(pid));
}

#[tokio::test]
async fn the_lifetime_ends_the_worker() {
    let worker = private(&["--lifetime-ms", "300"]).await;
    let mut replies = worker.client.start(&shell("sleep 1000")).await;
    let pid = replies.pid().await;
    assert!(
        replies.breaks_off().await,
        "a killed command would hide why"
    );
    assert!(worker.running.wait().await.success());
    assert!(!alive(pid));
}

#[tokio::test]
async fn as_pid_1_the_worker_reaps_orphans_and_takes_all_with_it() {
    let mut unshare = command("unshare");
    unshare
        .args([
            "--user",
            "--map-root-user",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
        ])
        .arg(env!("CARGO_BIN_EXE_namzu-worker"));
    let worker = private_with(&mut unshare, &[]).await;
    let client = &worker.client;
    let (_, info) = client.http(Method::GET, "/ext/v1/info", "").await;
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    assert_eq!((&info["pid"], &info["pid1"]), (&1.into(), &true.into()));

    // Orphans come to the worker, and are gone when their end was taken.
    let outcome = client
        .sh("for i in 1 2 3 4 5; do (sh -c 'exit 0' &); done; (sleep 1000 & echo $!)")
        .await;
    let daemon: u32 = outcome.text().parse().unwrap();
    loop {
        let states = client
            .sh("cat /proc/[0-9]*/stat | grep -c ') Z ' ; true")
            .await;
        if states.text() == "0" {
            break;
        }
    }
    let parent = client
        .sh(&format!("cut -d' ' -f4 /proc/{daemon}/stat"))
        .await;
    assert_eq!(parent.text(), "1");
    drop(worker.client);
    worker.running.wait().await;
}

#[tokio::test]
async fn every_reader_is_told_of_the_end_before_the_worker_goes() {
    let worker = private(&["--init"]).await;
    let mut readers = Vec::new();
    for _ in 0..20 {
        let mut replies = worker.client.start(&shell(DAEMON)).await;
        replies.until_started("ready").await;
        readers.push(replies);
    }
    let pid = i32::try_from(worker.running.pid()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    for replies in readers {
        assert_eq!(replies.outcome().await.info().signal, libc::SIGKILL);
    }
    // The client holds its side of the stream open all the while.
    assert!(worker.running.wait().await.success());
    drop(worker.client);
}

#[tokio::test]
async fn a_deadline_holds_when_the_command_takes_the_workers_descriptors() {
    let worker = private(&["--init"]).await;
    let mut request = shell("prlimit --pid $PPID --nofile=0:0 && echo taken; sleep 1000");
    request.options = Some(wire::StartOptions {
        timeout_ms: Some(300),
        ..wire::StartOptions::default()
    });
    let mut replies = worker.client.start(&request).await;
    replies.pid().await;
    replies.until("taken").await;
    let outcome = replies.outcome().await;
    assert!(outcome.info().timed_out);
    assert_eq!(outcome.info().signal, libc::SIGKILL);
}
