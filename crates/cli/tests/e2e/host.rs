//! A host that is not as one would wish.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use crate::Case;
use crate::cli::{Cli, Running};

pub(crate) const CASES: &[Case] = &[
    ("endless_input_holds_up_no_end", endless_input),
    ("a_huge_file_may_be_read_in_part", huge_file),
    ("no_streams_at_all_are_no_streams", closed),
    ("no_environment_is_needed", bare),
    ("no_current_directory_is_needed", no_directory),
    ("bytes_that_are_no_text_pass_as_arguments", bytes),
    ("one_line_may_be_enough", first_line),
];

fn endless_input(cli: &Cli) {
    let zero = || File::open("/dev/zero").unwrap();
    let mut command = cli.command(&["run", "--", "true"]);
    Running::start(command.stdin(zero())).finish().ends(0);
    let mut command = cli.command(&["run", "--", "head", "-c", "5"]);
    let out = Running::start(command.stdin(zero())).finish().ends(0);
    assert_eq!(out.stdout, [0; 5]);
}

fn huge_file(cli: &Cli) {
    let file = File::create_new(cli.path("huge")).unwrap();
    file.set_len(1 << 40).unwrap();
    let mut command = cli.command(&["run", "--", "head", "-c", "5"]);
    command.stdin(File::open(cli.path("huge")).unwrap());
    assert_eq!(Running::start(&mut command).finish().ends(0).stdout, [0; 5]);
}

fn closed(cli: &Cli) {
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let script = format!("exec \"$@\" {closed}");
        let mut command = cli.command(&["run", "--", "sh", "-c", "cat; echo out; exit 3"]);
        let (program, args) = (command.get_program(), command.get_args());
        #[expect(
            clippy::disallowed_methods,
            reason = "the program under test, as a user starts it"
        )]
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script, "sh"]).arg(program).args(args);
        shell.current_dir(cli.dir.path()).stdin(Stdio::null());
        drop(std::mem::replace(&mut command, shell));
        let out = Running::start(&mut command).finish().ends(3);
        assert_eq!(
            out.stdout.is_empty(),
            closed.contains('>') && !closed.starts_with('2')
        );
        assert_eq!(out.stderr, "", "{closed}");
    }
}

fn bare(cli: &Cli) {
    let mut command = cli.command(&["run", "--", "echo", "out"]);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap());
    command.env(OsStr::from_bytes(b"N\xffME"), OsStr::from_bytes(b"\xff"));
    let mut running = Running::start(command.stdin(Stdio::null()));
    assert_eq!(running.finish().ends(0).text(), "out\n");
}

fn no_directory(cli: &Cli) {
    std::fs::create_dir(cli.path("work")).unwrap();
    let absolute = format!("-w {}", cli.path("work").display());
    for (flags, code) in [("", 0), (&*absolute, 0), ("-w .", 205)] {
        let script = format!(
            "mkdir gone && cd gone && rmdir ../gone && verb=$1 && program=$0 && shift && exec \"$program\" \"$verb\" {flags} \"$@\""
        );
        let command = cli.command(&["run", "--", "true"]);
        #[expect(
            clippy::disallowed_methods,
            reason = "the program under test, as a user starts it"
        )]
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &script])
            .arg(command.get_program())
            .args(command.get_args());
        shell.current_dir(cli.dir.path()).stdin(Stdio::null());
        Running::start(&mut shell).finish().ends(code);
    }
}

fn bytes(cli: &Cli) {
    let raw = OsStr::from_bytes(b"a\xff\xfeb");
    let mut command = cli.command(&["run", "--", "printf", "%s"]);
    let out = Running::start(command.arg(raw).stdin(Stdio::null()))
        .finish()
        .ends(0);
    assert_eq!(out.stdout, raw.as_bytes());
    for flag in ["-e", "--label", "--cwd"] {
        let mut command = cli.command(&["run", flag]);
        command.arg(raw).args(["--", "true"]).stdin(Stdio::null());
        Running::start(&mut command).finish().ends(2);
    }
}

fn first_line(cli: &Cli) {
    let mut command = cli.command(&["run", "--", "seq", "1000000000"]);
    let mut running = Running::start(command.stdin(File::open("/dev/zero").unwrap()));
    let mut out = running.child.stdout.take().unwrap();
    let mut line = [0; 2];
    out.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"1\n");
    drop(out);
    running.finish().ends(141);
}
