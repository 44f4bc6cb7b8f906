//! Commands: what they are given, what they print, how they end.

use std::time::Duration;

use namzu_client::{
    CancellationToken, Cursor, Event, ExecRequest, ExitStatus, OutputCap, PtySize, Sandbox,
    Selector, oldest_cursor, partial_output,
};
use namzu_core::ErrorCode;

use super::{sh, stdout_of};
use crate::real::{Carrier, Real};

over_every_carrier! {
    output_codes_and_signals_are_told_apart
    arguments_arrive_byte_for_byte
    standard_input_is_given_and_ends
    large_input_and_output_do_not_wait_for_each_other
    a_program_that_is_not_there_is_no_exit_code
    a_wrong_directory_is_the_requests_fault
    a_timeout_kills_the_tree_and_keeps_the_output
    a_time_limit_beyond_all_clocks_is_none
    a_cancelled_command_is_dead
    dropping_the_future_leaves_nothing_running
    a_child_that_holds_the_pipe_does_not_hold_us
    output_is_capped_at_both_ends
    a_hundred_commands_run_at_once
    a_process_is_written_to_and_read_from
    a_terminal_is_a_terminal
    a_background_process_is_found_again
    output_that_is_gone_says_so
    a_process_is_killed_by_name
    an_ended_process_gets_no_signal
    the_end_of_the_worker_is_no_exit_code
}

async fn output_codes_and_signals_are_told_apart(sandbox: Sandbox) {
    let output = sandbox
        .exec(sh("printf out; printf err >&2; exit 3"))
        .await
        .unwrap();
    assert_eq!(output.status, ExitStatus::Code(3));
    assert_eq!(output.stdout.to_vec(), b"out");
    assert_eq!(output.stderr.to_vec(), b"err");
    assert_eq!((output.stdout.total, output.stderr.total), (3, 3));
    let output = sandbox.exec(sh("kill -SEGV $$")).await.unwrap();
    assert_eq!(output.status, ExitStatus::Signal(11));
    assert!(output.usage.max_rss > 0);
    let output = sandbox.exec(ExecRequest::new(["true"])).await.unwrap();
    assert!(output.status.success());
}

async fn arguments_arrive_byte_for_byte(sandbox: Sandbox) {
    let odd = b"\xff\xfe 'quoted' \n$HOME\t".to_vec();
    let argv = [b"printf".to_vec(), b"%s".to_vec(), odd.clone()];
    let output = sandbox.exec(ExecRequest::new(argv)).await.unwrap();
    assert_eq!(output.stdout.to_vec(), odd);
    let mut request = sh("printf %s \"$NAMZU_TEST\"; pwd");
    request.env.insert("NAMZU_TEST".into(), "a=b c".into());
    request.cwd = Some("/".into());
    let output = sandbox.exec(request).await.unwrap();
    assert_eq!(output.stdout.text_lossy(), "a=b c/\n");
    let here = stdout_of(&sandbox, "pwd").await;
    assert_eq!(here.trim_end(), sandbox.workspace());
}

async fn standard_input_is_given_and_ends(sandbox: Sandbox) {
    let mut request = ExecRequest::new(["cat"]);
    request.stdin = Some(b"a\0b".to_vec());
    let output = sandbox.exec(request.clone()).await.unwrap();
    assert_eq!(output.stdout.to_vec(), b"a\0b");
    request.stdin = Some(Vec::new());
    let output = sandbox.exec(request.clone()).await.unwrap();
    assert_eq!(output.stdout.total, 0);
    request.stdin = None;
    let output = sandbox.exec(request).await.unwrap();
    assert!(output.status.success());
}

async fn large_input_and_output_do_not_wait_for_each_other(sandbox: Sandbox) {
    let input: Vec<u8> = (0_u32..1 << 20).flat_map(u32::to_le_bytes).collect();
    let mut request = ExecRequest::new(["cat"]);
    request.stdin = Some(input.clone());
    let output = sandbox.exec(request).await.unwrap();
    assert!(output.stdout.to_vec() == input, "the bytes differ");
    // One that reads nothing.
    let mut request = ExecRequest::new(["true"]);
    request.stdin = Some(input);
    let output = sandbox.exec(request).await.unwrap();
    assert!(output.status.success());
}

async fn a_program_that_is_not_there_is_no_exit_code(sandbox: Sandbox) {
    let err = sandbox
        .exec(ExecRequest::new(["/no/such/program"]))
        .await
        .unwrap_err();
    assert_eq!(err.code(), ErrorCode::CommandNotStarted);
    let workspace = sandbox.workspace().to_owned();
    let err = sandbox
        .exec(ExecRequest::new([workspace]))
        .await
        .unwrap_err();
    assert_eq!(err.code(), ErrorCode::CommandNotStarted);
}

async fn a_wrong_directory_is_the_requests_fault(sandbox: Sandbox) {
    let mut request = ExecRequest::new(["true"]);
    request.cwd = Some("/no/such/directory".into());
    let err = sandbox.exec(request).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
}

fn runs(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|cmdline| {
            cmdline
                .split(|byte| *byte == 0)
                .any(|word| word == mark.as_bytes())
        })
}

async fn gone(mark: &str) {
    let gone = async {
        while runs(mark) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .expect("it runs on");
}

fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}.{next:04}", 100_000 + std::process::id())
}

fn sleeper(mark: &str) -> ExecRequest {
    sh(&format!(
        "printf so; setsid sleep {mark} & printf ' far'; sleep {mark}; exit 0"
    ))
}

async fn a_timeout_kills_the_tree_and_keeps_the_output(sandbox: Sandbox) {
    let mark = mark();
    let mut request = sleeper(&mark);
    request.timeout = Some(Duration::from_millis(500));
    let err = sandbox.exec(request).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::ExecTimeout);
    let partial = partial_output(&err).unwrap();
    assert_eq!(partial.stdout.text_lossy(), "so far");
    gone(&mark).await;
}

async fn a_time_limit_beyond_all_clocks_is_none(sandbox: Sandbox) {
    let mut request = sh("echo still here");
    request.timeout = Some(Duration::MAX);
    let output = sandbox.exec(request).await.unwrap();
    assert_eq!(output.stdout.to_vec(), b"still here\n");
}

async fn a_cancelled_command_is_dead(sandbox: Sandbox) {
    let mark = mark();
    let cancel = CancellationToken::new();
    let exec = sandbox.exec_cancellable(sleeper(&mark), &cancel);
    let (done, ()) = tokio::join!(exec, async {
        while !runs(&mark) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    });
    assert_eq!(done.unwrap_err().code(), ErrorCode::Cancelled);
    gone(&mark).await;
}

async fn dropping_the_future_leaves_nothing_running(sandbox: Sandbox) {
    let mark = mark();
    tokio::select! {
        _ = sandbox.exec(sleeper(&mark)) => panic!("it sleeps for long"),
        () = async {
            while !runs(&mark) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        } => {}
    }
    gone(&mark).await;
}

async fn a_child_that_holds_the_pipe_does_not_hold_us(sandbox: Sandbox) {
    for child in ["sleep 100000", "yes"] {
        // The child inherits both pipes; one of the two even goes on printing.
        let exec = sandbox.exec(sh(&format!("echo begin; {child} & echo $! >child; exit 4")));
        let output = tokio::time::timeout(Duration::from_secs(20), exec)
            .await
            .expect("it waits for the child")
            .unwrap();
        assert_eq!(output.status, ExitStatus::Code(4));
        assert!(output.stdout.head.starts_with(b"begin\n"));
        stdout_of(&sandbox, "kill -9 $(cat child) 2>/dev/null").await;
    }
}

async fn output_is_capped_at_both_ends(sandbox: Sandbox) {
    let mut request = sh("seq 1 200000");
    request.output = OutputCap { head: 4, tail: 7 };
    let output = sandbox.exec(request).await.unwrap();
    assert_eq!(output.stdout.head, b"1\n2\n");
    assert_eq!(output.stdout.tail, b"200000\n");
    assert_eq!(output.stdout.total, 1_288_895);
    assert!(output.stdout.is_truncated());
}

async fn a_hundred_commands_run_at_once(sandbox: Sandbox) {
    let runs = (0..100).map(|n| {
        let script = format!("printf {n}; exit {}", n % 7);
        let sandbox = &sandbox;
        async move { (n, sandbox.exec(sh(&script)).await.unwrap()) }
    });
    for (n, output) in futures_util::future::join_all(runs).await {
        assert_eq!(output.stdout.text_lossy(), n.to_string());
        assert_eq!(output.status, ExitStatus::Code(n % 7));
    }
}

async fn until(process: &mut namzu_client::Process, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        match process.next().await.unwrap() {
            Some(Event::Stdout(bytes) | Event::Pty(bytes)) => {
                text.push_str(std::str::from_utf8(&bytes).unwrap());
            }
            other => panic!("{other:?} after {text:?}"),
        }
    }
    text
}

async fn a_process_is_written_to_and_read_from(sandbox: Sandbox) {
    let mut request = ExecRequest::new(["cat"]);
    request.stdin = Some(b"first\n".to_vec());
    let mut process = sandbox.spawn(request).await.unwrap();
    until(&mut process, "first\n").await;
    process.write(b"second\n").await.unwrap();
    until(&mut process, "second\n").await;
    assert_eq!(process.cursor().stdout, 13);
    process.close_stdin().await.unwrap();
    process.close_stdin().await.unwrap();
    let output = process.wait().await.unwrap();
    assert!(output.status.success());
}

async fn a_terminal_is_a_terminal(sandbox: Sandbox) {
    let mut request = sh("test -t 1 && read line && printf 'got %s\\n' \"$line\" && stty size");
    request.pty = Some(PtySize { cols: 91, rows: 17 });
    let mut process = sandbox.spawn(request).await.unwrap();
    process
        .resize(PtySize { cols: 93, rows: 19 })
        .await
        .unwrap();
    process.write(b"me\n").await.unwrap();
    let text = until(&mut process, "19 93\r\n").await;
    assert!(text.contains("got me\r\n"), "{text:?}");
    let output = process.wait().await.unwrap();
    assert!(output.status.success());
}

async fn a_background_process_is_found_again(sandbox: Sandbox) {
    let mut request = sh("printf one; read line; printf \"$line\"; exit 5");
    request.stdin = Some(Vec::new());
    request.tag = Some("mine".into());
    let mut process = sandbox.spawn_background(request).await.unwrap();
    until(&mut process, "one").await;
    let pid = process.pid();
    drop(process);
    let listed = sandbox.processes().await.unwrap();
    let mine = listed.iter().find(|found| found.pid == pid).unwrap();
    assert_eq!(mine.tag.as_deref(), Some("mine"));
    assert_eq!(mine.argv[0], "/bin/sh");
    assert_eq!(mine.exit, None);
    let mut again = sandbox
        .attach(Selector::Tag("mine".into()), Cursor::default())
        .await
        .unwrap();
    assert_eq!(again.pid(), pid);
    until(&mut again, "one").await;
    again.write(b"two\n").await.unwrap();
    let from = Cursor {
        stdout: 1,
        ..Cursor::default()
    };
    let third = sandbox.attach(Selector::Pid(pid), from).await.unwrap();
    let output = third.wait().await.unwrap();
    assert_eq!(output.stdout.to_vec(), b"netwo");
    assert_eq!(output.status, ExitStatus::Code(5));
    until(&mut again, "two").await;
}

async fn output_that_is_gone_says_so(sandbox: Sandbox) {
    let mut request = sh("head -c 3000000 /dev/zero; printf end; read line");
    request.stdin = Some(Vec::new());
    let mut process = sandbox.spawn_background(request).await.unwrap();
    let mut seen = 0;
    while seen < 3_000_003 {
        match process.next().await.unwrap() {
            Some(Event::Stdout(bytes)) => seen += bytes.len(),
            other => panic!("{other:?}"),
        }
    }
    let err = sandbox
        .attach(Selector::Pid(process.pid()), Cursor::default())
        .await
        .unwrap_err();
    assert_eq!(err.code(), ErrorCode::CursorExpired);
    let oldest = oldest_cursor(&err).unwrap();
    assert!(
        oldest.stdout > 0 && oldest.stdout <= 3_000_003,
        "{oldest:?}"
    );
    let pid = Selector::Pid(process.pid());
    let mut again = sandbox.attach(pid, oldest).await.unwrap();
    let mut rest = Vec::new();
    while !rest.ends_with(b"end") {
        match again.next().await.unwrap() {
            Some(Event::Stdout(bytes)) => rest.extend_from_slice(&bytes),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(rest.len() as u64, 3_000_003 - oldest.stdout);
    process.kill().await.unwrap();
}

async fn a_process_is_killed_by_name(sandbox: Sandbox) {
    let mark = mark();
    let mut request = sleeper(&mark);
    request.tag = Some("victim".into());
    let process = sandbox.spawn_background(request).await.unwrap();
    while !runs(&mark) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let killed = sandbox
        .kill(Selector::Tag("victim".into()), 9, true)
        .await
        .unwrap();
    assert!(killed >= 3, "{killed}");
    let output = process.wait().await.unwrap();
    assert_eq!(output.status, ExitStatus::Signal(9));
    gone(&mark).await;
    let err = sandbox
        .kill(Selector::Tag("nobody".into()), 9, true)
        .await
        .unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
}

async fn an_ended_process_gets_no_signal(sandbox: Sandbox) {
    let mut process = sandbox.spawn(ExecRequest::new(["true"])).await.unwrap();
    while process.next().await.unwrap().is_some() {}
    let err = process.signal(15).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
    let pid = Selector::Pid(process.pid());
    for tree in [false, true] {
        let err = sandbox.kill(pid.clone(), 9, tree).await.unwrap_err();
        assert_eq!(err.code(), ErrorCode::NotFound);
    }
    process.kill().await.unwrap();
    for none in [-1, 0, 65] {
        let err = sandbox.kill(pid.clone(), none, false).await.unwrap_err();
        assert_eq!(err.code(), ErrorCode::InvalidArgument);
    }
}

async fn the_end_of_the_worker_is_no_exit_code(sandbox: Sandbox) {
    let worker = stdout_of(&sandbox, "printf $PPID").await;
    let mut process = sandbox
        .spawn(sh("echo $$; exec sleep 100000"))
        .await
        .unwrap();
    let sleeper = until(&mut process, "\n").await;
    for pid in [worker, sleeper] {
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    let ended = loop {
        match process.next().await {
            // The command may have ended first.
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(ended, Err(err) if err.code() == ErrorCode::SandboxLost));
    let err = sandbox.exec(sh("true")).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::SandboxLost);
}
