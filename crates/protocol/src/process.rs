//! Messages of `process.Process`: commands, terminals and their streams.
//!
//! Field numbers below 1000 are envd's; from 1000 on they are ours (`docs/protocol.md`).

mod event;
mod input;
mod limits;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::event::{
    DataEvent, EndEvent, KeepAlive, ProcessEvent, StartEvent, data_event, process_event,
};
pub use self::input::{
    CloseStdinRequest, CloseStdinResponse, ProcessInput, SendInputRequest, SendInputResponse,
    StreamInputData, StreamInputRequest, StreamInputResponse, StreamInputStart, process_input,
    stream_input_request,
};
pub use self::limits::{Cursor, EndInfo, ProcessState, StartOptions};
use crate::json::{self, ProtoEnum};
use crate::oneof::oneof_json;

/// Path of the unary call that lists processes.
pub const LIST: &str = "/process.Process/List";
/// Path of the server stream that attaches to a process.
pub const CONNECT: &str = "/process.Process/Connect";
/// Path of the server stream that starts a process.
pub const START: &str = "/process.Process/Start";
/// Path of the unary call that resizes a terminal.
pub const UPDATE: &str = "/process.Process/Update";
/// Path of the client stream of input.
pub const STREAM_INPUT: &str = "/process.Process/StreamInput";
/// Path of the unary call that sends input.
pub const SEND_INPUT: &str = "/process.Process/SendInput";
/// Path of the unary call that sends a signal.
pub const SEND_SIGNAL: &str = "/process.Process/SendSignal";
/// Path of the unary call that ends input.
pub const CLOSE_STDIN: &str = "/process.Process/CloseStdin";

/// A terminal.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct Pty {
    /// Its size; absent leaves the size as it is.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<PtySize>,
}

/// Size of a terminal in character cells.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct PtySize {
    /// Columns.
    #[prost(uint32, tag = "1")]
    #[serde(with = "json::int", skip_serializing_if = "json::is_default")]
    pub cols: u32,
    /// Rows.
    #[prost(uint32, tag = "2")]
    #[serde(with = "json::int", skip_serializing_if = "json::is_default")]
    pub rows: u32,
}

/// What to run.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessConfig {
    /// The program; never passed through a shell.
    #[prost(string, tag = "1")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub cmd: String,
    /// Its arguments, without the program's name.
    #[prost(string, repeated, tag = "2")]
    #[serde(
        deserialize_with = "json::list::deserialize",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub args: Vec<String>,
    /// Variables on top of the sandbox's own.
    #[prost(btree_map = "string, string", tag = "3")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub envs: BTreeMap<String, String>,
    /// Working directory; the user's home (or the worker's own default) when absent.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// One process in a list.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessInfo {
    /// What was started.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<ProcessConfig>,
    /// Its process id as the worker sees it.
    #[prost(uint32, tag = "2")]
    #[serde(with = "json::int", skip_serializing_if = "json::is_default")]
    pub pid: u32,
    /// The name it was started under.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Ours: how it is doing.
    #[prost(message, optional, tag = "1000")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ProcessState>,
}

/// Which process is meant.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(try_from = "RawSelector", into = "RawSelector")]
pub struct ProcessSelector {
    /// By what it is found.
    #[prost(oneof = "process_selector::Selector", tags = "1, 2")]
    pub selector: Option<process_selector::Selector>,
}

/// The oneof of [`ProcessSelector`].
pub mod process_selector {
    /// By what a process is found.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Selector {
        /// By process id.
        #[prost(uint32, tag = "1")]
        Pid(u32),
        /// By the name it was started under.
        #[prost(string, tag = "2")]
        Tag(String),
    }
}

oneof_json! {
    ProcessSelector as RawSelector { selector: process_selector::Selector {
        #[serde(with = "json::opt_int")]
        pid: Pid(u32),
        tag: Tag(String),
    } }
}

impl ProcessSelector {
    /// The process with this id.
    #[must_use]
    pub const fn pid(pid: u32) -> Self {
        Self {
            selector: Some(process_selector::Selector::Pid(pid)),
        }
    }

    /// The process started under this name.
    #[must_use]
    pub fn tag(tag: impl Into<String>) -> Self {
        Self {
            selector: Some(process_selector::Selector::Tag(tag.into())),
        }
    }
}

/// Asks for the running processes.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ListRequest {
    /// Ours: those that ended lately too.
    #[prost(bool, tag = "1000")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

/// The processes; ended ones carry their end in [`ProcessState`].
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ListResponse {
    /// The processes.
    #[prost(message, repeated, tag = "1")]
    #[serde(
        deserialize_with = "json::list::deserialize",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub processes: Vec<ProcessInfo>,
}

/// Starts a process.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct StartRequest {
    /// What to run.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessConfig>,
    /// On a terminal of this size instead of pipes.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
    /// A name to find the process by.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Whether it gets standard input; unset means yes.
    #[prost(bool, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<bool>,
    /// Ours: deadline, limits, exact arguments, output caps.
    #[prost(message, optional, tag = "1000")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<StartOptions>,
}

/// One event of a started process; the first is a start event.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct StartResponse {
    /// The event.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<ProcessEvent>,
}

/// Attaches to a process.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectRequest {
    /// Which one.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
    /// Ours: replay from here instead of only what comes from now on.
    #[prost(message, optional, tag = "1000")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// One event of a process that was attached to; the first is a start event.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectResponse {
    /// The event.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<ProcessEvent>,
}

/// Resizes a process's terminal.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateRequest {
    /// Which process.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
    /// The new size.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
}

/// The terminal has its new size.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
pub struct UpdateResponse {}

/// Sends a signal to a process (its leader alone).
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct SendSignalRequest {
    /// To which process.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
    /// The number of a [`Signal`].
    #[prost(enumeration = "Signal", tag = "2")]
    #[serde(
        with = "json::Enum::<Signal>",
        skip_serializing_if = "json::is_default"
    )]
    pub signal: i32,
}

/// The signals that envd's wire names; the numbers are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Signal {
    /// None given.
    Unspecified = 0,
    /// Ask it to end.
    Sigterm = 15,
    /// End it.
    Sigkill = 9,
}

impl ProtoEnum for Signal {
    const NAMES: &'static [(i32, &'static str)] = &[
        (0, "SIGNAL_UNSPECIFIED"),
        (15, "SIGNAL_SIGTERM"),
        (9, "SIGNAL_SIGKILL"),
    ];
}

/// The signal was sent.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
pub struct SendSignalResponse {}
