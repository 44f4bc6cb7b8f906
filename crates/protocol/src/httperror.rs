//! The JSON of a failed `/files` call and of a refused token: `{"code":404,"message":"…"}`.

use serde::{Deserialize, Serialize};

use crate::{body, json};

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
        body::to_json(self)
    }

    /// Reads the body of an answer. The status counts, not what the body repeats of it; a body that
    /// is no such JSON gives no words.
    #[must_use]
    pub fn from_response(status: u16, body: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Words {
            #[serde(deserialize_with = "json::or_default")]
            message: String,
        }
        let words: Words = body::read(body).unwrap_or_default();
        Self::new(status, words.message)
    }
}
