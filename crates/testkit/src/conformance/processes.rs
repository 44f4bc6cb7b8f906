//! Commands that live on: listed, found again from a byte on, signalled, fed, ended.

use std::sync::Arc;

use namzu_client::{Cursor, Event, ExecRequest, ExitStatus, Process, Sandbox, Selector};
use namzu_core::ErrorCode;

use crate::conformance::bench::{Bench, run, sh};
use crate::conformance::case::{Case, always, case};
use crate::conformance::check::{Failure, Verdict, ensure, ensure_eq, refused_with};
use crate::conformance::exec::{listed, pattern};
use crate::conformance::host;

pub(crate) const CASES: &[Case] = &[
    case!("processes", a_running_command_is_listed, always),
    case!(
        "processes",
        stdin_is_fed_piece_by_piece_until_closed,
        always
    ),
    case!(
        "processes",
        writing_to_an_ended_command_is_not_found,
        always
    ),
    case!(
        "processes",
        a_background_command_outlives_its_handle,
        always
    ),
    case!(
        "processes",
        input_given_to_a_background_command_arrives,
        always
    ),
    case!("processes", dropping_a_handle_kills_the_tree, always),
    case!("processes", attach_resumes_at_the_byte_cursor, always),
    case!("processes", attach_by_tag_finds_the_same, always),
    case!("processes", a_cursor_too_old_is_expired, always),
    case!("processes", attaching_to_nothing_is_not_found, always),
    case!("processes", two_listeners_see_the_same_bytes, always),
    case!("processes", a_signal_reaches_the_command, always),
    case!(
        "processes",
        a_signal_without_tree_spares_the_children,
        |b| b.system()
    ),
    case!("processes", killing_the_tree_leaves_no_descendant, |b| b
        .system()),
    case!("processes", no_signal_is_refused, always),
];

fn tagged(mut request: ExecRequest, tag: &str) -> ExecRequest {
    request.tag = Some(tag.to_owned());
    request
}

fn with_input(mut request: ExecRequest, input: &[u8]) -> ExecRequest {
    request.stdin = Some(input.to_vec());
    request
}

/// Reads standard output until at least `count` bytes came.
pub(crate) async fn read_at_least(process: &mut Process, count: usize) -> Verdict<Vec<u8>> {
    let mut seen = Vec::new();
    while seen.len() < count {
        match process.next().await? {
            Some(Event::Stdout(bytes) | Event::Pty(bytes)) => seen.extend_from_slice(&bytes),
            other => {
                return Err(Failure::new(format!(
                    "after {} of {count} bytes came {other:?}",
                    seen.len()
                )));
            }
        }
    }
    Ok(seen)
}

async fn a_running_command_is_listed(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let request = tagged(with_input(ExecRequest::new(["cat", "-u"]), b""), "lister");
    let mut process = sandbox.spawn(request).await?;
    let all = sandbox.processes().await?;
    let info = all
        .iter()
        .find(|p| p.pid == process.pid())
        .ok_or_else(|| Failure::new(format!("{} is not in {all:?}", process.pid())))?;
    ensure_eq!(info.tag.as_deref(), Some("lister"), "its tag");
    ensure_eq!(
        info.argv,
        vec!["cat".to_owned(), "-u".to_owned()],
        "its argv"
    );
    ensure_eq!(info.exit, None, "its end, while it runs");
    process.close_stdin().await?;
    let output = process.wait().await?;
    ensure_eq!(output.status, ExitStatus::Code(0), "its end");
    listed(&bench, &sandbox, "lister", false).await
}

async fn stdin_is_fed_piece_by_piece_until_closed(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut process = sandbox
        .spawn(with_input(ExecRequest::new(["cat"]), b"zero"))
        .await?;
    ensure_eq!(
        read_at_least(&mut process, 4).await?,
        b"zero".to_vec(),
        "the first piece, before the second is sent"
    );
    process.write(b"\0one\n").await?;
    ensure_eq!(
        read_at_least(&mut process, 5).await?,
        b"\0one\n".to_vec(),
        "the second piece"
    );
    process.write(b"").await?;
    process.close_stdin().await?;
    process.close_stdin().await?;
    let output = process.wait().await?;
    ensure_eq!(output.status, ExitStatus::Code(0), "its end");
    Ok(())
}

async fn writing_to_an_ended_command_is_not_found(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut process = sandbox
        .spawn(with_input(ExecRequest::new(["true"]), b""))
        .await?;
    while process.next().await?.is_some() {}
    refused_with(
        process.write(b"late").await,
        ErrorCode::NotFound,
        "input for a command that ended",
    )?;
    Ok(())
}

async fn a_background_command_outlives_its_handle(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let request = tagged(with_input(ExecRequest::new(["cat"]), b""), "survivor");
    let process = sandbox.spawn_background(request).await?;
    let pid = process.pid();
    drop(process);
    // A round trip after the drop: whatever the drop sent has arrived by now.
    run(&sandbox, ExecRequest::new(["true"])).await?;
    let mut again = sandbox
        .attach(Selector::Pid(pid), Cursor::default())
        .await?;
    again.write(b"alive").await?;
    ensure_eq!(
        read_at_least(&mut again, 5).await?,
        b"alive".to_vec(),
        "the answer of a command whose first handle was dropped"
    );
    again.kill().await?;
    listed(&bench, &sandbox, "survivor", false).await
}

async fn input_given_to_a_background_command_arrives(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let request = tagged(with_input(ExecRequest::new(["cat"]), b"given"), "given");
    // The handle goes before anybody listened: what was given with the request was given.
    let pid = sandbox.spawn_background(request).await?.pid();
    let mut again = sandbox
        .attach(Selector::Pid(pid), Cursor::default())
        .await?;
    let call = Box::pin(read_at_least(&mut again, 5));
    let seen = tokio::time::timeout(bench.patience, call)
        .await
        .map_err(|_| Failure::new("the input of the request never arrives"))??;
    ensure_eq!(seen, b"given".to_vec(), "what it printed");
    again.kill().await?;
    Ok(())
}

async fn dropping_a_handle_kills_the_tree(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let process = sandbox
        .spawn(tagged(ExecRequest::new(["sleep", "1000"]), "handle"))
        .await?;
    listed(&bench, &sandbox, "handle", true).await?;
    drop(process);
    listed(&bench, &sandbox, "handle", false).await
}

/// Starts a `cat` in the background that printed `input` already.
async fn printed(sandbox: &Sandbox, tag: &str, input: &[u8]) -> Verdict<Process> {
    let request = tagged(with_input(ExecRequest::new(["cat"]), input), tag);
    let mut process = sandbox.spawn_background(request).await?;
    let seen = read_at_least(&mut process, input.len()).await?;
    ensure_eq!(seen.len(), input.len(), "what it printed");
    Ok(process)
}

async fn attach_resumes_at_the_byte_cursor(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let input = pattern(10_000);
    let process = printed(&sandbox, "cursor", &input).await?;
    ensure_eq!(process.cursor().stdout, 10_000, "the cursor");
    let pid = process.pid();
    drop(process);
    for from in [0, 1, 4_095, 9_999] {
        let cursor = Cursor {
            stdout: from as u64,
            ..Cursor::default()
        };
        let mut again = sandbox.attach(Selector::Pid(pid), cursor).await?;
        let seen = read_at_least(&mut again, input.len() - from).await?;
        ensure!(
            seen == input[from..],
            "from byte {from} on {} bytes came, or others",
            seen.len()
        );
        ensure_eq!(again.cursor().stdout, 10_000, "the cursor after {from}");
    }
    sandbox.kill(Selector::Pid(pid), 9, true).await?;
    Ok(())
}

async fn attach_by_tag_finds_the_same(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let process = printed(&sandbox, "named", b"hello").await?;
    let mut again = sandbox
        .attach(Selector::Tag("named".to_owned()), process.cursor())
        .await?;
    ensure_eq!(again.pid(), process.pid(), "the process of that tag");
    drop(process);
    again.write(b"more").await?;
    ensure_eq!(
        read_at_least(&mut again, 4).await?,
        b"more".to_vec(),
        "what comes after the cursor"
    );
    again.close_stdin().await?;
    ensure_eq!(again.wait().await?.status, ExitStatus::Code(0), "its end");
    Ok(())
}

async fn a_cursor_too_old_is_expired(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    // Four times what a worker keeps for each process.
    let process = printed(&sandbox, "old", &pattern(4 << 20)).await?;
    let (pid, now) = (process.pid(), process.cursor());
    drop(process);
    refused_with(
        sandbox.attach(Selector::Pid(pid), Cursor::default()).await,
        ErrorCode::CursorExpired,
        "a cursor whose bytes are gone",
    )?;
    sandbox.attach(Selector::Pid(pid), now).await?;
    sandbox.kill(Selector::Pid(pid), 9, true).await?;
    Ok(())
}

async fn attaching_to_nothing_is_not_found(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    for selector in [Selector::Pid(4_000_000), Selector::Tag("nobody".to_owned())] {
        let what = format!("{selector:?}");
        refused_with(
            sandbox.attach(selector.clone(), Cursor::default()).await,
            ErrorCode::NotFound,
            &format!("attaching to {what}"),
        )?;
        refused_with(
            sandbox.kill(selector, 15, false).await,
            ErrorCode::NotFound,
            &format!("a signal for {what}"),
        )?;
    }
    Ok(())
}

async fn two_listeners_see_the_same_bytes(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut first = printed(&sandbox, "shared", b"early ").await?;
    let mut second = sandbox
        .attach(Selector::Pid(first.pid()), Cursor::default())
        .await?;
    first.write(b"late").await?;
    ensure_eq!(
        read_at_least(&mut first, 4).await?,
        b"late".to_vec(),
        "the first listener"
    );
    ensure_eq!(
        read_at_least(&mut second, 10).await?,
        b"early late".to_vec(),
        "the second listener"
    );
    first.close_stdin().await?;
    ensure_eq!(first.wait().await?.status, ExitStatus::Code(0), "one end");
    ensure_eq!(
        second.wait().await?.status,
        ExitStatus::Code(0),
        "the other"
    );
    Ok(())
}

async fn a_signal_reaches_the_command(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    for signal in [2, 9, 15] {
        let mut process = sandbox.spawn(ExecRequest::new(["sleep", "1000"])).await?;
        process.signal(signal).await?;
        let output = process.wait().await?;
        ensure_eq!(output.status, ExitStatus::Signal(signal), "signal {signal}");
    }
    Ok(())
}

/// A command with a child in the same group and one in a session of its own, both known to live.
async fn family(sandbox: &Sandbox, marker: &str) -> Verdict<Process> {
    let script = format!(
        "sh -c 'while :; do sleep 1000; done' {marker} & \
         setsid sh -c 'trap \"\" TERM; while :; do sleep 1000; done' {marker} & \
         echo up; wait"
    );
    let mut process = sandbox.spawn(sh(&script)).await?;
    read_at_least(&mut process, 3).await?;
    Ok(process)
}

/// Counts the processes inside whose command line carries the marker.
async fn count(sandbox: &Sandbox, marker: &str) -> Verdict<u32> {
    // `[` keeps the command from finding itself.
    let (first, rest) = marker.split_at(1);
    let script = format!(
        "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '[{first}]{rest}'"
    );
    let output = sandbox.exec(sh(&script)).await?;
    Ok(output.stdout.text_lossy().trim().parse()?)
}

async fn a_signal_without_tree_spares_the_children(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let marker = host::marker("spared")?;
    let mut process = family(&sandbox, &marker).await?;
    let pid = process.pid();
    sandbox.kill(Selector::Pid(pid), 15, false).await?;
    let mut status = None;
    while let Some(event) = process.next().await? {
        if let Event::End(end) = event {
            status = Some(end.status);
        }
    }
    ensure_eq!(status, Some(ExitStatus::Signal(15)), "the command's end");
    ensure_eq!(count(&sandbox, &marker).await?, 2, "children that live on");
    Ok(())
}

async fn killing_the_tree_leaves_no_descendant(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let marker = host::marker("tree")?;
    let mut process = family(&sandbox, &marker).await?;
    process.kill().await?;
    let output = process.wait().await?;
    ensure_eq!(output.status, ExitStatus::Signal(9), "the command's end");
    host::eventually(bench.patience, "no descendant lives", || async {
        let left = count(&sandbox, &marker).await?;
        Ok(if left == 0 {
            Ok(())
        } else {
            Err(format!("{left} do"))
        })
    })
    .await
}

async fn no_signal_is_refused(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let process = sandbox.spawn(ExecRequest::new(["sleep", "1000"])).await?;
    for number in [-1, 65, 1_000_000] {
        refused_with(
            sandbox
                .kill(Selector::Pid(process.pid()), number, false)
                .await,
            ErrorCode::InvalidArgument,
            &format!("signal {number}"),
        )?;
    }
    Ok(())
}
