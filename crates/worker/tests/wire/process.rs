//! Starting commands, and what they see.

use std::os::unix::fs::PermissionsExt;

use namzu_protocol::Codec;
use namzu_protocol::connect::Code;
use namzu_protocol::process::process_event::Event;
use namzu_protocol::process::{
    self as wire, ConnectRequest, ListRequest, ListResponse, ProcessSelector, StartOptions,
    StartRequest,
};

use crate::support::{alive, by_pid, eventually, private, private_with, shell, start, worker};

#[tokio::test]
async fn the_start_comes_first_and_one_end_last_in_both_codecs() {
    let worker = private(&[]).await;
    for codec in [Codec::Proto, Codec::Json] {
        let mut client = worker.client.clone();
        client.codec = codec;
        let mut replies = client.start(&shell("echo out; echo err >&2; exit 3")).await;
        assert!(matches!(replies.event().await, Some(Event::Start(start)) if start.pid > 0));
        let outcome = replies.outcome().await;
        assert_eq!(
            (outcome.stdout, outcome.stderr),
            (b"out\n".to_vec(), b"err\n".to_vec())
        );
        let end = outcome.end.unwrap();
        assert_eq!(
            (end.exit_code, end.exited, end.status.as_str()),
            (3, true, "exit status 3")
        );
        assert_eq!(end.error.as_deref(), Some("exit status 3"));
        let info = end.info.unwrap();
        assert_eq!(
            (info.stdout_bytes, info.stderr_bytes, info.signal),
            (4, 4, 0)
        );
    }
}

#[tokio::test]
async fn a_signal_is_no_exit_code() {
    let worker = private(&[]).await;
    for (line, signal, status) in [
        ("kill -9 $$", 9, "signal: killed"),
        ("kill -TERM $$", 15, "signal: terminated"),
        ("kill -SEGV $$", 11, "signal: segmentation fault"),
    ] {
        let outcome = worker.client.sh(line).await;
        let end = outcome.end.as_ref().unwrap();
        assert_eq!(
            (end.exit_code, end.exited, end.status.as_str()),
            (-1, false, status)
        );
        assert_eq!(
            (outcome.info().signal, end.error.as_deref()),
            (signal, Some(status))
        );
    }
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let garbage = dir.path().join("garbage");
    std::fs::write(&garbage, "\0\0\0").unwrap();
    std::fs::set_permissions(&garbage, std::fs::Permissions::from_mode(0o755)).unwrap();

    let worker = private(&[]).await;
    for (program, code) in [
        ("no-such-program", Code::NotFound),
        ("/no/such/program", Code::NotFound),
        (plain.to_str().unwrap(), Code::PermissionDenied),
        (garbage.to_str().unwrap(), Code::PermissionDenied),
        ("", Code::InvalidArgument),
        ("a\0b", Code::InvalidArgument),
    ] {
        let error = worker
            .client
            .start(&start(program, &[]))
            .await
            .failure()
            .await;
        assert_eq!(error.code, code, "{program:?}: {error}");
    }
    let mut request = shell("true");
    request.process.as_mut().unwrap().cwd = Some("/no/such".into());
    let error = worker.client.start(&request).await.failure().await;
    assert_eq!(
        (error.code, error.message.as_str()),
        (Code::InvalidArgument, "cwd '/no/such' does not exist")
    );
    let list: ListResponse = worker
        .client
        .unary(wire::LIST, &ListRequest { ended: true })
        .await
        .unwrap();
    assert_eq!(list.processes, [], "nothing was started");
}

#[tokio::test]
async fn the_environment_is_built_from_nothing() {
    let mut command = worker();
    command
        .env("SECRET", "host")
        .env("NAMZU_SANDBOX_TOKEN", "token")
        .env("NAMZU_SANDBOX_ENVS", r#"{"A":"sandbox","B":"sandbox"}"#);
    let worker = private_with(&mut command, &["--user", "someone"]).await;
    let mut request = start("env", &[]);
    request.process.as_mut().unwrap().envs = [("B".to_owned(), "request".to_owned())].into();
    let outcome = worker.client.run(&request).await;
    let mut names: Vec<_> = outcome
        .text()
        .lines()
        .map(|line| line.split_once('=').unwrap().0)
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "A",
            "B",
            "E2B_SANDBOX",
            "HOME",
            "LOGNAME",
            "NAMZU_COOKIE",
            "PATH",
            "USER"
        ]
    );
    for expected in [
        "A=sandbox",
        "B=request",
        "USER=someone",
        "E2B_SANDBOX=true",
        "HOME=/tmp",
    ] {
        assert!(
            outcome.text().lines().any(|line| line == expected),
            "{expected}"
        );
    }
}

#[tokio::test]
async fn a_command_holds_its_three_streams_and_nothing_else() {
    let worker = private(&[]).await;
    // ls opens the directory itself: that is the fourth.
    let outcome = worker.client.sh("exec ls /proc/self/fd").await;
    assert_eq!(outcome.text(), "0\n1\n2\n3");
    let outcome = worker
        .client
        .sh("for fd in 0 1 2; do readlink /proc/self/fd/$fd; done")
        .await;
    assert!(!outcome.text().contains("socket:"), "{}", outcome.text());
}

#[tokio::test]
async fn a_command_cannot_look_into_the_worker() {
    let worker = private(&[]).await;
    let pid = worker.running.pid();
    // Root may look anywhere; the owner of the files tells whether others may.
    let owner = worker
        .client
        .sh(&format!("stat -c %u /proc/{pid}/environ; id -u"))
        .await;
    let (owner, own) = owner.text().split_once('\n').unwrap();
    assert_eq!(
        owner, "0",
        "a dumpable process's files belong to its user, {own}"
    );
    let privileges = worker.client.sh("grep NoNewPrivs /proc/self/status").await;
    assert_eq!(privileges.text(), "NoNewPrivs:\t1");
}

#[tokio::test]
async fn signals_are_as_a_fresh_process_expects_them() {
    let worker = private(&[]).await;
    let outcome = worker
        .client
        .sh("grep -E '^Sig(Blk|Ign)' /proc/self/status")
        .await;
    for line in outcome.text().lines() {
        let (name, mask) = line.split_once(":\t").unwrap();
        assert_eq!(u64::from_str_radix(mask, 16).unwrap(), 0, "{name}");
    }
}

#[tokio::test]
async fn exact_argument_bytes_arrive() {
    let worker = private(&[]).await;
    let words: [&'static [u8]; 4] = [b"printf", b"%s|", b"\xff\xfe a", b"*"];
    let request = StartRequest {
        options: Some(StartOptions {
            argv: words.map(bytes::Bytes::from_static).to_vec(),
            ..StartOptions::default()
        }),
        ..start("ignored", &[])
    };
    assert_eq!(worker.client.run(&request).await.stdout, b"\xff\xfe a|*|");
}

#[tokio::test]
async fn limits_bind_the_command() {
    let worker = private(&[]).await;
    let request = StartRequest {
        options: Some(StartOptions {
            open_files: Some(17),
            file_size: Some(1024),
            address_space: Some(1 << 30),
            cpu_seconds: Some(1),
            ..StartOptions::default()
        }),
        ..shell("ulimit -n; ulimit -f; ulimit -v; while :; do :; done")
    };
    let outcome = worker.client.run(&request).await;
    assert_eq!(outcome.text(), "17\n2\n1048576");
    assert!([libc::SIGXCPU, libc::SIGKILL].contains(&outcome.info().signal));
}

#[tokio::test]
async fn a_hundred_at_once_all_end() {
    let worker = private(&[]).await;
    let mut all = tokio::task::JoinSet::new();
    for number in 0..100 {
        let client = worker.client.clone();
        all.spawn(async move {
            let outcome = client
                .sh(&format!("echo {number}; exit {}", number % 7))
                .await;
            assert_eq!(
                (outcome.text(), outcome.code()),
                (number.to_string().as_str(), number % 7)
            );
        });
    }
    assert_eq!(all.join_all().await.len(), 100);
}

#[tokio::test]
async fn an_ended_command_is_still_known_by_pid_and_tag() {
    let worker = private(&[]).await;
    let request = StartRequest {
        tag: Some("mine".into()),
        ..shell("echo x; exit 5")
    };
    let pid = worker.client.run(&request).await.pid;
    for process in [by_pid(pid), Some(ProcessSelector::tag("mine"))] {
        let replies = worker
            .client
            .connect(&ConnectRequest {
                process,
                cursor: None,
            })
            .await;
        let outcome = replies.outcome().await;
        assert_eq!((outcome.pid, outcome.code()), (pid, 5));
    }
    let list: ListResponse = worker
        .client
        .unary(wire::LIST, &ListRequest { ended: true })
        .await
        .unwrap();
    let running: ListResponse = worker
        .client
        .unary(wire::LIST, &ListRequest::default())
        .await
        .unwrap();
    assert_eq!(running.processes, [], "envd lists what runs");
    let [info] = &list.processes[..] else {
        panic!("{list:?}")
    };
    let state = info.state.as_ref().unwrap();
    assert_eq!(
        (info.pid, info.tag.as_deref(), state.running),
        (pid, Some("mine"), false)
    );
    assert_eq!(
        (state.exit.as_ref().unwrap().exit_code, state.stdout_bytes),
        (5, 2)
    );
}

#[tokio::test]
async fn a_client_that_leaves_leaves_the_command_running() {
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let worker = private(&[]).await;
    let line = format!(
        "while [ ! -e {0} ]; do sleep 0.01; done; echo survived",
        go.display()
    );
    let mut replies = worker.client.start(&shell(&line)).await;
    let pid = replies.pid().await;
    drop(replies);
    let replies = worker
        .client
        .connect(&ConnectRequest {
            process: by_pid(pid),
            cursor: None,
        })
        .await;
    std::fs::write(&go, "").unwrap();
    let outcome = replies.outcome().await;
    assert_eq!((outcome.text(), outcome.code()), ("survived", 0));
}

#[tokio::test]
async fn a_client_that_leaves_kills_the_command_if_it_said_so() {
    let worker = private(&[]).await;
    let request = StartRequest {
        options: Some(StartOptions {
            kill_on_disconnect: true,
            ..StartOptions::default()
        }),
        ..shell("setsid sleep 1000 & echo $!; wait")
    };
    let mut replies = worker.client.start(&request).await;
    let pid = replies.pid().await;
    let child = replies.until("\n").await.trim().parse().unwrap();
    drop(replies);
    eventually(|| !alive(pid) && !alive(child)).await;
}

#[tokio::test]
async fn large_descriptions_of_ended_commands_are_bounded() {
    let worker = private(&[]).await;
    let mut request = start("true", &[]);
    request.process.as_mut().unwrap().args = vec!["x".repeat(100_000); 10];
    for _ in 0..12 {
        assert_eq!(worker.client.run(&request).await.code(), 0);
    }
    let list: ListResponse = worker
        .client
        .unary(wire::LIST, &ListRequest { ended: true })
        .await
        .unwrap();
    assert!(
        (1..=4).contains(&list.processes.len()),
        "{}",
        list.processes.len()
    );
}

#[tokio::test]
async fn a_storm_of_orphans_is_reaped() {
    let worker = private(&["--init"]).await;
    let line = "i=0; while [ $i -lt 3000 ]; do (true &); i=$((i+1)); done; echo done";
    assert_eq!(worker.client.sh(line).await.text(), "done");
    let pid = worker.running.pid();
    let children = format!("/proc/{pid}/task/{pid}/children");
    eventually(|| std::fs::read_to_string(&children).unwrap().is_empty()).await;
}
