//! Sandboxes that outlive the binary.

use std::process::Stdio;

use rustix::process::Signal;

use crate::Case;
use crate::cases::mark;
use crate::cli::{Cli, Running, marked, nothing_left};

pub(crate) const CASES: &[Case] = &[
    ("a_detached_sandbox_is_listed_used_and_removed", lifecycle),
    ("a_detached_command_goes_on", background),
    (
        "a_detached_command_that_does_not_start_leaves_nothing",
        not_started,
    ),
    ("a_taken_name_is_refused", taken),
    (
        "exec_dies_with_its_caller_and_the_sandbox_lives",
        exec_interrupted,
    ),
    ("what_is_not_there_is_205", not_there),
];

/// A detached sandbox, removed at the end of the case.
pub(crate) struct Detached<'a> {
    cli: &'a Cli,
    pub(crate) id: String,
}

impl<'a> Detached<'a> {
    pub(crate) fn new(cli: &'a Cli, argv: &[&str]) -> Self {
        let rest = if argv.is_empty() {
            vec![]
        } else {
            [&["--"], argv].concat()
        };
        let out = cli.run(&[&["run", "-d"][..], &rest].concat()).ends(0);
        Self {
            cli,
            id: out.text().trim().to_owned(),
        }
    }

    pub(crate) fn sh(&self, script: &str) -> crate::cli::Output {
        self.cli.run(&["exec", &self.id, "--", "sh", "-c", script])
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}:{path}", self.id)
    }
}

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        self.cli.run(&["rm", &self.id]);
    }
}

fn listed(cli: &Cli, id: &str) -> bool {
    let out = cli.run(&["ls", "--json"]).ends(0);
    let found: serde_json::Value = serde_json::from_str(out.text()).unwrap();
    found
        .as_array()
        .unwrap()
        .iter()
        .any(|info| info["id"] == id)
}

fn lifecycle(cli: &Cli) {
    let name = format!("e2e-{}-{}", cli.backend, std::process::id());
    let out = cli
        .run(&["run", "-d", "--name", &name, "--label", "a=b"])
        .ends(0);
    assert_eq!(out.text(), format!("{name}\n"));
    assert!(listed(cli, &name));
    cli.run(&["exec", &name, "--", "sh", "-c", "echo kept > f"])
        .ends(0);
    let out = cli.run(&[
        "exec",
        &name,
        "-e",
        "A=1",
        "--",
        "sh",
        "-c",
        "cat f; echo $A; exit 9",
    ]);
    assert_eq!(out.ends(9).text(), "kept\n1\n");
    cli.run(&["rm", &name]).ends(0);
    assert!(!listed(cli, &name));
    cli.run(&["exec", &name, "--", "true"]).ends(205);
}

fn background(cli: &Cli) {
    let mark = mark("6301");
    let sandbox = Detached::new(cli, &["sleep", &mark]);
    // The kernel shows a program's arguments a moment after it runs.
    let pattern = mark.replace('.', "[.]");
    let script = format!("until grep -qas '{pattern}' /proc/[0-9]*/cmdline; do :; done");
    sandbox.sh(&script).ends(0);
    assert_eq!(marked(&mark).len(), 1);
    drop(sandbox);
    nothing_left(&mark);
}

fn not_started(cli: &Cli) {
    let name = format!("e2e-none-{}-{}", cli.backend, std::process::id());
    cli.run(&["run", "-d", "--name", &name, "--", "no-such-program"])
        .ends(209);
    assert!(!listed(cli, &name));
}

fn taken(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    cli.run(&["run", "-d", "--name", &sandbox.id]).ends(206);
    sandbox.sh("true").ends(0);
}

fn exec_interrupted(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    let mark = mark("6302");
    let script = format!("sleep {mark} & echo ready; sleep {mark}");
    let mut command = cli.command(&["exec", &sandbox.id, "--", "sh", "-c", &script]);
    let mut running = Running::start(command.stdin(Stdio::null()));
    running.wait_for("ready");
    running.signal(Signal::INT);
    running.finish().ends_by(Signal::INT);
    nothing_left(&mark);
    sandbox.sh("true").ends(0);
}

fn not_there(cli: &Cli) {
    for args in [
        &["exec", "no-such", "--", "true"][..],
        &["shell", "no-such"],
        &["rm", "no-such"],
        &["ls", "no-such:/"],
        &["cp", "no-such:/f", "f"],
    ] {
        let out = cli.run(args).ends(205);
        assert!(out.stderr.contains("no-such"), "{}", out.stderr);
    }
}
