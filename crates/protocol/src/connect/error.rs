//! The JSON of failures: the body of a unary error and the last envelope of a stream.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Code;
use crate::{DecodeError, body, json};

/// Why a call failed, as its peer says. Always JSON, whatever the codec of the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ErrorBody {
    /// The class of failure. Absent or not known reads as [`Code::Unknown`].
    #[serde(
        default = "unknown",
        serialize_with = "write_code",
        deserialize_with = "read_code"
    )]
    pub code: Code,
    /// In words.
    #[serde(
        default,
        deserialize_with = "json::or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub message: String,
}

const fn unknown() -> Code {
    Code::Unknown
}

fn write_code<S: Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.as_str())
}

fn read_code<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Code, D::Error> {
    Ok(LenientCode::deserialize(deserializer)?
        .0
        .unwrap_or(Code::Unknown))
}

/// A code, or anything else: envd's HTTP errors have a number in its place.
#[derive(Default)]
struct LenientCode(Option<Code>);

impl<'de> Deserialize<'de> for LenientCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientVisitor).map(Self)
    }
}

struct LenientVisitor;

impl<'de> Visitor<'de> for LenientVisitor {
    type Value = Option<Code>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error code")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.parse().ok())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        IgnoredAny.visit_seq(seq).map(|_| None)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        IgnoredAny.visit_map(map).map(|_| None)
    }
}

impl ErrorBody {
    /// An error with a code and words.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// The body of a failed unary call; its status is [`Code::http_status`].
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        body::to_json(self)
    }

    /// Reads the body of a failed unary call. A body that is no such JSON (a proxy's page, say)
    /// gives the code that the status implies and no words.
    #[must_use]
    pub fn from_response(status: u16, body: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Lenient {
            code: LenientCode,
            #[serde(deserialize_with = "json::or_default")]
            message: String,
        }
        let body: Lenient = body::read(body).unwrap_or_default();
        Self {
            code: body
                .code
                .0
                .unwrap_or_else(|| Code::from_http_status(status)),
            message: body.message,
        }
    }
}

/// The last envelope of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndStream {
    /// Why the stream failed, unless it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
    /// Trailers: lower-case names and their values.
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub metadata: BTreeMap<String, Vec<String>>,
}

impl EndStream {
    /// The end of a stream that succeeded.
    #[must_use]
    pub fn success() -> Self {
        Self::default()
    }

    /// The end of a stream that failed.
    pub fn failure(code: Code, message: impl Into<String>) -> Self {
        Self {
            error: Some(ErrorBody::new(code, message)),
            metadata: BTreeMap::new(),
        }
    }

    /// With a trailer.
    #[must_use]
    pub fn with_metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata
            .entry(name.into())
            .or_default()
            .push(value.into());
        self
    }

    /// The first value of a trailer, by its lower-case name.
    #[must_use]
    pub fn metadata(&self, name: &str) -> Option<&str> {
        self.metadata.get(name)?.first().map(String::as_str)
    }

    /// The JSON of the envelope.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        body::to_json(self)
    }

    /// Reads the JSON of the envelope.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Json`] when it is not an object of that shape.
    pub fn from_json(json: &[u8]) -> Result<Self, DecodeError> {
        body::from_json(json)
    }
}
