//! Processes: starting those that are measured, and what the kernel says of them.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// How long a program may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of the fields in `/proc/PID/stat`, which are in hundredths of a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// A process that ends with this.
pub(crate) struct Process {
    child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
    input: Option<ChildStdin>,
}

/// A command line that is run as any program would.
#[expect(
    clippy::disallowed_methods,
    reason = "peers are measured as any program would start them"
)]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// This program in another role.
pub(crate) fn role(role: &str, arguments: &[&str]) -> Result<Process> {
    let mut command = command(std::env::current_exe()?);
    command.arg(format!("role={role}")).args(arguments);
    Process::start(&mut command)
}

impl Process {
    /// Starts one whose input and output are pipes to this.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(match std::env::var_os("NAMZU_BENCH_LOUD") {
                Some(_) => Stdio::inherit(),
                None => Stdio::null(),
            })
            .spawn()
            .map_err(|why| format!("cannot start {command:?}: {why}"))?;
        let output = child.stdout.take().ok_or("no output")?;
        Ok(Self {
            lines: Some(BufReader::new(output).lines()),
            input: child.stdin.take(),
            child,
        })
    }

    /// Waits until somebody listens on `port` of the loopback.
    pub(crate) fn listening(self, port: u16) -> Result<Self> {
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if began.elapsed() > PATIENCE {
                return Err(format!("nobody listens on port {port}").into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(self)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> Result<String> {
        let lines = self.lines.as_mut().ok_or("no output")?;
        Ok(lines.next().ok_or("it has ended")??)
    }

    /// Tells it a line.
    pub(crate) fn tell(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().ok_or("no input")?;
        writeln!(input, "{line}")?;
        Ok(input.flush()?)
    }

    /// Tells it a line, and waits for what it says to that.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String> {
        self.tell(line)?;
        self.line()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ours end in an orderly way when they are told nothing more, and take their sandboxes with them.
        drop(self.input.take());
        for _ in 0..40 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time of a process so far: in itself, and in the kernel for it.
pub(crate) fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ticks = stat.rsplit_once(')').map_or(0, |(_, rest)| {
        // State is the third field of all, user and system time are the 14th and 15th.
        let fields = rest.split_whitespace().skip(11).take(2);
        fields.filter_map(|field| field.parse::<u32>().ok()).sum()
    });
    TICK * ticks
}

/// Resident bytes of a process.
pub(crate) fn rss(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    kib * 1024
}

/// Open descriptors of a process.
pub(crate) fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Processes that a process has started and that live.
pub(crate) fn children(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let lists = tasks.into_iter().flatten().flatten().map(|task| {
        fs::read_to_string(task.path().join("children"))
            .unwrap_or_default()
            .split_whitespace()
            .count()
    });
    lists.sum()
}

/// Bytes as `1.2 MiB`.
pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
