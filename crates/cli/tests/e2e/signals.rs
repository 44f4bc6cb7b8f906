//! Whoever asks the binary to stop gets a clean host.

use std::os::unix::process::CommandExt;
use std::process::Stdio;

use rustix::process::Signal;

use crate::Case;
use crate::cases::mark;
use crate::cli::{Cli, Running, nothing_left};

pub(crate) const CASES: &[Case] = &[
    ("each_signal_kills_the_tree_and_adds_128", each),
    ("ctrl_c_at_the_terminal_is_one_signal_to_all", group),
    ("a_second_signal_changes_nothing", twice),
    (
        "a_command_that_ignores_signals_is_killed_all_the_same",
        deaf,
    ),
    (
        "a_signal_gets_through_while_nobody_reads_the_output",
        stalled,
    ),
    ("sigkill_leaves_nothing", sigkill),
];

/// Starts a tree of four, in a process group of its own, that says when it runs.
fn tree(cli: &Cli, mark: &str, before: &str) -> Running {
    let script =
        format!("{before} (sleep {mark} & sleep {mark}) & sleep {mark} & echo ready; wait");
    let mut command = cli.command(&["run", "--", "sh", "-c", &script]);
    let mut running = Running::start(command.stdin(Stdio::null()).process_group(0));
    running.wait_for("ready");
    running
}

fn each(cli: &Cli) {
    for (signal, code) in [
        (Signal::INT, 130),
        (Signal::TERM, 143),
        (Signal::HUP, 129),
        (Signal::QUIT, 131),
    ] {
        let mark = mark("6201");
        let mut running = tree(cli, &mark, "");
        running.signal(signal);
        let out = running.finish().ends(code);
        assert_eq!(out.stderr, "");
        nothing_left(&mark);
    }
}

fn group(cli: &Cli) {
    for signal in [Signal::INT, Signal::QUIT] {
        let mark = mark("6205");
        let mut running = tree(cli, &mark, "");
        running.signal_group(signal);
        let code = if signal == Signal::INT { 130 } else { 131 };
        assert_eq!(running.finish().ends(code).stderr, "");
        nothing_left(&mark);
    }
}

fn twice(cli: &Cli) {
    let mark = mark("6202");
    let mut running = tree(cli, &mark, "");
    for _ in 0..20 {
        running.signal(Signal::INT);
    }
    running.finish().ends(130);
    nothing_left(&mark);
}

fn deaf(cli: &Cli) {
    let mark = mark("6203");
    let mut running = tree(cli, &mark, "trap '' INT TERM HUP QUIT;");
    running.signal(Signal::TERM);
    running.finish().ends(143);
    nothing_left(&mark);
}

fn stalled(cli: &Cli) {
    let mut command = cli.command(&["run", "--", "sh", "-c", "echo ready; exec yes"]);
    let mut running = Running::start(command.stdin(Stdio::null()));
    running.wait_for("ready");
    // Nobody reads from here on, and the pipe is full soon or already.
    running.signal(Signal::INT);
    let status = running.wait();
    assert_eq!(status.code(), Some(130));
}

fn sigkill(cli: &Cli) {
    let mark = mark("6204");
    let mut running = tree(cli, &mark, "");
    running.signal(Signal::KILL);
    running.wait();
    nothing_left(&mark);
}
