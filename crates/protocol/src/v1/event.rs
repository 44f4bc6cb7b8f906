//! What a command tells: one JSON object a line (HTTP) or a frame (stream).

use serde::{Deserialize, Serialize};

use crate::json;

/// One event of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecuteResult {
    /// Its exit code; 128 + the signal's number when a signal ended it. A peer that gives none
    /// (`null`) reads as -1.
    #[serde(deserialize_with = "exit_code", default = "no_exit_code")]
    pub exit_code: i32,
    /// Its deadline ended it.
    #[serde(default)]
    pub timed_out: bool,
    /// Milliseconds from start to end.
    #[serde(default)]
    pub duration_ms: u64,
    /// Standard output had more bytes than were kept.
    #[serde(default)]
    pub stdout_truncated: bool,
    /// Standard error had more bytes than were kept.
    #[serde(default)]
    pub stderr_truncated: bool,
    /// Ours: number of the signal that ended it. Other peers neither send nor read it.
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub signal: Option<i32>,
}

fn exit_code<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(no_exit_code))
}

const fn no_exit_code() -> i32 {
    -1
}

impl Event {
    /// Its JSON, without a line feed.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers are always writable")
    }

    /// Reads the JSON of an event.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Json`](crate::DecodeError::Json) when it is no event.
    pub fn from_json(json: &[u8]) -> Result<Self, crate::DecodeError> {
        serde_json::from_slice(json).map_err(|error| crate::DecodeError::Json(error.to_string()))
    }

    /// Whether nothing follows it.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        matches!(self, Self::Result(_) | Self::Error { .. })
    }
}
