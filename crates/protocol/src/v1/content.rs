//! How the content of a file travels in JSON.

use serde::{Deserialize, Serialize};

use crate::json;

/// How `content` is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// As text.
    #[default]
    Utf8,
    /// As base64.
    Base64,
}

/// Content that is not what its encoding says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("content is not valid {0}")]
pub struct InvalidContent(&'static str);

impl Encoding {
    /// Writes a file's bytes. As [`Encoding::Utf8`] what is no UTF-8 becomes U+FFFD, as the
    /// reference does it.
    #[must_use]
    pub fn encode(self, bytes: &[u8]) -> String {
        match self {
            Self::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            Self::Base64 => json::encode_base64(bytes),
        }
    }

    /// Reads a file's bytes; base64 in either alphabet, padded or not.
    ///
    /// # Errors
    ///
    /// [`InvalidContent`] when it is no base64.
    pub fn decode(self, content: String) -> Result<Vec<u8>, InvalidContent> {
        match self {
            Self::Utf8 => Ok(content.into_bytes()),
            Self::Base64 => json::decode_base64(&content).map_err(|_| InvalidContent("base64")),
        }
    }
}
