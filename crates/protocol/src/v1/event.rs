//! What a command tells: one JSON object a line (HTTP) or a frame (stream).

use serde::{Deserialize, Serialize};

use crate::{body, json};

/// One event of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", try_from = "RawEvent")]
pub enum Event {
    /// It wrote to standard output.
    StdoutDelta {
        /// As text; see [`Utf8Decoder`](super::Utf8Decoder).
        data: String,
    },
    /// It wrote to standard error.
    StderrDelta {
        /// As text; see [`Utf8Decoder`](super::Utf8Decoder).
        data: String,
    },
    /// It ended; always last.
    Result(ExecuteResult),
    /// It could not be run; always last.
    Error {
        /// In words, or one of the refusals' codes.
        error: String,
    },
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecuteResult {
    /// Its exit code; 128 + the signal's number when a signal ended it. A peer that gives none
    /// (`null`) reads as -1.
    pub exit_code: i32,
    /// Its deadline ended it.
    pub timed_out: bool,
    /// Milliseconds from start to end.
    pub duration_ms: u64,
    /// Standard output had more bytes than were kept.
    pub stdout_truncated: bool,
    /// Standard error had more bytes than were kept.
    pub stderr_truncated: bool,
    /// Ours: number of the signal that ended it. Other peers neither send nor read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// All fields of all events. Read into this rather than by serde's own tagging, which would first
/// make a tree of the whole object, many times the size of its text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEvent {
    r#type: Kind,
    data: Option<String>,
    error: Option<String>,
    exit_code: Option<i32>,
    #[serde(default)]
    timed_out: bool,
    #[serde(default, deserialize_with = "json::saturating")]
    duration_ms: Option<u64>,
    #[serde(default)]
    stdout_truncated: bool,
    #[serde(default)]
    stderr_truncated: bool,
    signal: Option<i32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    StdoutDelta,
    StderrDelta,
    Result,
    Error,
}

#[derive(Debug, thiserror::Error)]
#[error("the event has no `{0}`")]
struct Missing(&'static str);

impl TryFrom<RawEvent> for Event {
    type Error = Missing;

    fn try_from(raw: RawEvent) -> Result<Self, Missing> {
        let data = raw.data.ok_or(Missing("data"));
        Ok(match raw.r#type {
            Kind::StdoutDelta => Self::StdoutDelta { data: data? },
            Kind::StderrDelta => Self::StderrDelta { data: data? },
            Kind::Result => Self::Result(ExecuteResult {
                exit_code: raw.exit_code.unwrap_or(-1),
                timed_out: raw.timed_out,
                duration_ms: raw.duration_ms.unwrap_or_default(),
                stdout_truncated: raw.stdout_truncated,
                stderr_truncated: raw.stderr_truncated,
                signal: raw.signal,
            }),
            Kind::Error => Self::Error {
                error: raw.error.ok_or(Missing("error"))?,
            },
        })
    }
}

impl Event {
    /// Its JSON, without a line feed.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        body::to_json(self)
    }

    /// Reads the JSON of an event.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Json`](crate::DecodeError::Json) when it is no event.
    pub fn from_json(json: &[u8]) -> Result<Self, crate::DecodeError> {
        body::from_json(json)
    }

    /// Whether nothing follows it.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        matches!(self, Self::Result(_) | Self::Error { .. })
    }
}
