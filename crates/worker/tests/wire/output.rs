//! Output: exact, in order, bounded, replayed, capped; and the end of it.

use namzu_protocol::connect::Code;
use namzu_protocol::ext::{OLDEST_HEADER, parse_oldest};
use namzu_protocol::process::process_event::Event;
use namzu_protocol::process::{ConnectRequest, Cursor, StartOptions, StartRequest};

use crate::support::{alive, by_pid, bytes_of, eventually, private, shell, start};

fn options(options: StartOptions, request: StartRequest) -> StartRequest {
    StartRequest {
        options: Some(options),
        ..request
    }
}

#[tokio::test]
async fn every_byte_value_arrives_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bytes");
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    std::fs::write(&path, &bytes).unwrap();
    let worker = private(&[]).await;
    let outcome = worker
        .client
        .run(&start("cat", &[path.to_str().unwrap()]))
        .await;
    assert_eq!(outcome.code(), 0);
    assert!(outcome.stdout == bytes);
}

#[tokio::test]
async fn much_output_arrives_whole_and_the_worker_stays_small() {
    const MUCH: u64 = 256 << 20;
    let worker = private(&[]).await;
    worker.client.sh("true").await;
    let before = high_water(worker.running.pid());
    let mut replies = worker
        .client
        .start(&start("head", &["-c", &MUCH.to_string(), "/dev/zero"]))
        .await;
    let mut received = 0;
    let mut end = None;
    while let Some(event) = replies.event().await {
        match event {
            Event::Data(data) => {
                assert_eq!((data.offset, data.skipped), (received, 0));
                received += bytes_of(data.output).len() as u64;
            }
            Event::End(event) => end = Some(event),
            Event::Start(_) | Event::Keepalive(_) => {}
        }
    }
    let info = end.unwrap().info.unwrap();
    assert_eq!((received, info.stdout_bytes), (MUCH, MUCH));
    let grown = high_water(worker.running.pid()) - before;
    assert!(grown <= 16 << 20, "the worker grew by {grown} bytes");
}

#[tokio::test]
async fn events_are_as_large_as_envds_unless_the_reader_knows_better() {
    const MUCH: usize = 8 << 20;
    let worker = private(&[]).await;
    for (extended, most) in [(false, 32 << 10), (true, 128 << 10)] {
        let mut request = start("head", &["-c", &MUCH.to_string(), "/dev/zero"]);
        request.options = extended.then(StartOptions::default);
        let mut replies = worker.client.start(&request).await;
        let (mut received, mut largest) = (0, 0);
        while let Some(event) = replies.event().await {
            if let Event::Data(data) = event {
                let bytes = bytes_of(data.output).len();
                received += bytes;
                largest = largest.max(bytes);
            }
        }
        assert_eq!(received, MUCH);
        assert!(largest <= most, "{largest} bytes at once");
    }
}

/// The largest resident size so far, in bytes.
fn high_water(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.split_ascii_whitespace()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

#[tokio::test]
async fn a_second_reader_that_does_not_read_holds_up_nobody() {
    let worker = private(&[]).await;
    let line = "read -r _; head -c 33554432 /dev/zero";
    let mut first = worker
        .client
        .start(&StartRequest {
            stdin: Some(true),
            ..shell(line)
        })
        .await;
    let pid = first.pid().await;
    let mut stale = worker
        .client
        .connect(&ConnectRequest {
            process: by_pid(pid),
            cursor: None,
        })
        .await;
    assert_eq!(stale.pid().await, pid);
    crate::input::send(&worker.client, pid, b"go\n")
        .await
        .unwrap();
    let outcome = first.outcome().await;
    assert_eq!(
        (outcome.stdout.len(), outcome.skipped, outcome.code()),
        (32 << 20, 0, 0)
    );
    // The stale one is told what it missed, and the end.
    let late = stale.outcome().await;
    assert!(late.skipped > 0);
    assert_eq!(
        (late.stdout.len() as u64 + late.skipped, late.code()),
        (32 << 20, 0)
    );
}

#[tokio::test]
async fn a_first_reader_that_does_not_read_loses_nothing() {
    let worker = private(&[]).await;
    let mut replies = worker
        .client
        .start(&shell("head -c 33554432 /dev/zero; echo end >&2"))
        .await;
    let pid = replies.pid().await;
    // It stands until it is read: the pipe, the window and the log are full then.
    let mut last = 0;
    let mut same = 0;
    while same < 20 {
        let written = written(&worker.client, pid).await;
        same = if written == last { same + 1 } else { 0 };
        last = written;
    }
    assert!(last < 32 << 20, "nothing held the command back");
    let outcome = replies.outcome().await;
    assert_eq!(
        (outcome.stdout.len(), outcome.skipped, outcome.code()),
        (32 << 20, 0, 0)
    );
}

async fn written(client: &crate::support::Client, pid: u32) -> u64 {
    use namzu_protocol::process::{LIST, ListRequest, ListResponse};
    let list: ListResponse = client
        .unary(LIST, &ListRequest { ended: true })
        .await
        .unwrap();
    list.processes
        .iter()
        .find(|info| info.pid == pid)
        .unwrap()
        .state
        .as_ref()
        .unwrap()
        .stdout_bytes
}

#[tokio::test]
async fn a_cursor_replays_from_its_byte() {
    let worker = private(&[]).await;
    let pid = worker
        .client
        .sh("printf 0123456789; printf abc >&2")
        .await
        .pid;
    let cursor = Some(Cursor {
        stdout: 4,
        stderr: 1,
        pty: 0,
    });
    let outcome = worker
        .client
        .connect(&ConnectRequest {
            process: by_pid(pid),
            cursor,
        })
        .await
        .outcome()
        .await;
    assert_eq!(
        (outcome.stdout, outcome.stderr),
        (b"456789".to_vec(), b"bc".to_vec())
    );
}

#[tokio::test]
async fn a_cursor_older_than_what_is_kept_has_expired() {
    let worker = private(&[]).await;
    let request = options(
        StartOptions {
            retain_bytes: Some(64 * 1024),
            ..StartOptions::default()
        },
        shell("head -c 1048576 /dev/zero; printf tail"),
    );
    let pid = worker.client.run(&request).await.pid;
    let at = |stdout| ConnectRequest {
        process: by_pid(pid),
        cursor: Some(Cursor {
            stdout,
            stderr: 0,
            pty: 0,
        }),
    };
    let mut replies = worker.client.connect(&at(0)).await;
    assert!(replies.next().await.is_none());
    let end = replies.end.unwrap();
    assert_eq!(end.error.as_ref().unwrap().code, Code::OutOfRange);
    let oldest = parse_oldest(end.metadata(OLDEST_HEADER).unwrap()).unwrap();
    assert!(oldest.stdout >= (1 << 20) - 64 * 1024, "{oldest:?}");
    let outcome = worker
        .client
        .connect(&at(oldest.stdout))
        .await
        .outcome()
        .await;
    assert_eq!(outcome.stdout.len() as u64, (1 << 20) + 4 - oldest.stdout);
    assert!(outcome.stdout.ends_with(b"tail"));
}

#[tokio::test]
async fn only_head_and_tail_are_sent_with_totals() {
    let worker = private(&[]).await;
    let request = options(
        StartOptions {
            head: Some(5),
            tail: Some(3),
            ..StartOptions::default()
        },
        shell("printf begin; head -c 1000000 /dev/zero; printf end; printf short >&2"),
    );
    let outcome = worker.client.run(&request).await;
    assert_eq!(
        (outcome.stdout, outcome.stderr),
        (b"beginend".to_vec(), b"short".to_vec())
    );
    let info = outcome.end.unwrap().info.unwrap();
    assert_eq!(
        (info.stdout_bytes, info.stderr_bytes, outcome.skipped),
        (1_000_008, 5, 1_000_000)
    );
}

#[tokio::test]
async fn a_background_process_does_not_hold_back_the_end_nor_dies_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (go, done) = (dir.path().join("go"), dir.path().join("done"));
    let worker = private(&[]).await;
    let line = format!(
        "(while [ ! -e {0} ]; do sleep 0.01; done; yes | head -c 1000000; echo ok > {1}) & echo $!",
        go.display(),
        done.display()
    );
    let outcome = worker.client.sh(&line).await;
    let child: u32 = outcome.text().parse().unwrap();
    assert_eq!(outcome.code(), 0);
    assert!(alive(child));
    // It writes into the pipe after the end, more than a pipe holds, and lives.
    std::fs::write(&go, "").unwrap();
    eventually(|| done.exists()).await;
}

#[tokio::test]
async fn the_deadline_ends_the_stream_without_an_end_and_kills_the_tree() {
    let worker = private(&[]).await;
    let client = worker.client.with_header("connect-timeout-ms", "300");
    let outcome = client.sh("setsid sleep 1000 & echo $!; wait").await;
    assert!(outcome.end.is_none());
    assert_eq!(outcome.error.as_ref().unwrap().code, Code::DeadlineExceeded);
    let child = outcome.text().parse().unwrap();
    eventually(|| !alive(outcome.pid) && !alive(child)).await;
}

#[tokio::test]
async fn a_deadline_holds_while_output_flows() {
    let worker = private(&[]).await;
    let client = worker.client.with_header("connect-timeout-ms", "300");
    let mut replies = client.start(&start("yes", &[])).await;
    let pid = replies.pid().await;
    assert_eq!(replies.failure().await.code, Code::DeadlineExceeded);
    eventually(|| !alive(pid)).await;

    let mut first = worker.client.start(&start("yes", &[])).await;
    let pid = first.pid().await;
    let drain = tokio::spawn(async move { while first.next().await.is_some() {} });
    let request = ConnectRequest {
        process: by_pid(pid),
        cursor: None,
    };
    let mut later = client.connect(&request).await;
    assert_eq!(later.pid().await, pid);
    assert_eq!(later.failure().await.code, Code::DeadlineExceeded);
    assert!(alive(pid), "the deadline of a later reader is its own");
    drain.abort();
}

#[tokio::test]
async fn the_workers_own_timeout_holds_while_output_flows() {
    let worker = private(&[]).await;
    let request = options(
        StartOptions {
            timeout_ms: Some(300),
            ..StartOptions::default()
        },
        start("yes", &[]),
    );
    assert!(worker.client.run(&request).await.info().timed_out);
}

#[tokio::test]
async fn the_workers_own_timeout_is_an_end() {
    let worker = private(&[]).await;
    let request = options(
        StartOptions {
            timeout_ms: Some(300),
            ..StartOptions::default()
        },
        shell("setsid sleep 1000 & echo $!; wait"),
    );
    let outcome = worker.client.run(&request).await;
    let info = outcome.info();
    assert_eq!((info.timed_out, info.signal), (true, libc::SIGKILL));
    assert!(
        !alive(outcome.text().parse().unwrap()),
        "the tree was killed before the end was told"
    );
}

#[tokio::test]
async fn a_quiet_stream_is_kept_alive() {
    let worker = private(&[]).await;
    let client = worker.client.with_header("keepalive-ping-interval", "1");
    let mut replies = client.start(&shell("sleep 1000")).await;
    replies.pid().await;
    assert!(matches!(replies.event().await, Some(Event::Keepalive(_))));
}
