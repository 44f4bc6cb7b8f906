//! One list of claims, over every way to reach a worker.

use std::time::Duration;

use namzu_client::{
    CancellationToken, Cursor, Event, ExecRequest, ExitStatus, OutputCap, PtySize, Sandbox,
    Selector, WatchKind, partial_output,
};
use namzu_core::ErrorCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::real::{Carrier, Real};

/// Makes one test of each function, over each carrier.
macro_rules! over_every_carrier {
    ($($name:ident)*) => {$(
        mod $name {
            use super::*;

            #[tokio::test]
            async fn lane() {
                super::$name(Real::sandbox(Carrier::Lane).await).await;
            }

            #[tokio::test]
            async fn pair() {
                super::$name(Real::sandbox(Carrier::Pair).await).await;
            }

            #[tokio::test]
            async fn unix() {
                super::$name(Real::sandbox(Carrier::Unix).await).await;
            }

            #[tokio::test]
            async fn http() {
                super::$name(Real::sandbox(Carrier::Http).await).await;
            }

            #[tokio::test]
            async fn stdio() {
                super::$name(Real::sandbox(Carrier::Stdio).await).await;
            }
        }
    )*};
}

over_every_carrier! {
    output_codes_and_signals_are_told_apart
    arguments_arrive_byte_for_byte
    standard_input_is_given_and_ends
    large_input_and_output_do_not_wait_for_each_other
    a_program_that_is_not_there_is_no_exit_code
    a_wrong_directory_is_the_requests_fault
    a_timeout_kills_the_tree_and_keeps_the_output
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
    files_come_back_as_they_were_written
    a_large_file_travels_both_ways
    ranges_of_a_file_are_read
    names_are_bytes
    directories_are_made_listed_moved_and_removed
    changes_are_seen
    trees_travel_as_tar
    a_port_inside_is_reached
    a_port_of_ours_is_reached_from_inside
    the_end_of_the_worker_is_no_exit_code
}

fn sh(script: &str) -> ExecRequest {
    ExecRequest::new(["/bin/sh", "-c", script])
}

async fn stdout_of(sandbox: &Sandbox, script: &str) -> String {
    let output = sandbox.exec(sh(script)).await.unwrap();
    output.stdout.text_lossy().into_owned()
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

/// Whether a process with `mark` in its arguments runs on this host.
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

/// Waits until no process with `mark` in its arguments runs.
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

/// A number of seconds to sleep that nobody else sleeps.
fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}.{next:04}", 100_000 + std::process::id())
}

/// Prints, and sleeps in a session of its own as well as in the shell's.
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

/// Reads on until what was printed ends with `end`.
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
    assert!(err.hint().unwrap().contains("stdout"), "{err:?}");
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

async fn files_come_back_as_they_were_written(sandbox: Sandbox) {
    let files = sandbox.files();
    let bytes: Vec<u8> = (0..=255).collect();
    files.write("a/b/file", &bytes).await.unwrap();
    assert_eq!(files.read("a/b/file", 256).await.unwrap(), bytes);
    files.write("a/b/file", "").await.unwrap();
    assert_eq!(files.read("a/b/file", 256).await.unwrap(), b"");
    files.write("a/b/file", "12345").await.unwrap();
    let err = files.read("a/b/file", 4).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
    let err = files.read("none", 4).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
    let err = files.read("a", 4).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
    let info = files.stat("a/b/file").await.unwrap();
    assert_eq!(info.size, 5);
    assert_eq!(
        info.path,
        std::path::Path::new(sandbox.workspace()).join("a/b/file")
    );
}

async fn a_large_file_travels_both_ways(sandbox: Sandbox) {
    let bytes: Vec<u8> = (0_u32..3 << 20).flat_map(u32::to_le_bytes).collect();
    let files = sandbox.files();
    let sent = files.write_from("large", &mut &bytes[..]).await.unwrap();
    assert_eq!(sent, bytes.len() as u64);
    let mut reader = files.reader("large").await.unwrap();
    assert_eq!(reader.len(), Some(bytes.len() as u64));
    let mut back = Vec::new();
    reader.read_to_end(&mut back).await.unwrap();
    assert!(back == bytes, "the bytes differ");
}

async fn ranges_of_a_file_are_read(sandbox: Sandbox) {
    let files = sandbox.files();
    files.write("digits", "0123456789").await.unwrap();
    for (range, expected) in [(0..3, "012"), (8..20, "89"), (10..12, ""), (3..3, "")] {
        let read = files.read_range("digits", range).await.unwrap();
        assert_eq!(read, expected.as_bytes());
    }
    files.write("empty", "").await.unwrap();
    assert_eq!(files.read_range("empty", 0..5).await.unwrap(), b"");
    let err = files.read_range("none", 0..0).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
}

async fn names_are_bytes(sandbox: Sandbox) {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let files = sandbox.files();
    let odd = OsStr::from_bytes(b"dir/a \n\t\xff%41+&=?#\xc3\xa9");
    files.write(odd, "x").await.unwrap();
    assert_eq!(files.read(odd, 9).await.unwrap(), b"x");
    let listed = files.list("dir", 1).await.unwrap();
    let path = std::path::Path::new(sandbox.workspace()).join(odd);
    assert_eq!(listed[0].path, path);
    assert_eq!(files.stat(odd).await.unwrap().path, path);
    files.rename(odd, "dir/plain").await.unwrap();
    assert_eq!(files.read("dir/plain", 9).await.unwrap(), b"x");
    let err = files.stat("a\0b").await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
}

async fn directories_are_made_listed_moved_and_removed(sandbox: Sandbox) {
    let files = sandbox.files();
    files.make_dir("d/e").await.unwrap();
    let err = files.make_dir("d/e").await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::AlreadyExists);
    files.write("d/e/f", "x").await.unwrap();
    let names = |listed: Vec<namzu_client::FileInfo>| {
        let mut names: Vec<_> = listed
            .into_iter()
            .map(|info| info.path.file_name().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(files.list("d", 1).await.unwrap()), ["e"]);
    assert_eq!(names(files.list("d", 2).await.unwrap()), ["e", "f"]);
    files.rename("d/e", "g/h").await.unwrap();
    assert_eq!(files.read("g/h/f", 9).await.unwrap(), b"x");
    files.remove("g").await.unwrap();
    files.remove("g").await.unwrap();
    let err = files.stat("g").await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
    let err = files.list("g", 1).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
}

async fn changes_are_seen(sandbox: Sandbox) {
    let files = sandbox.files();
    files.make_dir("watched").await.unwrap();
    let mut watch = files.watch("watched", true).await.unwrap();
    files.write("watched/new", "x").await.unwrap();
    loop {
        let event = watch.next().await.unwrap().unwrap();
        assert_eq!(event.path, std::path::Path::new("new"));
        if event.kind == WatchKind::Write {
            break;
        }
    }
    let err = files.watch("none", false).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
}

async fn trees_travel_as_tar(sandbox: Sandbox) {
    let files = sandbox.files();
    files.write("tree/a/b", "x").await.unwrap();
    files.write("tree/c", vec![7; 1 << 20]).await.unwrap();
    let mut tar = files.tar_out("tree").await.unwrap();
    let mut bytes = Vec::new();
    tar.read_to_end(&mut bytes).await.unwrap();
    let sent = files.tar_in("copy", &mut &bytes[..]).await.unwrap();
    assert_eq!(sent, bytes.len() as u64);
    let same = stdout_of(
        &sandbox,
        "diff -r tree copy || diff -r tree copy/tree && echo same",
    )
    .await;
    assert!(same.ends_with("same\n"), "{same}");
    let err = files
        .tar_in("copy", &mut &b"this is no tar stream"[..])
        .await
        .unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
    let err = files.tar_out("none").await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
}

async fn a_port_inside_is_reached(sandbox: Sandbox) {
    // No wall here: a port of the host is a port inside.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tunnel = sandbox.expose(port).await.unwrap();
    let (mut inside, _) = listener.accept().await.unwrap();
    let bytes = vec![9; 3 << 20];
    let (sent, received) = tokio::join!(
        async {
            tunnel.write_all(&bytes).await?;
            tunnel.shutdown().await
        },
        async {
            let mut received = Vec::new();
            inside.read_to_end(&mut received).await?;
            inside.write_all(&received).await?;
            inside.shutdown().await?;
            Ok::<_, std::io::Error>(received)
        }
    );
    sent.unwrap();
    assert!(received.unwrap() == bytes, "the bytes differ");
    let mut back = Vec::new();
    tunnel.read_to_end(&mut back).await.unwrap();
    assert!(back == bytes, "the bytes differ");
    drop(listener);
    let err = sandbox.expose(port).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
}

async fn a_port_of_ours_is_reached_from_inside(sandbox: Sandbox) {
    let reach = sandbox
        .reach(0, || async {
            let (ours, mut theirs) = tokio::io::duplex(1024);
            tokio::spawn(async move {
                let mut line = [0; 5];
                theirs.read_exact(&mut line).await.unwrap();
                theirs.write_all(b"hello ").await.unwrap();
                theirs.write_all(&line).await.unwrap();
            });
            Ok(ours)
        })
        .await
        .unwrap();
    for _ in 0..10 {
        let mut inside = tokio::net::TcpStream::connect(("127.0.0.1", reach.port()))
            .await
            .unwrap();
        inside.write_all(b"world").await.unwrap();
        let mut answer = String::new();
        inside.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "hello world");
    }
    let port = reach.port();
    drop(reach);
    let closed = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_ok()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), closed)
        .await
        .expect("it listens on");
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
