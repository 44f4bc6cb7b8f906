//! Output: binary, apart, capped, counted, and flat in memory however much it is.

use std::sync::Arc;

use namzu_client::{Event, ExecRequest, ExitStatus, OutputCap};

use crate::conformance::bench::{Bench, line, run, sh};
use crate::conformance::case::{Case, always, case};
use crate::conformance::check::{Failure, Verdict, ensure, ensure_eq, shown};
use crate::conformance::exec::pattern;
use crate::conformance::host;

pub(crate) const CASES: &[Case] = &[
    case!("output", bytes_of_every_value_come_back, always),
    case!("output", the_two_streams_are_apart, always),
    case!(
        "output",
        caps_keep_head_and_tail_and_count_everything,
        always
    ),
    case!("output", a_stream_is_whole_and_in_order, always),
    case!("output", a_flood_is_flat_in_memory, always, alone),
    case!(
        "output",
        a_flood_nobody_reads_is_flat_inside,
        |b| b.system(),
        alone
    ),
    case!("output", the_last_bytes_before_the_end_are_not_lost, always),
];

/// How much a flood may grow a process, whatever it prints.
const GROWTH: u64 = 16 << 20;
/// A gigabyte takes minutes in a debug build; what grows with the output shows at a quarter too.
const FLOOD: u64 = 256 << 20;

async fn bytes_of_every_value_come_back(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let bytes: Vec<u8> = (0..=255).collect();
    let mut request = ExecRequest::new(["cat"]);
    request.stdin = Some(bytes.clone());
    let printed = run(&sandbox, request).await?;
    ensure!(printed == bytes, "came back as {}", shown(&printed));
    Ok(())
}

async fn the_two_streams_are_apart(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let output = sandbox.exec(sh("echo out; echo err >&2; exit 3")).await?;
    ensure_eq!(output.stdout.to_vec(), b"out\n".to_vec(), "standard output");
    ensure_eq!(output.stderr.to_vec(), b"err\n".to_vec(), "standard error");
    ensure_eq!(output.status, ExitStatus::Code(3), "its end");
    Ok(())
}

async fn caps_keep_head_and_tail_and_count_everything(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let input = pattern(1 << 20);
    for (head, tail) in [
        (1000, 500),
        (0, 700),
        (700, 0),
        (0, 0),
        (1 << 20, 1),
        (1, 1 << 20),
    ] {
        let mut request = ExecRequest::new(["cat"]);
        request.stdin = Some(input.clone());
        request.output = OutputCap { head, tail };
        let captured = sandbox.exec(request).await?.stdout;
        ensure_eq!(captured.total, 1 << 20, "bytes counted at {head}+{tail}");
        ensure!(
            captured.head == input[..head],
            "at {head}+{tail} the head is {} bytes, or others",
            captured.head.len()
        );
        let last = tail.min(input.len() - head);
        ensure!(
            captured.tail == input[input.len() - last..],
            "at {head}+{tail} the tail is {} bytes, or others",
            captured.tail.len()
        );
        ensure_eq!(
            captured.is_truncated(),
            head + tail < input.len(),
            "truncated at {head}+{tail}"
        );
    }
    Ok(())
}

async fn a_stream_is_whole_and_in_order(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let input = pattern(2_000_003);
    let mut request = ExecRequest::new(["cat"]);
    request.stdin = Some(input.clone());
    let mut process = sandbox.spawn(request).await?;
    process.close_stdin().await?;
    let mut seen = Vec::new();
    let mut ended = None;
    while let Some(event) = process.next().await? {
        match event {
            Event::Stdout(bytes) => seen.extend_from_slice(&bytes),
            Event::End(end) => ended = Some(end.status),
            other => return Err(Failure::new(format!("an event nobody caused: {other:?}"))),
        }
    }
    ensure!(seen == input, "{} bytes came, or others", seen.len());
    ensure_eq!(ended, Some(ExitStatus::Code(0)), "its end");
    ensure_eq!(
        process.cursor().stdout,
        input.len() as u64,
        "the cursor after the end"
    );
    Ok(())
}

async fn a_flood_is_flat_in_memory(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let flood = |bytes: u64| {
        let mut request = sh(&format!("head -c {bytes} /dev/zero"));
        request.output = OutputCap {
            head: 65_536,
            tail: 65_536,
        };
        request
    };
    // The first one warms up buffers that stay.
    sandbox.exec(flood(4 << 20)).await?;
    let before = host::resident()?;
    host::forget_peak()?;
    let output = sandbox.exec(flood(FLOOD)).await?;
    let grown = host::peak()?.saturating_sub(before);
    ensure_eq!(output.status, ExitStatus::Code(0), "the flood's end");
    ensure_eq!(output.stdout.total, FLOOD, "bytes counted");
    ensure!(
        grown <= GROWTH,
        "the host process grew by {grown} bytes over {FLOOD} of output"
    );
    if bench.guest.system {
        let status = line(&sandbox, "cat /proc/$PPID/status").await?;
        if let Some(peak) = host::kib(&status, "VmHWM:") {
            ensure!(peak <= GROWTH, "the worker was at {peak} bytes of memory");
        }
    }
    Ok(())
}

async fn a_flood_nobody_reads_is_flat_inside(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let flood = sh(&format!("head -c {FLOOD} /dev/zero; touch done"));
    let process = sandbox.spawn_background(flood).await?;
    let before = host::resident()?;
    host::forget_peak()?;
    // Nobody calls `next`: pressure has to reach the command, or the bytes be dropped. Ten
    // round trips to the same worker show that it still serves others.
    for _ in 0..10 {
        run(&sandbox, ExecRequest::new(["true"])).await?;
    }
    let status = line(&sandbox, "cat /proc/$PPID/status").await?;
    let grown = host::peak()?.saturating_sub(before);
    ensure!(grown <= GROWTH, "the host process grew by {grown} bytes");
    if let Some(peak) = host::kib(&status, "VmHWM:") {
        ensure!(peak <= GROWTH, "the worker was at {peak} bytes of memory");
    }
    drop(process);
    Ok(())
}

async fn the_last_bytes_before_the_end_are_not_lost(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    for _ in 0..200 {
        let output = sandbox.exec(sh("printf last; exit 9")).await?;
        ensure_eq!(output.stdout.to_vec(), b"last".to_vec(), "its output");
        ensure_eq!(output.status, ExitStatus::Code(9), "its end");
    }
    Ok(())
}
