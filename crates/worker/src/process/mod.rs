//! Commands: starting, watching, feeding and killing them.
//!
//! A command is one leader in a session of its own, with whatever it starts. Its output goes into
//! a [`log`](log::Log) that any number of [subscriptions](Subscription) read by position. The first
//! one, which the start returns, loses nothing: when it falls behind, the command's pipe is left
//! full, as a plain pipe would be. All others skip ahead and are told by how much. Without a first
//! subscription output falls into the log, which keeps its last `retain_bytes`.
//!
//! The end is told exactly once a subscription, after the leader's exit and the end of its pipes.
//! A background process may hold a pipe for ever; so what was in the pipe at the exit is read,
//! and half a second later the end is told anyway. The pipe is emptied from then on, unheard: the
//! background process is not killed for writing.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

mod capped;
mod command;
mod environment;
mod log;
mod oom;
mod pump;
pub(crate) mod service;
mod signal;
mod spawn;
mod start;
mod subscription;
mod table;
mod tree;

pub(crate) use command::{InputError, LARGE_CHUNK, Process};
pub(crate) use log::{Chunk, PerStream, Stream};
pub(crate) use spawn::reset_dispositions;
pub(crate) use subscription::{Event, Subscription};
pub(crate) use table::{Selector, Table};

/// Bytes kept for re-attachment when nothing else is asked for.
pub(crate) const RETAIN: usize = 1 << 20;

/// What to start. [`StartSpec::new`] is an envd command with nothing special about it.
#[derive(Debug)]
pub(crate) struct StartSpec {
    /// Never empty; `argv[0]` is looked up in the command's `PATH` unless it holds a slash.
    pub(crate) argv: Vec<CString>,
    /// What the environment starts from, below `envs`.
    pub(crate) base: EnvBase,
    /// Variables of the request; the last of a name wins.
    pub(crate) envs: Vec<(String, String)>,
    /// Absolute or relative to the worker's default, which `None` is.
    pub(crate) cwd: Option<PathBuf>,
    /// Whether standard input is a pipe (else `/dev/null`).
    pub(crate) stdin: bool,
    /// A terminal instead of pipes.
    pub(crate) pty: Option<Size>,
    /// The caller's own name for it.
    pub(crate) tag: Option<String>,
    /// After this long the tree is killed and [`Exit::timed_out`] is set.
    pub(crate) timeout: Option<Duration>,
    /// Between SIGTERM and SIGKILL at `timeout`; zero kills at once.
    pub(crate) term_grace: Duration,
    /// envd's deadline: the tree is killed, and the first subscription ends with
    /// [`Event::Expired`] instead of an end.
    pub(crate) deadline: Option<Duration>,
    /// Kill the tree when the first subscription is dropped before the end.
    pub(crate) kill_on_disconnect: bool,
    /// Bytes kept for re-attachment.
    pub(crate) retain: usize,
    /// Resource limits of the leader and what it starts.
    pub(crate) limits: Limits,
    /// Standard streams that came over the lane; such a stream has no data events.
    pub(crate) lane: [Option<OwnedFd>; 3],
}

impl StartSpec {
    /// A command with the sandbox's environment, no input and no limits.
    pub(crate) fn new(argv: Vec<CString>) -> Self {
        Self {
            argv,
            base: EnvBase::Sandbox,
            envs: Vec::new(),
            cwd: None,
            stdin: false,
            pty: None,
            tag: None,
            timeout: None,
            term_grace: Duration::ZERO,
            deadline: None,
            kill_on_disconnect: false,
            retain: RETAIN,
            limits: Limits::default(),
            lane: [None, None, None],
        }
    }
}

/// Resource limits, soft and hard alike; absent ones stay the worker's.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Limits {
    /// Processor seconds of each process.
    pub(crate) cpu_seconds: Option<u64>,
    /// Bytes of address space of each process.
    pub(crate) address_space: Option<u64>,
    /// Bytes of the largest file written.
    pub(crate) file_size: Option<u64>,
    /// Descriptors of each process.
    pub(crate) open_files: Option<u64>,
}

/// The variables a command has before the request's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EnvBase {
    /// envd: nothing but PATH, HOME, USER, LOGNAME and the sandbox's variables.
    Sandbox,
    /// v1: the worker's own variables, without its prefix.
    Worker,
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Size {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

/// A started command.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) process: std::sync::Arc<Process>,
    /// The first subscription, at the start of the output.
    pub(crate) events: Subscription,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Exit {
    /// The exit code, when it was not a signal.
    pub(crate) code: i32,
    /// The signal that ended it, or 0.
    pub(crate) signal: i32,
    /// Ended by `StartSpec::timeout`.
    pub(crate) timed_out: bool,
    /// Ended by the kernel for want of memory.
    pub(crate) oom: bool,
    /// Bytes the command wrote, delivered or not.
    pub(crate) written: PerStream,
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// Bytes.
    pub(crate) max_rss: u64,
    pub(crate) duration: Duration,
}

/// Why nothing was started.
#[derive(Debug)]
pub(crate) enum StartError {
    /// The request makes no sense.
    Invalid(String),
    /// No such working directory.
    CwdMissing(String),
    /// No such program.
    NotFound(String),
    /// The program or the directory may not be used.
    Denied(String),
    /// The system has no room for another process or descriptor.
    Exhausted(String),
    /// Something unforeseen.
    Failed(String),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CwdMissing(cwd) => write!(f, "cwd '{cwd}' does not exist"),
            Self::Invalid(text)
            | Self::NotFound(text)
            | Self::Denied(text)
            | Self::Exhausted(text)
            | Self::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for StartError {}
