//! Our extension of the process messages: limits, cursors, and what a process used.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::EndEvent;
use crate::json;

/// What a start may ask for beyond envd's wire.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StartOptions {
    /// Milliseconds after which the whole tree is killed and `timed_out` is set.
    #[prost(uint64, optional, tag = "1")]
    #[serde(
        with = "json::opt_int64",
        alias = "timeout_ms",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout_ms: Option<u64>,
    /// Seconds of processor time of each process.
    #[prost(uint64, optional, tag = "2")]
    #[serde(
        with = "json::opt_int64",
        alias = "cpu_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub cpu_seconds: Option<u64>,
    /// Bytes of address space of each process.
    #[prost(uint64, optional, tag = "3")]
    #[serde(
        with = "json::opt_int64",
        alias = "address_space",
        skip_serializing_if = "Option::is_none"
    )]
    pub address_space: Option<u64>,
    /// Bytes of the largest file it may write.
    #[prost(uint64, optional, tag = "4")]
    #[serde(
        with = "json::opt_int64",
        alias = "file_size",
        skip_serializing_if = "Option::is_none"
    )]
    pub file_size: Option<u64>,
    /// Open files of each process.
    #[prost(uint64, optional, tag = "5")]
    #[serde(
        with = "json::opt_int64",
        alias = "open_files",
        skip_serializing_if = "Option::is_none"
    )]
    pub open_files: Option<u64>,
    /// The fd lane message whose descriptors become its standard streams.
    #[prost(uint64, optional, tag = "6")]
    #[serde(with = "json::opt_int64", skip_serializing_if = "Option::is_none")]
    pub lane: Option<u64>,
    /// Bytes of output kept for attaching again, shared by its streams.
    #[prost(uint64, optional, tag = "7")]
    #[serde(
        with = "json::opt_int64",
        alias = "retain_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub retain_bytes: Option<u64>,
    /// The exact argument vector, program first, instead of `cmd` and `args`; for arguments that
    /// are not UTF-8.
    #[prost(bytes = "bytes", repeated, tag = "8")]
    #[serde(with = "json::bytes_list", skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<Bytes>,
    /// Kill the tree when the stream that started it goes away.
    #[prost(bool, tag = "9")]
    #[serde(
        alias = "kill_on_disconnect",
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub kill_on_disconnect: bool,
    /// Send only this many bytes from the beginning of each stream (and [`Self::tail`]).
    #[prost(uint64, optional, tag = "10")]
    #[serde(with = "json::opt_int64", skip_serializing_if = "Option::is_none")]
    pub head: Option<u64>,
    /// Send only this many bytes from the end of each stream (and [`Self::head`]).
    #[prost(uint64, optional, tag = "11")]
    #[serde(with = "json::opt_int64", skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
}

/// A position in each stream of a process, in bytes from its start.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct Cursor {
    /// In its standard output.
    #[prost(uint64, tag = "1")]
    #[serde(with = "json::int64", skip_serializing_if = "json::is_default")]
    pub stdout: u64,
    /// In its standard error.
    #[prost(uint64, tag = "2")]
    #[serde(with = "json::int64", skip_serializing_if = "json::is_default")]
    pub stderr: u64,
    /// In its terminal's output.
    #[prost(uint64, tag = "3")]
    #[serde(with = "json::int64", skip_serializing_if = "json::is_default")]
    pub pty: u64,
}

/// How a process ended and what it used, beyond envd's wire.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndInfo {
    /// Number of the signal that ended it; 0 when none did.
    #[prost(int32, tag = "1")]
    #[serde(with = "json::int", skip_serializing_if = "json::is_default")]
    pub signal: i32,
    /// Its deadline ended it.
    #[prost(bool, tag = "2")]
    #[serde(
        alias = "timed_out",
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub timed_out: bool,
    /// The memory limit ended it.
    #[prost(bool, tag = "3")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub oom: bool,
    /// Bytes it wrote to standard output (or its terminal), dropped ones included.
    #[prost(uint64, tag = "4")]
    #[serde(
        with = "json::int64",
        alias = "stdout_bytes",
        skip_serializing_if = "json::is_default"
    )]
    pub stdout_bytes: u64,
    /// Bytes it wrote to standard error, dropped ones included.
    #[prost(uint64, tag = "5")]
    #[serde(
        with = "json::int64",
        alias = "stderr_bytes",
        skip_serializing_if = "json::is_default"
    )]
    pub stderr_bytes: u64,
    /// Microseconds of processor time in user mode.
    #[prost(uint64, tag = "6")]
    #[serde(
        with = "json::int64",
        alias = "user_us",
        skip_serializing_if = "json::is_default"
    )]
    pub user_us: u64,
    /// Microseconds of processor time in the kernel.
    #[prost(uint64, tag = "7")]
    #[serde(
        with = "json::int64",
        alias = "system_us",
        skip_serializing_if = "json::is_default"
    )]
    pub system_us: u64,
    /// The largest resident size of one of its processes, in bytes.
    #[prost(uint64, tag = "8")]
    #[serde(
        with = "json::int64",
        alias = "max_rss",
        skip_serializing_if = "json::is_default"
    )]
    pub max_rss: u64,
    /// Microseconds from start to end by the clock.
    #[prost(uint64, tag = "9")]
    #[serde(
        with = "json::int64",
        alias = "duration_us",
        skip_serializing_if = "json::is_default"
    )]
    pub duration_us: u64,
}

/// How a listed process is doing.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessState {
    /// It has not ended.
    #[prost(bool, tag = "1")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub running: bool,
    /// When it was started, in milliseconds since 1970.
    #[prost(uint64, tag = "2")]
    #[serde(
        with = "json::int64",
        alias = "started_unix_ms",
        skip_serializing_if = "json::is_default"
    )]
    pub started_unix_ms: u64,
    /// How it ended.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<EndEvent>,
    /// Bytes it has written to standard output (or its terminal).
    #[prost(uint64, tag = "4")]
    #[serde(
        with = "json::int64",
        alias = "stdout_bytes",
        skip_serializing_if = "json::is_default"
    )]
    pub stdout_bytes: u64,
    /// Bytes it has written to standard error.
    #[prost(uint64, tag = "5")]
    #[serde(
        with = "json::int64",
        alias = "stderr_bytes",
        skip_serializing_if = "json::is_default"
    )]
    pub stderr_bytes: u64,
}
