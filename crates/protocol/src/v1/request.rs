//! Requests and their answers, the same over HTTP and over frames.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use super::Encoding;
use crate::{body, json};

/// Runs a command: an executable, not a shell line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecuteRequest {
    /// The program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments, without the program's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Working directory, relative to the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables on top of the sandbox's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Text for its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Milliseconds it may run. A negative number reads as 0, which no worker accepts; one that is
    /// not whole is rounded up.
    #[serde(
        default,
        deserialize_with = "json::saturating",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout_ms: Option<u64>,
    /// Bytes kept of each output stream.
    #[serde(
        default,
        deserialize_with = "json::saturating",
        skip_serializing_if = "Option::is_none"
    )]
    pub max_output_bytes: Option<u64>,
}

/// Reads a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFileRequest {
    /// Which one.
    pub path: String,
    /// How its content shall be written; the default is [`Encoding::Utf8`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

/// Writes a file, making its parents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteFileRequest {
    /// Which one.
    pub path: String,
    /// What it shall hold.
    pub content: String,
    /// How `content` is written; the default is [`Encoding::Utf8`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

/// A file's content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadFileResponse {
    /// Always true; a failure is a [`Refusal`].
    pub ok: bool,
    /// Its content.
    pub content: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// How `content` is written.
    #[serde(default)]
    pub encoding: Encoding,
}

/// A file was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteFileResponse {
    /// Always true; a failure is a [`Refusal`].
    pub ok: bool,
    /// How many bytes.
    pub bytes_written: u64,
}

/// The worker is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Always true.
    pub ok: bool,
}

/// Why a request is refused. File calls have `ok: false`, a command has a `message`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// False for file calls and unknown operations, absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// A code such as `invalid_body`, or words.
    pub error: String,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Refusal {
    /// The refusal of a command before it starts: `{"error":code,"message":…}`.
    pub fn command(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            ok: None,
            error: code.into(),
            message: Some(message.into()),
        }
    }

    /// The refusal of a file call or an unknown operation: `{"ok":false,"error":…}`.
    pub fn file(error: impl Into<String>) -> Self {
        Self {
            ok: Some(false),
            error: error.into(),
            message: None,
        }
    }

    /// The refusal of an unknown route: `{"error":"not_found"}`.
    #[must_use]
    pub fn not_found() -> Self {
        Self {
            error: "not_found".to_owned(),
            ..Self::default()
        }
    }
}

/// A request in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameRequest {
    /// Run a command; the answer is one frame an event and an empty frame.
    Execute(ExecuteRequest),
    /// Read a file; the answer is one frame.
    ReadFile(ReadFileRequest),
    /// Write a file; the answer is one frame.
    WriteFile(WriteFileRequest),
    /// Are you there; the answer is one frame.
    Healthz,
}

/// Why a frame is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameRequestError {
    /// Not JSON, or without an operation: the connection is dropped.
    #[error("the frame is no request: {0}")]
    Malformed(String),
    /// The operation is not known: answered with a [`Refusal`].
    #[error("unknown_op: {0}")]
    UnknownOp(String),
    /// The operation is known and its body is not of its shape: answered with a refusal.
    #[error("invalid_body: {message}")]
    InvalidBody {
        /// The operation was a command, so the refusal is an event.
        is_execute: bool,
        /// In words.
        message: String,
    },
}

impl FrameRequest {
    /// Reads the payload of a frame.
    ///
    /// # Errors
    ///
    /// [`FrameRequestError`] says what the worker has to do about it.
    pub fn from_json(payload: &[u8]) -> Result<Self, FrameRequestError> {
        #[derive(Deserialize)]
        struct Head {
            op: String,
            #[serde(rename = "body")]
            _body: Option<IgnoredAny>,
        }
        let head: Head =
            body::read(payload).map_err(|error| FrameRequestError::Malformed(error.to_string()))?;
        match head.op.as_str() {
            "execute" => read_body(payload, true).map(Self::Execute),
            "read-file" => read_body(payload, false).map(Self::ReadFile),
            "write-file" => read_body(payload, false).map(Self::WriteFile),
            "healthz" => Ok(Self::Healthz),
            _ => Err(FrameRequestError::UnknownOp(head.op)),
        }
    }

    /// Writes the payload of a frame.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(tag = "op", content = "body", rename_all = "kebab-case")]
        enum Wire<'a> {
            Execute(&'a ExecuteRequest),
            ReadFile(&'a ReadFileRequest),
            WriteFile(&'a WriteFileRequest),
            Healthz {},
        }
        let wire = match self {
            Self::Execute(request) => Wire::Execute(request),
            Self::ReadFile(request) => Wire::ReadFile(request),
            Self::WriteFile(request) => Wire::WriteFile(request),
            Self::Healthz => Wire::Healthz {},
        };
        serde_json::to_vec(&wire).expect("strings and numbers are always writable")
    }
}

fn read_body<T: DeserializeOwned>(
    payload: &[u8],
    is_execute: bool,
) -> Result<T, FrameRequestError> {
    #[derive(Deserialize)]
    struct Whole<T> {
        body: T,
    }
    // The payload is read twice rather than kept as a tree, which would take many times its size.
    body::read::<Whole<T>>(payload)
        .map(|whole| whole.body)
        .map_err(|error| FrameRequestError::InvalidBody {
            is_execute,
            message: error.to_string(),
        })
}
