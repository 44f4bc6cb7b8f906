//! One command: what is asked, and how it ended.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One command to run inside a sandbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecRequest {
    /// Program followed by its arguments, as bytes. Never passed through a shell.
    pub argv: Vec<Vec<u8>>,
    /// Variables on top of the sandbox's own.
    pub env: BTreeMap<String, String>,
    /// Working directory inside; the workspace when absent.
    pub cwd: Option<String>,
    /// Bytes for standard input; `None` is `/dev/null`.
    pub stdin: Option<Vec<u8>>,
    /// A terminal instead of pipes.
    pub pty: Option<PtySize>,
    /// A name to find the process by.
    pub tag: Option<String>,
    /// How long it may run. `None`: the sandbox's own limit.
    pub timeout: Option<Duration>,
    /// What the command alone may use.
    pub limits: ExecLimits,
    /// How much of each output stream is kept.
    pub output: OutputCap,
}

impl ExecRequest {
    /// A command with no input and the sandbox's own environment.
    pub fn new(argv: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}

/// Size of a terminal, in character cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtySize {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

/// What one command may use, by rlimit: firm for files and processor time, no wall for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecLimits {
    /// Seconds of processor time of each process (`RLIMIT_CPU`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// Bytes of address space of each process (`RLIMIT_AS`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_space: Option<u64>,
    /// Bytes of the largest file it may write (`RLIMIT_FSIZE`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size: Option<u64>,
    /// Open files of each process (`RLIMIT_NOFILE`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
}

/// How much of each output stream is kept: the first `head` bytes and the last `tail` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputCap {
    /// Bytes kept from the beginning.
    pub head: usize,
    /// Bytes kept from the end.
    pub tail: usize,
}

impl Default for OutputCap {
    /// 4 MiB from the beginning and 4 MiB from the end.
    fn default() -> Self {
        Self {
            head: 4 << 20,
            tail: 4 << 20,
        }
    }
}

/// How a command ended. Never an infrastructure failure: those are errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl ExitStatus {
    /// Whether it exited with code 0.
    #[must_use]
    pub const fn success(self) -> bool {
        matches!(self, Self::Code(0))
    }

    /// The code a shell would give: the exit code, or 128 + the signal's number.
    #[must_use]
    pub const fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => signal.saturating_add(128),
        }
    }
}
