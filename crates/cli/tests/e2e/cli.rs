//! Starts the binary and looks at what it did.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

/// How long anything may take before it counts as hung.
const HUNG: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// The binary, told which backend to use.
pub(crate) struct Cli {
    pub(crate) backend: &'static str,
    /// A directory of this case's own.
    pub(crate) dir: tempfile::TempDir,
}

/// What a run of the binary gave.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Output {
    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("standard output is text")
    }

    /// Holds it to an exit code, showing everything otherwise.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            code,
            "stdout: {}\nstderr: {}",
            String::from_utf8_lossy(&self.stdout),
            self.stderr
        );
        self
    }

    /// Holds it to have been ended by a signal itself, as a shell must see it.
    #[track_caller]
    pub(crate) fn ends_by(self, signal: Signal) -> Self {
        self.ends(-signal.as_raw())
    }

    /// The JSON on the last line of standard error.
    #[track_caller]
    pub(crate) fn report(&self) -> serde_json::Value {
        let last = self.stderr.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|err| panic!("{err}: {}", self.stderr))
    }
}

impl Cli {
    pub(crate) fn new(backend: &'static str) -> Self {
        Self {
            backend,
            dir: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The command line, in this case's directory, with a variable that must not leak.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        #[expect(
            clippy::disallowed_methods,
            reason = "the program under test, as a user starts it"
        )]
        let mut command = Command::new(env!("CARGO_BIN_EXE_namzu-sandbox"));
        command
            .args(&args[..1])
            .current_dir(self.dir.path())
            .env("HOST_SECRET", "do-not-leak");
        if !self.backend.is_empty() {
            command.args(["--backend", self.backend]);
        }
        command.args(&args[1..]);
        command
    }

    /// Runs it to its end, with nothing on standard input.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.feed(args, b"")
    }

    /// Runs a shell script inside.
    pub(crate) fn sh(&self, script: &str) -> Output {
        self.run(&["run", "--", "sh", "-c", script])
    }

    /// Runs it to its end with `input`.
    pub(crate) fn feed(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut running = Running::start(&mut command);
        let stdin = running.child.stdin.take();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A command may end without having read everything.
                let _ = stdin.expect("a pipe").write_all(input);
            });
            running.finish()
        })
    }
}

/// The binary while it runs; killed when the case fails.
pub(crate) struct Running {
    pub(crate) child: Child,
}

impl Running {
    /// Starts `command` with its output piped.
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self {
            child: command.spawn().expect("the binary starts"),
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the binary runs");
    }

    /// Sends a signal to its whole process group, as a terminal's keys do. It must be the leader.
    pub(crate) fn signal_group(&self, signal: Signal) {
        kill_process_group(self.pid(), signal).expect("the binary leads a group");
    }

    /// Reads its standard output up to and including `mark`.
    pub(crate) fn wait_for(&mut self, mark: &str) -> String {
        read_until(self.child.stdout.as_mut().expect("a pipe"), mark)
    }

    /// Waits for its end and takes the rest of its output.
    pub(crate) fn finish(&mut self) -> Output {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        std::thread::scope(|scope| {
            scope.spawn(|| out.map(|mut out| out.read_to_end(&mut stdout)));
            scope.spawn(|| err.map(|mut err| err.read_to_end(&mut stderr)));
            self.wait()
        });
        let status = self.wait();
        Output {
            code: code(status),
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// Waits for its end; one that hangs is killed and fails the case.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        if let Ok(Some(status)) = self.child.try_wait() {
            return status;
        }
        if !gone(self.pid()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            panic!("the binary hangs");
        }
        self.child.wait().expect("the binary was started here")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    // A signal that ended the binary itself is no exit code.
    status
        .code()
        .unwrap_or_else(|| -status.signal().unwrap_or(0))
}

/// Reads up to and including `mark`; a stream that stays silent fails the case.
pub(crate) fn read_until(from: &mut (impl Read + AsFd), mark: &str) -> String {
    let mut seen = String::new();
    let mut byte = [0];
    while !seen.contains(mark) {
        let ready = poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&HUNG));
        assert!(
            ready.is_ok_and(|ready| ready == 1),
            "`{mark}` never came: {seen}"
        );
        match from.read(&mut byte) {
            Ok(1) => seen.push(char::from(byte[0])),
            _ => panic!("`{mark}` never came: {seen}"),
        }
    }
    seen
}

/// Waits for the end of a process; `false` when it does not come.
pub(crate) fn gone(pid: Pid) -> bool {
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    poll(&mut fds, Some(&HUNG)).is_ok_and(|ready| ready == 1)
}

/// The processes of this host with `mark` among their arguments, the binary's own left out.
pub(crate) fn marked(mark: &str) -> Vec<Pid> {
    let binary = Path::new(env!("CARGO_BIN_EXE_namzu-sandbox"));
    let entries = std::fs::read_dir("/proc").expect("/proc");
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            exe != binary
                && text
                    .split(|byte| *byte == 0)
                    .any(|arg| arg == mark.as_bytes())
        })
        .filter_map(Pid::from_raw)
        .collect()
}

/// Holds that nothing with `mark` among its arguments outlives the binary.
#[track_caller]
pub(crate) fn nothing_left(mark: &str) {
    for pid in marked(mark) {
        assert!(gone(pid), "process {pid:?} is left");
    }
    assert_eq!(marked(mark), [], "processes are left");
}
