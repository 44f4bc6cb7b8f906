//! What a running process tells its subscribers.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::EndInfo;
use crate::json;
use crate::oneof::{Ambiguous, oneof_json};

/// One event of a process.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(try_from = "RawEvent", into = "RawEvent")]
pub struct ProcessEvent {
    /// Which event.
    #[prost(oneof = "process_event::Event", tags = "1, 2, 3, 4")]
    pub event: Option<process_event::Event>,
}

/// The oneof of [`ProcessEvent`].
pub mod process_event {
    /// Which event of a process.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Event {
        /// It runs; always the first event.
        #[prost(message, tag = "1")]
        Start(super::StartEvent),
        /// It wrote something.
        #[prost(message, tag = "2")]
        Data(super::DataEvent),
        /// It ended and its output is complete; always the last event.
        #[prost(message, tag = "3")]
        End(super::EndEvent),
        /// Nothing; keeps the stream from being taken for dead.
        #[prost(message, tag = "4")]
        Keepalive(super::KeepAlive),
    }
}

oneof_json! {
    ProcessEvent as RawEvent { event: process_event::Event {
        start: Start(StartEvent),
        data: Data(DataEvent),
        end: End(EndEvent),
        keepalive: Keepalive(KeepAlive),
    } }
}

impl From<process_event::Event> for ProcessEvent {
    fn from(event: process_event::Event) -> Self {
        Self { event: Some(event) }
    }
}

/// A process runs.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct StartEvent {
    /// Its process id as the worker sees it.
    #[prost(uint32, tag = "1")]
    #[serde(with = "json::int", skip_serializing_if = "json::is_default")]
    pub pid: u32,
}

/// Bytes that a process wrote. They may end inside a UTF-8 character.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(try_from = "RawData", into = "RawData")]
pub struct DataEvent {
    /// Where it wrote them.
    #[prost(oneof = "data_event::Output", tags = "1, 2, 3")]
    pub output: Option<data_event::Output>,
    /// Ours: position of the first byte in its stream.
    #[prost(uint64, tag = "1000")]
    pub offset: u64,
    /// Ours: how many bytes were dropped just before this one.
    #[prost(uint64, tag = "1001")]
    pub skipped: u64,
}

/// The oneof of [`DataEvent`].
pub mod data_event {
    use bytes::Bytes;

    /// Where a process wrote.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Output {
        /// To its standard output.
        #[prost(bytes = "bytes", tag = "1")]
        Stdout(Bytes),
        /// To its standard error.
        #[prost(bytes = "bytes", tag = "2")]
        Stderr(Bytes),
        /// To its terminal.
        #[prost(bytes = "bytes", tag = "3")]
        Pty(Bytes),
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct RawData {
    #[serde(with = "json::opt_bytes", skip_serializing_if = "Option::is_none")]
    stdout: Option<Bytes>,
    #[serde(with = "json::opt_bytes", skip_serializing_if = "Option::is_none")]
    stderr: Option<Bytes>,
    #[serde(with = "json::opt_bytes", skip_serializing_if = "Option::is_none")]
    pty: Option<Bytes>,
    #[serde(with = "json::int64", skip_serializing_if = "json::is_default")]
    offset: u64,
    #[serde(with = "json::int64", skip_serializing_if = "json::is_default")]
    skipped: u64,
}

impl TryFrom<RawData> for DataEvent {
    type Error = Ambiguous;

    fn try_from(raw: RawData) -> Result<Self, Ambiguous> {
        use data_event::Output;
        let output = match (raw.stdout, raw.stderr, raw.pty) {
            (None, None, None) => None,
            (Some(bytes), None, None) => Some(Output::Stdout(bytes)),
            (None, Some(bytes), None) => Some(Output::Stderr(bytes)),
            (None, None, Some(bytes)) => Some(Output::Pty(bytes)),
            _ => return Err(Ambiguous("output")),
        };
        Ok(Self {
            output,
            offset: raw.offset,
            skipped: raw.skipped,
        })
    }
}

impl From<DataEvent> for RawData {
    fn from(event: DataEvent) -> Self {
        use data_event::Output;
        let mut raw = Self {
            offset: event.offset,
            skipped: event.skipped,
            ..Self::default()
        };
        match event.output {
            Some(Output::Stdout(bytes)) => raw.stdout = Some(bytes),
            Some(Output::Stderr(bytes)) => raw.stderr = Some(bytes),
            Some(Output::Pty(bytes)) => raw.pty = Some(bytes),
            None => {}
        }
        raw
    }
}

/// A process ended and its output is complete.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndEvent {
    /// Its exit code; -1 when a signal ended it. In JSON it is written even when it is 0.
    #[prost(sint32, tag = "1")]
    #[serde(with = "json::int", alias = "exit_code")]
    pub exit_code: i32,
    /// Whether it exited by itself. In JSON it is written even when it is false.
    #[prost(bool, tag = "2")]
    #[serde(deserialize_with = "json::or_default")]
    pub exited: bool,
    /// In words, e.g. `exit status 1` or `signal: killed`.
    #[prost(string, tag = "3")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub status: String,
    /// The same words, unless it exited with 0.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Ours: signal, deadline, totals and use.
    #[prost(message, optional, tag = "1000")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info: Option<EndInfo>,
}

/// Carries nothing; sent so that a quiet stream is not taken for a dead one.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
pub struct KeepAlive {}
