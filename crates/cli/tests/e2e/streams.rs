//! The command's standard streams arrive as they are.

use std::io::Read;
use std::process::Stdio;

use crate::Case;
use crate::cli::{Cli, Running};

pub(crate) const CASES: &[Case] = &[
    ("output_is_byte_exact_and_apart", byte_exact),
    ("much_output_is_whole", much),
    ("input_is_forwarded_to_its_end", input),
    ("input_and_output_flow_at_once", both),
    ("no_input_is_the_end_of_input", no_input),
    ("a_command_may_ignore_its_input", ignored_input),
    ("a_reader_that_leaves_ends_the_command", broken_pipe),
    ("a_reader_that_leaves_ends_one_that_ignores_it", stubborn),
    ("a_full_disk_is_no_exit_code_of_the_command", full),
];

fn byte_exact(cli: &Cli) {
    let out = cli
        .sh(r"printf '\377\000\033[31m\r\n'; printf 'e\377' >&2")
        .ends(0);
    assert_eq!(out.stdout, b"\xff\x00\x1b[31m\r\n");
    assert_eq!(out.stderr, "e\u{fffd}");
}

fn much(cli: &Cli) {
    let out = cli.sh("head -c 50000000 /dev/zero; echo end").ends(0);
    assert_eq!(out.stdout.len(), 50_000_004);
    assert!(out.stdout.ends_with(b"\0end\n"));
}

fn input(cli: &Cli) {
    let out = cli
        .feed(
            &["run", "--", "sh", "-c", "wc -c; echo done"],
            &[b'x'; 300_000],
        )
        .ends(0);
    assert_eq!(
        out.text().split_whitespace().collect::<Vec<_>>(),
        ["300000", "done"]
    );
}

fn both(cli: &Cli) {
    // Larger than every pipe on the way: either side stalls unless both are served.
    let data: Vec<u8> = (0..8_000_000_u32).map(|n| (n % 251) as u8).collect();
    let out = cli.feed(&["run", "--", "cat"], &data).ends(0);
    assert!(out.stdout == data);
}

fn no_input(cli: &Cli) {
    let mut command = cli.command(&["run", "--", "cat"]);
    let mut running = Running::start(command.stdin(Stdio::null()));
    assert!(running.finish().ends(0).stdout.is_empty());
}

fn ignored_input(cli: &Cli) {
    // The pipe stays open: the end must not wait for it.
    let mut command = cli.command(&["run", "--", "true"]);
    let mut running = Running::start(command.stdin(Stdio::piped()));
    let status = running.wait();
    assert_eq!(status.code(), Some(0));
}

fn leaves(cli: &Cli, script: &str) {
    let mut command = cli.command(&["run", "--", "sh", "-c", script]);
    let mut running = Running::start(command.stdin(Stdio::null()));
    let mut out = running.child.stdout.take().unwrap();
    out.read_exact(&mut [0; 2]).unwrap();
    drop(out);
    let out = running.finish().ends(141);
    assert_eq!(out.stderr, "");
}

fn broken_pipe(cli: &Cli) {
    leaves(cli, "exec yes");
}

fn stubborn(cli: &Cli) {
    leaves(cli, "trap '' PIPE; while :; do echo y; done 2>/dev/null");
}

fn full(cli: &Cli) {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = cli.command(&["run", "--", "echo", "data"]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(200), "{stderr}");
}
