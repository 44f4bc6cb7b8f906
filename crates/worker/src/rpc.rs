//! Connect calls over HTTP: unary, server stream, client stream; JSON and binary proto.

use std::future::Future;
use std::pin::Pin;

use futures_core::Stream;
use namzu_protocol::WireMessage;

use crate::http::{self as web, Request, Response};

/// What a method answers when it fails.
#[derive(Debug)]
pub(crate) struct Error {
    /// The Connect code.
    pub(crate) code: Code,
    /// For people.
    pub(crate) message: String,
    /// Headers beside the error.
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            headers: Vec::new(),
        }
    }
}

/// The Connect error codes in use; will be `namzu_protocol::connect`'s.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Code {
    InvalidArgument,
    NotFound,
}

/// The replies of a server stream.
pub(crate) type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Error>> + Send>>;

/// Reads the one request message, runs `method`, writes its one reply.
pub(crate) async fn unary<I, O, F>(request: Request, method: impl FnOnce(I) -> F) -> Response
where
    I: WireMessage,
    O: WireMessage,
    F: Future<Output = Result<O, Error>>,
{
    drop((request, method));
    web::empty(http::StatusCode::NOT_IMPLEMENTED)
}

/// Reads the one request message, runs `method`, streams its replies, then the end frame.
/// `keepalive` makes the message sent every `Keepalive-Ping-Interval` of silence.
pub(crate) async fn server_stream<I, O, F>(
    request: Request,
    keepalive: fn() -> O,
    method: impl FnOnce(I) -> F,
) -> Response
where
    I: WireMessage,
    O: WireMessage,
    F: Future<Output = Result<Replies<O>, Error>>,
{
    drop((request, keepalive, method));
    web::empty(http::StatusCode::NOT_IMPLEMENTED)
}
