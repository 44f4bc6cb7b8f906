//! Connect calls over HTTP: unary, server stream, client stream; JSON and binary proto.
#![expect(
    clippy::result_large_err,
    reason = "a refusal is a whole response, made once a request"
)]

mod reply;

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use namzu_protocol::connect::{
    self, ContentType, EndStream, Envelope, EnvelopeDecoder, ErrorBody, Frame,
};
use namzu_protocol::{Codec, WireMessage};
use tokio::time::Instant;

use crate::http::{self as web, Request, Response};

pub(crate) use namzu_protocol::connect::Code;

/// The longest message that is read.
pub(crate) const MAX_MESSAGE: usize = 8 << 20;

/// What a method answers when it fails.
#[derive(Debug)]
pub(crate) struct Error {
    /// The class of failure.
    pub(crate) code: Code,
    /// For people.
    pub(crate) message: String,
    /// Headers (of a unary call) or trailers (of a stream) beside the error; names in lower case.
    pub(crate) metadata: Vec<(&'static str, String)>,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            metadata: Vec::new(),
        }
    }

    fn deadline() -> Self {
        Self::new(Code::DeadlineExceeded, "the call took longer than it may")
    }
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
    let codec = match accept(&request) {
        Ok(ContentType::Unary(codec)) => codec,
        Ok(ContentType::Stream(_)) => return unsupported(),
        Err(refusal) => return refusal,
    };
    let deadline = deadline(request.headers());
    let call = async {
        let body = Limited::new(request.into_body(), MAX_MESSAGE)
            .collect()
            .await;
        let body = body.map_err(|_| {
            Error::new(
                Code::InvalidArgument,
                "the request is too long or was cut off",
            )
        })?;
        method(decode(codec, body.to_bytes())?).await
    };
    match within(deadline, call).await {
        Ok(reply) => web::full(
            StatusCode::OK,
            ContentType::Unary(codec).as_str(),
            codec.encode(&reply),
        ),
        Err(error) => refuse(error),
    }
}

/// Reads the one request message, runs `method`, streams its replies, then the end of the stream.
///
/// `keepalive` makes the reply that is sent after each `Keepalive-Ping-Interval` of silence. At
/// `Connect-Timeout-Ms` the stream fails with `deadline_exceeded`.
pub(crate) async fn server_stream<I, O, F>(
    request: Request,
    keepalive: fn() -> O,
    method: impl FnOnce(I) -> F,
) -> Response
where
    I: WireMessage,
    O: WireMessage + Unpin + 'static,
    F: Future<Output = Result<Replies<O>, Error>>,
{
    let (parts, mut messages) = match stream::<I>(request) {
        Ok(accepted) => accepted,
        Err(refusal) => return refusal,
    };
    let deadline = deadline(&parts);
    let codec = messages.codec;
    let call = async {
        let message = messages.next().await?;
        let message =
            message.ok_or_else(|| Error::new(Code::InvalidArgument, "no message was sent"))?;
        // To its end: an HTTP/1.1 connection whose request was not read whole is closed after the
        // reply, under the hands of a client that wants to use it again.
        if messages.next().await?.is_some() {
            let text = "more than one message was sent";
            return Err(Error::new(Code::InvalidArgument, text));
        }
        method(message).await
    };
    let replies = within(deadline, call).await;
    reply::stream(
        codec,
        replies,
        deadline,
        keepalive_interval(&parts),
        keepalive,
    )
}

/// Hands the request's messages to `method` as they come, writes its one reply.
pub(crate) async fn client_stream<I, O, F>(
    request: Request,
    method: impl FnOnce(Messages<I>) -> F,
) -> Response
where
    I: WireMessage,
    O: WireMessage,
    F: Future<Output = Result<O, Error>>,
{
    let (headers, messages) = match stream::<I>(request) {
        Ok(accepted) => accepted,
        Err(refusal) => return refusal,
    };
    let codec = messages.codec;
    let reply = within(deadline(&headers), method(messages)).await;
    let envelopes = reply.and_then(|reply| {
        let reply = Envelope::encode(codec, &reply);
        reply.map_err(|error| Error::new(Code::Internal, error.to_string()))
    });
    let (mut body, end) = match envelopes {
        Ok(reply) => (reply.into_bytes().to_vec(), EndStream::success()),
        Err(error) => (Vec::new(), reply::end_of(error)),
    };
    if let Ok(end) = Envelope::end(&end) {
        body.extend_from_slice(&end.into_bytes());
    }
    web::full(StatusCode::OK, ContentType::Stream(codec).as_str(), body)
}

/// The failure of a call before or without a stream.
pub(crate) fn refuse(error: Error) -> Response {
    let status =
        StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = ErrorBody::new(error.code, error.message).to_json();
    let mut response = web::full(status, "application/json", body);
    for (name, value) in error.metadata {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// The messages of a request, as they come.
#[derive(Debug)]
pub(crate) struct Messages<I> {
    body: Incoming,
    chunk: Bytes,
    decoder: EnvelopeDecoder,
    codec: Codec,
    message: PhantomData<fn() -> I>,
}

impl<I: WireMessage> Messages<I> {
    /// The next message, or `None` after the last.
    ///
    /// # Errors
    /// What is no envelope or no message; the messages are of no further use then.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<I>, Error> {
        let malformed =
            |error: &dyn std::fmt::Display| Error::new(Code::InvalidArgument, error.to_string());
        loop {
            match self.decoder.decode(&mut self.chunk) {
                Ok(Some(Frame::Message(message))) => return decode(self.codec, message).map(Some),
                Ok(Some(Frame::End(_))) => return Ok(None),
                Ok(None) => {}
                Err(error) => return Err(malformed(&error)),
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.chunk = frame.into_data().unwrap_or_default(),
                Some(Err(_)) => return Err(Error::new(Code::Canceled, "the request was cut off")),
                None => {
                    self.decoder
                        .finish_request()
                        .map_err(|error| malformed(&error))?;
                    return Ok(None);
                }
            }
        }
    }
}

fn stream<I>(request: Request) -> Result<(HeaderMap, Messages<I>), Response> {
    let ContentType::Stream(codec) = accept(&request)? else {
        return Err(unsupported());
    };
    let (parts, body) = request.into_parts();
    let messages = Messages {
        body,
        chunk: Bytes::new(),
        decoder: EnvelopeDecoder::new(MAX_MESSAGE),
        codec,
        message: PhantomData,
    };
    Ok((parts.headers, messages))
}

fn accept(request: &Request) -> Result<ContentType, Response> {
    if request.method() != Method::POST {
        return Err(web::empty(StatusCode::METHOD_NOT_ALLOWED));
    }
    let text = |name: &str| {
        request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap_or("?"))
    };
    for encoding in ["content-encoding", connect::CONTENT_ENCODING_HEADER] {
        if text(encoding).is_some_and(|encoding| encoding != "identity") {
            return Err(refuse(Error::new(
                Code::Unimplemented,
                "only the identity encoding is spoken",
            )));
        }
    }
    text("content-type")
        .and_then(ContentType::parse)
        .ok_or_else(unsupported)
}

fn unsupported() -> Response {
    web::empty(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

fn decode<I: WireMessage>(codec: Codec, message: Bytes) -> Result<I, Error> {
    codec
        .decode(message)
        .map_err(|error| Error::new(Code::InvalidArgument, error.to_string()))
}

/// When the call has to be over.
fn deadline(headers: &HeaderMap) -> Option<Instant> {
    Instant::now().checked_add(timeout(headers)?)
}

/// `Connect-Timeout-Ms`; zero is none, as the SDKs mean it.
pub(crate) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let ms = connect::parse_timeout_ms(headers.get(connect::TIMEOUT_HEADER)?.to_str().ok()?)?;
    (ms > 0).then(|| Duration::from_millis(ms))
}

fn keepalive_interval(headers: &HeaderMap) -> Duration {
    let asked = headers
        .get(connect::KEEPALIVE_HEADER)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let seconds = asked.filter(|seconds| (1..=86_400).contains(seconds));
    Duration::from_secs(seconds.unwrap_or(connect::KEEPALIVE_DEFAULT_SECONDS))
}

async fn within<T>(
    deadline: Option<Instant>,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match deadline {
        None => call.await,
        Some(deadline) => {
            let call = tokio::time::timeout_at(deadline, call).await;
            call.unwrap_or_else(|_| Err(Error::deadline()))
        }
    }
}
