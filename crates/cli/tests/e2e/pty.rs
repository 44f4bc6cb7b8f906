//! A terminal inside, and the host's own given back as it was.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::Case;
use crate::cli::{Cli, Running, read_until};

pub(crate) const CASES: &[Case] = &[
    ("a_terminal_inside_has_the_hosts_size", size),
    ("a_resize_goes_inside", resize),
    ("ctrl_c_goes_inside", ctrl_c),
    ("the_terminal_is_given_back_after_the_end", restored),
    (
        "the_terminal_is_given_back_after_a_signal",
        restored_after_signal,
    ),
    ("a_shell_runs_what_is_typed", shell),
    ("a_pipe_can_feed_a_terminal_inside", piped),
];

/// A terminal of the host's with the binary on it.
struct Host {
    master: File,
    slave: OwnedFd,
    running: Running,
}

impl Host {
    fn start(cli: &Cli, args: &[&str]) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
        set_size(&master, 91, 33);
        let stream = || Stdio::from(slave.try_clone().unwrap());
        let mut command = cli.command(args);
        command.stdin(stream()).stdout(stream()).stderr(stream());
        let running = Running {
            child: command.spawn().unwrap(),
        };
        Self {
            master: master.into(),
            slave,
            running,
        }
    }

    fn expect(&mut self, mark: &str) -> String {
        read_until(&mut self.master, mark)
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }
}

fn set_size(master: impl AsFd, cols: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(master, size).unwrap();
}

fn size(cli: &Cli) {
    let mut host = Host::start(cli, &["run", "-t", "--", "sh", "-c", "stty size; tty"]);
    host.expect("33 91\r\n");
    host.expect("/dev/pts/");
    assert_eq!(host.running.wait().code(), Some(0));
}

fn resize(cli: &Cli) {
    let script = "trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut host = Host::start(cli, &["run", "-t", "--", "sh", "-c", script]);
    host.expect("ready\r\n");
    set_size(&host.master, 120, 50);
    // The binary has no controlling terminal here, so the kernel does not tell it.
    host.running.signal(Signal::WINCH);
    host.expect("50 120\r\n");
    assert_eq!(host.running.wait().code(), Some(4));
}

fn ctrl_c(cli: &Cli) {
    let script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done";
    let mut host = Host::start(cli, &["run", "-t", "--", "sh", "-c", script]);
    host.expect("ready\r\n");
    assert!(host.is_raw());
    host.master.write_all(b"\x03").unwrap();
    host.expect("caught\r\n");
    assert_eq!(host.running.wait().code(), Some(5));
}

fn restored(cli: &Cli) {
    let mut host = Host::start(cli, &["run", "-t", "--", "echo", "ready"]);
    host.expect("ready\r\n");
    assert_eq!(host.running.wait().code(), Some(0));
    assert!(!host.is_raw());
}

fn restored_after_signal(cli: &Cli) {
    let mut host = Host::start(
        cli,
        &["run", "-t", "--", "sh", "-c", "echo ready; sleep 1000"],
    );
    host.expect("ready\r\n");
    assert!(host.is_raw());
    host.running.signal(Signal::TERM);
    assert_eq!(host.running.wait().signal(), Some(Signal::TERM.as_raw()));
    assert!(!host.is_raw());
}

fn shell(cli: &Cli) {
    let mut host = Host::start(cli, &["shell", "-e", "WHO=me"]);
    // The echo of the keys has the quotes; only the shell can take them out.
    host.master.write_all(b"echo he'll'o $WHO\n").unwrap();
    host.expect("hello me");
    host.master.write_all(b"exit 6\n").unwrap();
    assert_eq!(host.running.wait().code(), Some(6));
    assert!(!host.is_raw());
}

fn piped(cli: &Cli) {
    let out = cli
        .feed(
            &["run", "-t", "--", "sh", "-c", "read x; echo got $x"],
            b"word\n",
        )
        .ends(0);
    assert!(out.text().contains("got word"), "{}", out.text());
    // The end of the pipe is the end of the terminal's input.
    cli.feed(&["run", "-t", "--", "cat"], b"").ends(0);
}
