//! Commands: what they are given, how they end, what happens when they do not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use namzu_client::{CancellationToken, ExecRequest, ExitStatus, partial_output};
use namzu_core::ErrorCode;
use tokio::task::JoinSet;

use crate::conformance::bench::{Bench, line, run, sh};
use crate::conformance::case::{Case, always, case};
use crate::conformance::check::{Failure, Verdict, ensure, ensure_eq, refused_with, shown};
use crate::conformance::host;

pub(crate) const CASES: &[Case] = &[
    case!("exec", argv_is_exact, always),
    case!("exec", a_long_argument_arrives_whole, always),
    case!(
        "exec",
        env_is_what_was_asked_and_nothing_of_the_host,
        always
    ),
    case!("exec", cwd_is_the_workspace_unless_asked, always),
    case!("exec", stdin_is_exact_and_empty_when_absent, always),
    case!("exec", unread_stdin_does_not_hang, always),
    case!("exec", every_exit_code_comes_back, always),
    case!("exec", a_signal_is_told_apart_from_a_code, always),
    case!("exec", what_cannot_start_is_command_not_started, always),
    case!("exec", an_empty_argv_is_refused, always),
    case!("exec", signals_are_at_their_defaults, |b| b.system()),
    case!("exec", usage_is_measured, |b| b.system()),
    case!(
        "exec",
        a_timeout_ends_the_command_and_keeps_its_output,
        always
    ),
    case!("exec", a_timeout_kills_daemons_too, |b| b.system()),
    case!("exec", the_sandbox_default_timeout_applies, always),
    case!("exec", a_background_child_does_not_hold_the_call, |b| b
        .system()),
    case!("exec", dropping_the_call_kills_the_tree, always),
    case!(
        "exec",
        cancelling_kills_the_tree_and_keeps_the_output,
        always
    ),
    case!(
        "exec",
        ten_thousand_short_commands_leave_nothing,
        always,
        alone
    ),
    case!("exec", a_hundred_at_once_do_not_mix, always),
];

async fn argv_is_exact(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let arguments: &[&[u8]] = &[
        b"",
        b"a b",
        b"$(id) `id` $HOME",
        b"new\nline",
        b"'\"\\",
        b"*",
        b"--",
        b"",
        "ünï 🦀".as_bytes(),
        b"\xff\xfe\x80",
        b"\x01\x1b[31m\x7f",
        b"",
    ];
    let mut argv: Vec<&[u8]> = vec![b"printf", b"%s\\0"];
    argv.extend(arguments);
    let printed = run(&sandbox, ExecRequest::new(argv.iter().map(|a| a.to_vec()))).await?;
    let mut wanted = arguments.join(&0);
    wanted.push(0);
    ensure!(
        printed == wanted,
        "printf was given {}, wanted {}",
        shown(&printed),
        shown(&wanted)
    );
    Ok(())
}

async fn a_long_argument_arrives_whole(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    // Just below the kernel's own bound of 128 KiB for one argument.
    let long = vec![b'x'; 131_000];
    let argv = [b"printf".to_vec(), b"%s".to_vec(), long.clone()];
    let printed = run(&sandbox, ExecRequest::new(argv)).await?;
    ensure!(printed == long, "of 131000 bytes {} arrived", printed.len());
    Ok(())
}

fn variables(printed: &[u8]) -> BTreeMap<String, String> {
    String::from_utf8_lossy(printed)
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

async fn env_is_what_was_asked_and_nothing_of_the_host(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench
        .sandbox_with(|spec| {
            spec.env.insert("OF_SANDBOX".into(), "one = two".into());
            spec.env.insert("OF_BOTH".into(), "sandbox".into());
        })
        .await?;
    let mut request = ExecRequest::new(["env"]);
    request.env.insert("OF_COMMAND".into(), "ü $x".into());
    request.env.insert("OF_BOTH".into(), "command".into());
    request.env.insert("EMPTY".into(), String::new());
    let inside = variables(&run(&sandbox, request).await?);
    for (name, value) in [
        ("OF_SANDBOX", "one = two"),
        ("OF_BOTH", "command"),
        ("OF_COMMAND", "ü $x"),
        ("EMPTY", ""),
    ] {
        ensure_eq!(
            inside.get(name).map(String::as_str),
            Some(value),
            "variable {name}"
        );
    }
    let ordinary = [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "TERM", "LANG",
        "LC_ALL", "TMPDIR", "TZ", "_",
    ];
    for (name, value) in std::env::vars() {
        ensure!(
            ordinary.contains(&name.as_str()) || inside.get(&name) != Some(&value),
            "the host's variable {name} is inside"
        );
    }
    for name in inside.keys() {
        ensure!(
            !name.starts_with("NAMZU_SANDBOX"),
            "the worker's own variable {name} reached a command"
        );
    }
    // One command's variables are not the next one's.
    let next = variables(&run(&sandbox, ExecRequest::new(["env"])).await?);
    ensure!(
        !next.contains_key("OF_COMMAND"),
        "a command's variable stayed for the next"
    );
    Ok(())
}

async fn cwd_is_the_workspace_unless_asked(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let workspace = sandbox.workspace().to_owned();
    ensure_eq!(
        line(&sandbox, "pwd").await?,
        workspace,
        "working directory of a command that names none"
    );
    sandbox.files().make_dir("a b/c").await?;
    let mut request = sh("pwd");
    request.cwd = Some(format!("{workspace}/a b/c"));
    let printed = run(&sandbox, request).await?;
    ensure_eq!(
        String::from_utf8_lossy(&printed).trim_end(),
        format!("{workspace}/a b/c").as_str(),
        "working directory asked for"
    );
    let mut request = ExecRequest::new(["true"]);
    request.cwd = Some(format!("{workspace}/absent"));
    refused_with(
        sandbox.exec(request).await,
        ErrorCode::InvalidArgument,
        "an absent working directory",
    )?;
    Ok(())
}

async fn stdin_is_exact_and_empty_when_absent(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    for len in [0, 1, 4096, 65_537, 3 << 20] {
        let input = pattern(len);
        let mut request = ExecRequest::new(["cat"]);
        request.stdin = Some(input.clone());
        let printed = run(&sandbox, request).await?;
        ensure!(
            printed == input,
            "of {len} bytes {} came back, or others",
            printed.len()
        );
    }
    let printed = run(&sandbox, ExecRequest::new(["cat"])).await?;
    ensure!(printed.is_empty(), "absent input gave {}", shown(&printed));
    Ok(())
}

/// Bytes of every value that repeat at no power of two.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..=255_u8).chain(3..=250).cycle().take(len).collect()
}

async fn unread_stdin_does_not_hang(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut request = sh("exit 7");
    request.stdin = Some(vec![b'x'; 8 << 20]);
    let output = sandbox.exec(request).await?;
    ensure_eq!(
        output.status,
        ExitStatus::Code(7),
        "a command that reads nothing of 8 MiB"
    );
    Ok(())
}

async fn every_exit_code_comes_back(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    for code in 0..=255 {
        let output = sandbox.exec(sh(&format!("exit {code}"))).await?;
        ensure_eq!(output.status, ExitStatus::Code(code), "exit {code}");
    }
    Ok(())
}

async fn a_signal_is_told_apart_from_a_code(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    for signal in [1, 2, 9, 10, 11, 13, 15] {
        let output = sandbox.exec(sh(&format!("kill -{signal} $$"))).await?;
        ensure_eq!(
            output.status,
            ExitStatus::Signal(signal),
            "killed by signal {signal}"
        );
        let code = 128 + signal;
        let output = sandbox.exec(sh(&format!("exit {code}"))).await?;
        ensure_eq!(output.status, ExitStatus::Code(code), "exit {code}");
    }
    Ok(())
}

async fn what_cannot_start_is_command_not_started(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    sandbox.files().write("plain.txt", "no program").await?;
    let workspace = sandbox.workspace();
    for program in [
        "no-such-program-anywhere".to_owned(),
        "/no/such/path".to_owned(),
        format!("{workspace}/plain.txt"),
        workspace.to_owned(),
    ] {
        refused_with(
            sandbox.exec(ExecRequest::new([program.as_str()])).await,
            ErrorCode::CommandNotStarted,
            &program,
        )?;
    }
    // The sandbox is none the worse for it.
    run(&sandbox, ExecRequest::new(["true"])).await?;
    Ok(())
}

async fn an_empty_argv_is_refused(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    refused_with(
        sandbox.exec(ExecRequest::default()).await,
        ErrorCode::InvalidArgument,
        "an empty argv",
    )?;
    refused_with(
        sandbox.exec(ExecRequest::new([b"a\0b".to_vec()])).await,
        ErrorCode::InvalidArgument,
        "a NUL in argv",
    )?;
    Ok(())
}

async fn signals_are_at_their_defaults(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let status = run(&sandbox, ExecRequest::new(["cat", "/proc/self/status"])).await?;
    let status = String::from_utf8_lossy(&status);
    for field in ["SigBlk:", "SigIgn:"] {
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .map(str::trim);
        ensure_eq!(mask, Some("0000000000000000"), "{field} of a command");
    }
    Ok(())
}

async fn usage_is_measured(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let output = sandbox
        .exec(sh("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"))
        .await?;
    let usage = output.usage;
    ensure!(
        !(usage.user + usage.system).is_zero() && usage.max_rss > 0 && !usage.duration.is_zero(),
        "a busy loop used {usage:?}"
    );
    Ok(())
}

async fn a_timeout_ends_the_command_and_keeps_its_output(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut request = sh("echo begun; sleep 1000");
    request.timeout = Some(Duration::from_millis(500));
    let err = refused_with(
        hang_guard(&bench, "a timeout", sandbox.exec(request)).await?,
        ErrorCode::ExecTimeout,
        "a command past its timeout",
    )?;
    let partial = partial_output(&err)
        .ok_or_else(|| Failure::new("the timeout carries no partial output"))?;
    ensure_eq!(
        partial.stdout.to_vec(),
        b"begun\n".to_vec(),
        "output before the timeout"
    );
    run(&sandbox, ExecRequest::new(["true"])).await?;
    Ok(())
}

/// Fails the case when `call` does not come back at all.
async fn hang_guard<T>(bench: &Bench, what: &str, call: impl Future<Output = T>) -> Verdict<T> {
    tokio::time::timeout(bench.patience, Box::pin(call))
        .await
        .map_err(|_| Failure::new(format!("{what}: no answer within {:?}", bench.patience)))
}

async fn a_timeout_kills_daemons_too(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    // Its own session, re-parented, deaf to the polite signals; its pid goes to a file, not to
    // the pipe. One in the group, one out of it.
    let mut request = sh("trap '' TERM HUP; \
         (setsid sh -c 'trap \"\" TERM HUP; echo $$ > daemon; while :; do sleep 1000; done' &) ; \
         sh -c 'echo $$ > child; sleep 1000' & \
         until [ -s daemon ] && [ -s child ]; do :; done; echo ready; sleep 1000");
    request.timeout = Some(Duration::from_secs(5));
    let err = refused_with(
        hang_guard(&bench, "a timeout with daemons", sandbox.exec(request)).await?,
        ErrorCode::ExecTimeout,
        "a command past its timeout",
    )?;
    let ready = partial_output(&err).map(|output| output.stdout.to_vec());
    ensure_eq!(ready, Some(b"ready\n".to_vec()), "the daemons were up");
    ended(&bench, &sandbox, "$(cat daemon)", "the daemon").await?;
    ended(&bench, &sandbox, "$(cat child)", "the child").await
}

/// Waits until the process is no more, or is a zombie.
async fn ended(bench: &Bench, sandbox: &namzu_client::Sandbox, pid: &str, what: &str) -> Verdict {
    let script = format!("cut -d' ' -f3 /proc/{pid}/stat 2>/dev/null || echo gone");
    host::eventually(bench.patience, what, || async {
        let state = line(sandbox, &script).await?;
        Ok(match state.as_str() {
            "gone" | "Z" | "X" | "" => Ok(()),
            other => Err(format!("in state {other}")),
        })
    })
    .await
}

async fn the_sandbox_default_timeout_applies(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench
        .sandbox_with(|spec| spec.limits.command = Some(Duration::from_millis(300)))
        .await?;
    let call = sandbox.exec(ExecRequest::new(["sleep", "1000"]));
    refused_with(
        hang_guard(&bench, "the default timeout", call).await?,
        ErrorCode::ExecTimeout,
        "a command past the sandbox's own timeout",
    )?;
    Ok(())
}

async fn a_background_child_does_not_hold_the_call(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let call = sandbox.exec(sh("sleep 100000 & echo $!"));
    let output = hang_guard(&bench, "a child that holds the pipe", call).await??;
    ensure_eq!(output.status, ExitStatus::Code(0), "the command's own end");
    ensure!(
        output.stdout.to_vec().ends_with(b"\n"),
        "its output was lost"
    );
    Ok(())
}

async fn dropping_the_call_kills_the_tree(bench: Arc<Bench>) -> Verdict {
    let sandbox = Arc::new(bench.sandbox().await?);
    let mut request = sh("echo up; sleep 1000");
    request.tag = Some("dropped".into());
    let mut calls = JoinSet::new();
    let inner = Arc::clone(&sandbox);
    calls.spawn(async move { inner.exec(request).await });
    listed(&bench, &sandbox, "dropped", true).await?;
    calls.shutdown().await;
    listed(&bench, &sandbox, "dropped", false).await
}

/// Waits until a running command of that tag is listed, or is not.
pub(crate) async fn listed(
    bench: &Bench,
    sandbox: &namzu_client::Sandbox,
    tag: &str,
    wanted: bool,
) -> Verdict {
    let what = format!("`{tag}` listed as running: {wanted}");
    host::eventually(bench.patience, &what, || async {
        let runs = sandbox
            .processes()
            .await?
            .iter()
            .any(|p| p.tag.as_deref() == Some(tag) && p.exit.is_none());
        Ok(if runs == wanted {
            Ok(())
        } else {
            Err(format!("{runs}"))
        })
    })
    .await
}

async fn cancelling_kills_the_tree_and_keeps_the_output(bench: Arc<Bench>) -> Verdict {
    let sandbox = Arc::new(bench.sandbox().await?);
    let mut request = sh("echo up; echo x > up; sleep 1000");
    request.tag = Some("cancelled".into());
    let cancel = CancellationToken::new();
    let (inner, token) = (Arc::clone(&sandbox), cancel.clone());
    let mut calls = JoinSet::new();
    calls.spawn(async move { inner.exec_cancellable(request, &token).await });
    host::eventually(bench.patience, "the command printed", || async {
        Ok(sandbox
            .files()
            .stat("up")
            .await
            .map(drop)
            .map_err(|err| err.to_string()))
    })
    .await?;
    cancel.cancel();
    let result = calls
        .join_next()
        .await
        .ok_or_else(|| Failure::new("the call vanished"))??;
    let err = refused_with(result, ErrorCode::Cancelled, "a cancelled command")?;
    let partial = partial_output(&err).map(|output| output.stdout.to_vec());
    ensure_eq!(partial, Some(b"up\n".to_vec()), "output before the cancel");
    listed(&bench, &sandbox, "cancelled", false).await
}

async fn ten_thousand_short_commands_leave_nothing(bench: Arc<Bench>) -> Verdict {
    const LANES: usize = 8;
    const EACH: usize = 1250;
    let sandbox = Arc::new(bench.sandbox().await?);
    run(&sandbox, ExecRequest::new(["true"])).await?;
    let before = host::descriptors()?;
    let mut lanes = JoinSet::new();
    for _ in 0..LANES {
        let sandbox = Arc::clone(&sandbox);
        lanes.spawn(async move {
            for _ in 0..EACH {
                run(&sandbox, ExecRequest::new(["true"])).await?;
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane??;
    }
    let after = host::descriptors()?;
    ensure!(
        after <= before + 4,
        "{before} descriptors were open before, {after} after"
    );
    let running = sandbox
        .processes()
        .await?
        .iter()
        .filter(|p| p.exit.is_none())
        .count();
    ensure_eq!(running, 0, "commands still listed as running");
    if bench.guest.system {
        // Each zombie would still have its place in /proc.
        let zombies = line(
            &sandbox,
            "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ' Z ' || true",
        )
        .await?;
        let count: u32 = zombies.parse()?;
        ensure!(count < 100, "{count} zombies are left inside");
    }
    Ok(())
}

async fn a_hundred_at_once_do_not_mix(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut all = Vec::new();
    for number in 0..100 {
        let mut request = ExecRequest::new(["cat"]);
        request.stdin = Some(format!("first of {number}\n").into_bytes());
        all.push((number, sandbox.spawn(request).await?));
    }
    // All live at once here: each still waits for the rest of its input.
    for (number, process) in &mut all {
        process
            .write(format!("second of {number}\n").as_bytes())
            .await?;
    }
    for (number, process) in all {
        let output = process.wait().await?;
        ensure_eq!(
            output.stdout.text_lossy(),
            format!("first of {number}\nsecond of {number}\n"),
            "output of command {number}"
        );
        ensure_eq!(output.status, ExitStatus::Code(0), "end of {number}");
    }
    Ok(())
}
