//! Terminals: one of its own for each command that asks.

use std::sync::Arc;

use namzu_client::{Event, ExecRequest, ExitStatus, Process, PtySize};
use namzu_core::ErrorCode;

use crate::conformance::bench::{Bench, sh};
use crate::conformance::case::{Case, case};
use crate::conformance::check::{Failure, Verdict, ensure, ensure_eq, refused_with, shown};

pub(crate) const CASES: &[Case] = &[
    case!("terminal", a_command_gets_a_terminal_of_its_size, |b| b
        .system()),
    case!("terminal", without_one_there_is_none, |b| b.system()),
    case!("terminal", resize_reaches_the_command, |b| b.system()),
    case!("terminal", control_c_interrupts_the_foreground, |b| b
        .system()),
    case!("terminal", end_of_file_is_a_control_character, |b| b
        .system()),
];

fn on_terminal(script: &str) -> ExecRequest {
    let mut request = sh(script);
    request.pty = Some(PtySize {
        cols: 132,
        rows: 43,
    });
    request
}

/// Reads the terminal until `word` came.
async fn until(process: &mut Process, word: &str) -> Verdict<String> {
    let mut seen = Vec::new();
    loop {
        match process.next().await? {
            Some(Event::Pty(bytes)) => seen.extend_from_slice(&bytes),
            other => {
                return Err(Failure::new(format!(
                    "waiting for {word:?} after {} came {other:?}",
                    shown(&seen)
                )));
            }
        }
        let text = String::from_utf8_lossy(&seen);
        if text.contains(word) {
            return Ok(text.into_owned());
        }
    }
}

async fn a_command_gets_a_terminal_of_its_size(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let output = sandbox
        .exec(on_terminal(
            "test -t 0 && test -t 1 && test -t 2 && stty size && exit 5",
        ))
        .await?;
    ensure_eq!(
        output.stdout.text_lossy().trim_end(),
        "43 132",
        "the size a command sees"
    );
    ensure_eq!(output.status, ExitStatus::Code(5), "its end");
    // A controlling terminal, or job control and `/dev/tty` do not work.
    let output = sandbox.exec(on_terminal("echo seen > /dev/tty")).await?;
    ensure_eq!(
        output.stdout.text_lossy().trim_end(),
        "seen",
        "what goes to /dev/tty"
    );
    Ok(())
}

async fn without_one_there_is_none(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let output = sandbox
        .exec(sh(
            "test -t 0 || test -t 1 || test -t 2 || (: > /dev/tty) 2>/dev/null",
        ))
        .await?;
    ensure!(
        !output.status.success(),
        "a command without a terminal has one"
    );
    let mut process = sandbox.spawn(ExecRequest::new(["sleep", "1000"])).await?;
    let size = PtySize { cols: 1, rows: 1 };
    refused_with(
        process.resize(size).await,
        ErrorCode::InvalidArgument,
        "a size for no terminal",
    )?;
    Ok(())
}

async fn resize_reaches_the_command(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut process = sandbox
        .spawn(on_terminal(
            "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 1; done",
        ))
        .await?;
    until(&mut process, "ready").await?;
    process.resize(PtySize { cols: 80, rows: 24 }).await?;
    until(&mut process, "24 80").await?;
    Ok(())
}

async fn control_c_interrupts_the_foreground(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut process = sandbox
        .spawn(on_terminal(
            "trap 'echo caught; exit 42' INT; echo ready; while :; do sleep 1; done",
        ))
        .await?;
    until(&mut process, "ready").await?;
    process.write(b"\x03").await?;
    until(&mut process, "caught").await?;
    let output = process.wait().await?;
    ensure_eq!(output.status, ExitStatus::Code(42), "its end");
    Ok(())
}

async fn end_of_file_is_a_control_character(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut process = sandbox
        .spawn(on_terminal("stty -echo; echo ready; cat; echo over"))
        .await?;
    until(&mut process, "ready").await?;
    refused_with(
        process.close_stdin().await,
        ErrorCode::InvalidArgument,
        "closing a terminal's input",
    )?;
    process.write(b"typed\n").await?;
    until(&mut process, "typed").await?;
    process.write(b"\x04").await?;
    until(&mut process, "over").await?;
    Ok(())
}
