//! Responses of the simulated worker.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::Stream;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use namzu_protocol::connect::{Code, EndStream, Envelope, ErrorBody};
use namzu_protocol::httperror::HttpError;

/// A body of either kind.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Why a request is refused.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// A header, or metadata of a stream's end.
    pub(crate) detail: Option<(&'static str, String)>,
}

impl Refusal {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            detail: None,
        }
    }

    /// As the answer to a call.
    pub(crate) fn unary(self) -> Response<Body> {
        let body = ErrorBody::new(self.code, self.message).to_json();
        let status = self.code.http_status();
        respond(status, "application/json", body)
    }

    /// As the answer to a file call.
    pub(crate) fn file(self) -> Response<Body> {
        let status = self.code.http_status();
        respond(
            status,
            "application/json",
            HttpError::new(status, self.message).to_json(),
        )
    }

    /// As the last frame of a stream.
    pub(crate) fn last(self) -> Bytes {
        let mut end = EndStream::failure(self.code, self.message);
        if let Some((name, value)) = self.detail {
            end = end.with_metadata(name, value);
        }
        frame(Envelope::end(&end))
    }
}

/// The bytes of an envelope; ours are never longer than its length field can say.
pub(crate) fn frame(envelope: Result<Envelope, namzu_protocol::connect::EnvelopeError>) -> Bytes {
    envelope.map(Envelope::into_bytes).unwrap_or_default()
}

pub(crate) fn respond(
    status: u16,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

pub(crate) fn stream(
    content_type: &'static str,
    frames: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<Body> {
    use futures_util::StreamExt;
    let frames = frames.map(|bytes| Ok(Frame::data(bytes)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
