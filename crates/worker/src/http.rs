//! The HTTP types every handler speaks, and the few ways a response is made.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http::{StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use serde::Serialize;

/// A request as hyper hands it over.
pub(crate) type Request = hyper::Request<hyper::body::Incoming>;
/// A response of any handler.
pub(crate) type Response = hyper::Response<Body>;
/// Why a body ended early; the peer only sees its stream reset.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// A body of any shape.
pub(crate) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    respond(
        status,
        None,
        Empty::new().map_err(|never| match never {}).boxed_unsync(),
    )
}

/// A response whose body is in memory.
pub(crate) fn full(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response {
    let body = Full::new(body.into()).map_err(|never| match never {});
    respond(status, Some(content_type), body.boxed_unsync())
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => full(status, "application/json", body),
        Err(_) => empty(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// envd's error body: `{"code": HTTP status, "message": TEXT}`.
pub(crate) fn error(status: StatusCode, message: impl AsRef<str>) -> Response {
    #[derive(Serialize)]
    struct Envelope<'a> {
        code: u16,
        message: &'a str,
    }
    json(
        status,
        &Envelope {
            code: status.as_u16(),
            message: message.as_ref(),
        },
    )
}

/// A response whose body is produced as it is read. Dropping the body drops `chunks`.
pub(crate) fn stream<S, E>(status: StatusCode, content_type: &'static str, chunks: S) -> Response
where
    S: Stream<Item = Result<Bytes, E>> + Send + 'static,
    E: Into<BodyError>,
{
    respond(
        status,
        Some(content_type),
        ChunkBody(Box::pin(chunks)).boxed_unsync(),
    )
}

fn respond(status: StatusCode, content_type: Option<&'static str>, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if let Some(content_type) = content_type {
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static(content_type),
        );
    }
    response
}

struct ChunkBody<S>(Pin<Box<S>>);

impl<S, E> http_body::Body for ChunkBody<S>
where
    S: Stream<Item = Result<Bytes, E>>,
    E: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0
            .as_mut()
            .poll_next(cx)
            .map(|chunk| chunk.map(|chunk| chunk.map(Frame::data).map_err(Into::into)))
    }
}
