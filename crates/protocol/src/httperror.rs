//! The JSON of a failed `/files` call and of a refused token: `{"code":404,"message":"…"}`.

use serde::{Deserialize, Serialize};

/// A failure of an HTTP endpoint of envd; `code` is the status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("HTTP {code}: {message}")]
pub struct HttpError {
    /// The HTTP status.
    pub code: u16,
    /// In words.
    #[serde(default)]
    pub message: String,
}

impl HttpError {
    /// A failure with a status and words.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// The body.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings are always writable")
    }

    /// Reads the body of an answer. The status counts, not what the body repeats of it; a body that
    /// is no such JSON gives no words.
    #[must_use]
    pub fn from_response(status: u16, body: &[u8]) -> Self {
        let message = serde_json::from_slice::<Self>(body)
            .map(|error| error.message)
            .unwrap_or_default();
        Self::new(status, message)
    }
}
