//! Messages to bytes and back, in either encoding.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// The proto3 JSON mapping.
    Json,
    /// Binary protobuf.
    Proto,
}

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not the JSON of this message, or nested too deep.
    #[error("could not read the message as JSON: {0}")]
    Json(String),
    /// Not the protobuf of this message, or nested too deep.
    #[error("could not read the message as protobuf: {0}")]
    Proto(String),
    /// More than [`MAX_LIST_ITEMS`](crate::MAX_LIST_ITEMS) elements.
    #[error("a list in the message has more than {} items", crate::MAX_LIST_ITEMS)]
    ListTooLong,
}

mod sealed {
    pub trait Sealed {}
}

/// A message of the envd wire. Sealed: its JSON is known to be writable.
pub trait WireMessage:
    prost::Message
    + Default
    + Clone
    + PartialEq
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
    + sealed::Sealed
{
}

impl Codec {
    /// Writes a message.
    #[must_use]
    pub fn encode<M: WireMessage>(self, message: &M) -> Bytes {
        match self {
            Self::Json => serde_json::to_vec(message)
                .expect("messages have string keys and no failing serializers")
                .into(),
            Self::Proto => message.encode_to_vec().into(),
        }
    }

    /// Reads a message. Unknown fields are ignored; `bytes` fields of the binary form share
    /// `message`'s memory.
    ///
    /// An empty JSON body reads as the default message, as envd's server takes it.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] when the bytes are not this message in this encoding.
    pub fn decode<M: WireMessage>(self, message: Bytes) -> Result<M, DecodeError> {
        match self {
            Self::Json if message.is_empty() => Ok(M::default()),
            Self::Json => crate::body::read(&message),
            Self::Proto if !crate::list::fits(&message) => Err(DecodeError::ListTooLong),
            Self::Proto => {
                M::decode(message).map_err(|error| DecodeError::Proto(error.to_string()))
            }
        }
    }
}

macro_rules! wire_messages {
    ($($module:ident { $($message:ident),* $(,)? })*) => {
        $($(
            impl sealed::Sealed for crate::$module::$message {}
            impl WireMessage for crate::$module::$message {}
        )*)*
    };
}

wire_messages! {
    process {
        CloseStdinRequest, CloseStdinResponse, ConnectRequest, ConnectResponse, ListRequest,
        ListResponse, SendInputRequest, SendInputResponse, SendSignalRequest, SendSignalResponse,
        StartRequest, StartResponse, StreamInputRequest, StreamInputResponse, UpdateRequest,
        UpdateResponse,
    }
    filesystem {
        CreateWatcherRequest, CreateWatcherResponse, GetWatcherEventsRequest,
        GetWatcherEventsResponse, ListDirRequest, ListDirResponse, MakeDirRequest,
        MakeDirResponse, MoveRequest, MoveResponse, RemoveRequest, RemoveResponse,
        RemoveWatcherRequest, RemoveWatcherResponse, StatRequest, StatResponse, WatchDirRequest,
        WatchDirResponse,
    }
}
