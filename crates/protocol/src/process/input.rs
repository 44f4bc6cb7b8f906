//! What is sent to a running process: once, as a stream, and the end of it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{KeepAlive, ProcessSelector};
use crate::json;
use crate::oneof::oneof_json;

/// Bytes for a process.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(try_from = "RawInput", into = "RawInput")]
pub struct ProcessInput {
    /// Where they go.
    #[prost(oneof = "process_input::Input", tags = "1, 2")]
    pub input: Option<process_input::Input>,
}

/// The oneof of [`ProcessInput`].
pub mod process_input {
    use bytes::Bytes;

    /// Where input goes.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Input {
        /// To its standard input.
        #[prost(bytes = "bytes", tag = "1")]
        Stdin(Bytes),
        /// To its terminal.
        #[prost(bytes = "bytes", tag = "2")]
        Pty(Bytes),
    }
}

oneof_json! {
    ProcessInput as RawInput { input: process_input::Input {
        #[serde(with = "json::opt_bytes")]
        stdin: Stdin(Bytes),
        #[serde(with = "json::opt_bytes")]
        pty: Pty(Bytes),
    } }
}

/// Sends input once.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct SendInputRequest {
    /// To which process.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
    /// The bytes.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<ProcessInput>,
}

/// The input was written.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
pub struct SendInputResponse {}

/// One message of a stream of input; the first names the process.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(try_from = "RawStreamInput", into = "RawStreamInput")]
pub struct StreamInputRequest {
    /// What it carries.
    #[prost(oneof = "stream_input_request::Event", tags = "1, 2, 3")]
    pub event: Option<stream_input_request::Event>,
}

/// The oneof of [`StreamInputRequest`].
pub mod stream_input_request {
    use super::{StreamInputData, StreamInputStart};

    /// What a message of a stream of input carries.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Event {
        /// The process; the first message.
        #[prost(message, tag = "1")]
        Start(StreamInputStart),
        /// Bytes for it.
        #[prost(message, tag = "2")]
        Data(StreamInputData),
        /// Nothing; keeps the stream from being taken for dead.
        #[prost(message, tag = "3")]
        Keepalive(super::KeepAlive),
    }
}

oneof_json! {
    StreamInputRequest as RawStreamInput { event: stream_input_request::Event {
        start: Start(StreamInputStart),
        data: Data(StreamInputData),
        keepalive: Keepalive(KeepAlive),
    } }
}

/// Names the process of a stream of input.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamInputStart {
    /// Which process.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
}

/// Bytes of a stream of input.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamInputData {
    /// The bytes. Field 2, as in envd's descriptor.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<ProcessInput>,
}

/// All input was written.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
pub struct StreamInputResponse {}

/// Ends a process's standard input.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct CloseStdinRequest {
    /// Of which process.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
}

/// The standard input has ended.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
pub struct CloseStdinResponse {}
