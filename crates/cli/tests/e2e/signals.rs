//! Whoever asks the binary to stop gets a clean host.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;

use rustix::process::Signal;

use crate::Case;
use crate::cases::mark;
use crate::cli::{Cli, Output, Running, nothing_left};

pub(crate) const CASES: &[Case] = &[
    ("each_signal_kills_the_tree_and_then_the_binary", each),
    ("a_shells_loop_ends_with_the_binary", shell_loop),
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
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let mark = mark("6201");
        let mut running = tree(cli, &mark, "");
        running.signal(signal);
        let out = stopped(&mut running, signal);
        assert_eq!(out.stderr, "");
        nothing_left(&mark);
    }
}

/// Its end by the signal, or for SIGQUIT, which would leave a core, with the code of that.
#[track_caller]
fn stopped(running: &mut Running, signal: Signal) -> Output {
    let out = running.finish();
    if signal == Signal::QUIT {
        out.ends(131)
    } else {
        out.ends_by(signal)
    }
}

fn shell_loop(cli: &Cli) {
    let inner = cli.command(&["run", "--", "sh", "-c", "echo ready; sleep 6206"]);
    #[expect(
        clippy::disallowed_methods,
        reason = "the shell that a user's loop runs in"
    )]
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", "for i in 1 2; do \"$@\"; done; echo went on", "bash"])
        .arg(inner.get_program())
        .args(inner.get_args());
    let mut running = Running::start(command.stdin(Stdio::null()).process_group(0));
    running.wait_for("ready");
    running.signal_group(Signal::INT);
    let out = running.finish().ends_by(Signal::INT);
    assert_eq!(out.stdout, b"\n");
}

fn group(cli: &Cli) {
    for signal in [Signal::INT, Signal::QUIT] {
        let mark = mark("6205");
        let mut running = tree(cli, &mark, "");
        running.signal_group(signal);
        assert_eq!(stopped(&mut running, signal).stderr, "");
        nothing_left(&mark);
    }
}

fn twice(cli: &Cli) {
    let mark = mark("6202");
    let mut running = tree(cli, &mark, "");
    for _ in 0..20 {
        running.signal(Signal::INT);
    }
    running.finish().ends_by(Signal::INT);
    nothing_left(&mark);
}

fn deaf(cli: &Cli) {
    let mark = mark("6203");
    let mut running = tree(cli, &mark, "trap '' INT TERM HUP QUIT;");
    running.signal(Signal::TERM);
    running.finish().ends_by(Signal::TERM);
    nothing_left(&mark);
}

fn stalled(cli: &Cli) {
    let mut command = cli.command(&["run", "--", "sh", "-c", "echo ready; exec yes"]);
    let mut running = Running::start(command.stdin(Stdio::null()));
    running.wait_for("ready");
    // Nobody reads from here on, and the pipe is full soon or already.
    running.signal(Signal::INT);
    let status = running.wait();
    assert_eq!(status.signal(), Some(Signal::INT.as_raw()));
}

fn sigkill(cli: &Cli) {
    let mark = mark("6204");
    let mut running = tree(cli, &mark, "");
    running.signal(Signal::KILL);
    running.wait();
    nothing_left(&mark);
}
