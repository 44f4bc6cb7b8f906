//! A host path whose directory is exchanged for a link while it is used.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags};

use crate::Case;
use crate::cli::{Cli, Running};
use crate::detached::Detached;

pub(crate) const CASES: &[Case] = &[
    ("a_copy_out_never_lands_behind_an_exchanged_link", copy_out),
    ("a_copy_in_never_reads_behind_an_exchanged_link", copy_in),
    ("a_report_never_lands_behind_an_exchanged_link", report),
    (
        "a_copy_that_is_stopped_leaves_nothing_under_any_name",
        stopped,
    ),
];

/// Attempts of each case. Of those, a check before an open loses some to the exchange.
const ATTEMPTS: usize = 25;

/// Makes `ws/real` with `file`, and a link `ws/out` to `secret`; calls `attempt` again and again
/// while the two are exchanged.
fn exchanging(cli: &Cli, mut attempt: impl FnMut() -> i32) -> Vec<i32> {
    fs::create_dir_all(cli.path("ws/real")).unwrap();
    fs::write(cli.path("ws/real/file"), "fine").unwrap();
    fs::create_dir(cli.path("secret")).unwrap();
    fs::write(cli.path("secret/file"), "TOP-SECRET").unwrap();
    symlink("../secret", cli.path("ws/out")).unwrap();
    let (real, out) = (cli.path("ws/real"), cli.path("ws/out"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&real, &out, &done));
        let _end = End(&done);
        (0..ATTEMPTS).map(|_| attempt()).collect()
    })
}

fn exchange(real: &Path, out: &Path, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        rustix::fs::renameat_with(CWD, real, CWD, out, RenameFlags::EXCHANGE).unwrap();
    }
}

/// Ends the exchange when the case fails, too.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Copied, refused as a link, or (when exchanged back while it was looked at) as no directory.
#[track_caller]
fn are_clear(codes: &[i32]) {
    let clear = |code| [0, 201, 207].contains(code);
    assert!(codes.iter().all(clear), "{codes:?}");
}

#[track_caller]
fn is_unharmed(cli: &Cli) {
    assert_eq!(fs::read_dir(cli.path("secret")).unwrap().count(), 1);
    let text = fs::read_to_string(cli.path("secret/file")).unwrap();
    assert_eq!(text, "TOP-SECRET");
}

fn copy_out(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    sandbox
        .sh("echo evil > f; mkdir d; echo evil > d/file")
        .ends(0);
    let mut turn = 0;
    let codes = exchanging(cli, || {
        turn += 1;
        let (from, to) = match turn % 4 {
            0 => ("f", "ws/real/file"),
            1 => ("f", "ws/real/new"),
            2 => ("d/.", "ws/real"),
            _ => ("d", "ws/real/"),
        };
        cli.run(&["cp", &sandbox.at(from), to]).code
    });
    are_clear(&codes);
    is_unharmed(cli);
}

fn copy_in(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    let mut turn = 0;
    let codes = exchanging(cli, || {
        turn += 1;
        let (from, to) = match turn % 2 {
            0 => ("ws/real/file", format!("got{turn}")),
            _ => ("ws/real", format!("tree{turn}")),
        };
        cli.run(&["cp", from, &sandbox.at(&to)]).code
    });
    are_clear(&codes);
    let found = sandbox.sh("grep -r TOP-SECRET .").ends(1);
    assert!(found.stdout.is_empty());
}

fn report(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    let mut turn = 0;
    let codes = exchanging(cli, || {
        turn += 1;
        let to = if turn % 2 == 0 {
            "ws/real/file"
        } else {
            "ws/real/new"
        };
        let args = ["exec", &sandbox.id, "--report", to, "--", "true"];
        cli.run(&args).code
    });
    are_clear(&codes);
    is_unharmed(cli);
}

fn stopped(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    // More than can be carried before it is stopped.
    sandbox.sh("mkdir d; truncate -s 1T d/f").ends(0);
    fs::create_dir(cli.path("to")).unwrap();
    let names = |dir: &str| fs::read_dir(cli.path(dir)).unwrap().count();
    for (from, dir) in [("d/f", "to"), ("d/.", "to")] {
        let from = sandbox.at(from);
        let mut copy = Running::start(&mut cli.command(&["cp", "--max-size", "2t", &from, dir]));
        while names(dir) == 0 {
            assert!(copy.child.try_wait().unwrap().is_none(), "it ended early");
            std::thread::yield_now();
        }
        copy.signal(rustix::process::Signal::INT);
        copy.finish().ends_by(rustix::process::Signal::INT);
        assert_eq!(names(dir), 0, "{from}");
    }
}
