//! Commands: starting, watching, feeding and killing them.

use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

mod table;

pub(crate) use table::Table;

/// What to start. `StartSpec::new` is an envd command with nothing special about it.
#[derive(Debug)]
pub(crate) struct StartSpec {
    /// Never empty; `argv[0]` is looked up in the command's `PATH` unless it holds a slash.
    pub(crate) argv: Vec<CString>,
    /// What the environment starts from, below `envs`.
    pub(crate) base: EnvBase,
    /// Variables of the request; the last of a name wins.
    pub(crate) envs: Vec<(String, String)>,
    /// Absolute, or `None` for the worker's default.
    pub(crate) cwd: Option<PathBuf>,
    /// Whether standard input is a pipe (else `/dev/null`).
    pub(crate) stdin: bool,
    /// A terminal instead of pipes.
    pub(crate) pty: Option<Size>,
    /// The caller's own name for it.
    pub(crate) tag: Option<String>,
    /// After this long the tree is killed and `Exit::timed_out` is set.
    pub(crate) timeout: Option<Duration>,
    /// Between SIGTERM and SIGKILL at `timeout`; zero kills at once.
    pub(crate) term_grace: Duration,
    /// envd's deadline: the tree is killed and the first subscription fails with `Expired`.
    pub(crate) deadline: Option<Duration>,
    /// Kill the tree when the first subscription is dropped before the end.
    pub(crate) kill_on_disconnect: bool,
    /// Bytes kept for re-attachment.
    pub(crate) retain_bytes: usize,
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
