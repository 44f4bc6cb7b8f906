//! Bodies that are plain JSON objects: ext/v1 and v1.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::DecodeError;

mod sealed {
    pub trait Sealed {}
}

/// A body that is a JSON object. Sealed: it is known to be writable.
pub trait JsonBody: Serialize + DeserializeOwned + sealed::Sealed {}

macro_rules! bodies {
    ($($body:path),* $(,)?) => {$(
        impl sealed::Sealed for $body {}
        impl JsonBody for $body {}
    )*};
}

bodies! {
    crate::connect::ErrorBody,
    crate::connect::EndStream,
    crate::ext::DoorsRequest,
    crate::ext::DoorsResponse,
    crate::ext::Info,
    crate::ext::KillRequest,
    crate::ext::KillResponse,
    crate::ext::ProbeRequest,
    crate::ext::ProbeResponse,
    crate::ext::Reach,
    crate::httperror::HttpError,
    crate::v1::Event,
    crate::v1::ExecuteRequest,
    crate::v1::Health,
    crate::v1::ReadFileRequest,
    crate::v1::ReadFileResponse,
    crate::v1::Refusal,
    crate::v1::WriteFileRequest,
    crate::v1::WriteFileResponse,
}

/// Writes a body.
#[must_use]
pub fn to_json<T: JsonBody>(body: &T) -> Vec<u8> {
    serde_json::to_vec(body).expect("bodies have string keys and no failing serializers")
}

/// Reads a body. Nesting deeper than 128 is refused.
///
/// # Errors
///
/// [`DecodeError::Json`] when it is not of that shape.
pub fn from_json<T: JsonBody>(body: &[u8]) -> Result<T, DecodeError> {
    read(body)
}

/// Reads any JSON object. Serde would take an array for a struct as well, `[]` for an empty one.
pub(crate) fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, DecodeError> {
    if json.trim_ascii_start().first() != Some(&b'{') {
        return Err(DecodeError::Json("not a JSON object".to_owned()));
    }
    serde_json::from_slice(json).map_err(|error| DecodeError::Json(error.to_string()))
}
