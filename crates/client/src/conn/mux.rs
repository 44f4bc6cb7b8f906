//! HTTP/2 on one duplex: every request is a stream of it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderName, HeaderValue, Method, Request, Version};
use namzu_core::{Duplex, Error, ErrorCode, Result};
use namzu_types::Secret;
use tokio::io::AsyncReadExt;
use tokio::task::AbortHandle;

use super::stream::MuxStream;
use super::{Body, Call, Failure, HEADER_CAP, Opened, Payload, Response, UPLOAD_CHUNK};

/// Bytes the worker may send ahead on one stream: what a stream that nobody reads can hold.
const STREAM_WINDOW: u32 = 1 << 20;

/// No limit of its own: a stream that is not read must not stop the others, and each is bounded.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// Bytes of one frame.
const FRAME_CAP: u32 = 256 << 10;

/// Small frames that may wait unread, counted as h2 does.
const FRAME_BUDGET: usize = 8 << 20;

/// The host part of every address on a duplex: there is only one place it leads to.
const ORIGIN: &str = "http://worker";

/// The protocol name of byte streams (RFC 8441).
const TUNNEL: &str = "namzu";

/// A shared HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Mux {
    sender: SendRequest<Bytes>,
    token: Option<(HeaderName, HeaderValue)>,
    driver: Arc<Driver>,
}

/// The task that moves the bytes; ends when nobody can use the connection any more.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl std::fmt::Debug for Mux {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mux").finish_non_exhaustive()
    }
}

impl Mux {
    pub(super) async fn open(io: Box<dyn Duplex>, token: Option<Secret>) -> Result<Self> {
        let token = super::token_header(token.as_ref())?;
        let (sender, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME_CAP)
            .max_header_list_size(HEADER_CAP)
            .data_frame_budget(FRAME_BUDGET)
            .max_send_buffer_size(UPLOAD_CHUNK * 2)
            .handshake(io)
            .await
            .map_err(|err| {
                Error::new(ErrorCode::SandboxLost, "the worker's stream is closed").with_source(err)
            })?;
        // `Driver` owns the task and aborts it when dropped.
        let task = tokio::spawn(async move {
            // Every stream of the connection reports the failure to its own caller.
            if let Err(err) = connection.await {
                tracing::debug!(%err, "connection to a worker ended");
            }
        });
        Ok(Self {
            sender,
            token,
            driver: Arc::new(Driver(task.abort_handle())),
        })
    }

    pub(super) fn close(&self) {
        self.driver.0.abort();
    }

    pub(super) async fn send(&self, call: Call, payload: Payload<'_>) -> Result<Response, Failure> {
        let mut request = Request::new(());
        *request.method_mut() = call.method;
        *request.headers_mut() = call.headers;
        let ends = matches!(payload, Payload::Empty);
        let (response, mut send) = self.start(request, &call.path, ends).await?;
        let mut response = pin!(response);
        let early = match payload {
            Payload::Empty => None,
            Payload::Full(bytes) => {
                send.send_data(bytes, true).map_err(classify)?;
                None
            }
            Payload::Pieces(pieces) => {
                let upload = async {
                    for piece in pieces {
                        send_all(&mut send, piece).await?;
                    }
                    Ok(())
                };
                race(response.as_mut(), upload).await?
            }
            Payload::Source(source) => {
                let upload = async {
                    let mut buffer = BytesMut::new();
                    loop {
                        buffer.reserve(UPLOAD_CHUNK);
                        let mut room = (&mut *source).take(UPLOAD_CHUNK as u64);
                        if room.read_buf(&mut buffer).await.map_err(Failure::Source)? == 0 {
                            return Ok(());
                        }
                        send_all(&mut send, buffer.split().freeze()).await?;
                    }
                };
                race(response.as_mut(), upload).await?
            }
        };
        let answer = match early {
            Some(Ok(answer)) if answer.status().is_success() => {
                return Err(Failure::Violation(super::EARLY.into()));
            }
            Some(answer) => answer,
            None => {
                if !ends {
                    // Harmless after a `Full` body, whose last frame says so already.
                    let _ = send.send_data(Bytes::new(), true);
                }
                response.await
            }
        };
        Ok(respond(answer.map_err(classify)?, Some(send)))
    }

    pub(super) async fn connect(&self, path: String) -> Result<Result<Opened, Response>, Failure> {
        let mut request = Request::new(());
        *request.method_mut() = Method::CONNECT;
        request
            .extensions_mut()
            .insert(Protocol::from_static(TUNNEL));
        if !self.sender.is_extended_connect_protocol_enabled() {
            return Err(Failure::Unsupported(
                "its HTTP/2 takes no byte streams".into(),
            ));
        }
        let (response, send) = self.start(request, &path, false).await?;
        let answer = response.await.map_err(classify)?;
        if !answer.status().is_success() {
            return Ok(Err(respond(answer, Some(send))));
        }
        let (head, body) = answer.into_parts();
        Ok(Ok(Opened {
            headers: head.headers,
            io: Box::new(MuxStream::new(send, body)),
        }))
    }

    async fn start(
        &self,
        mut request: Request<()>,
        path: &str,
        ends: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), Failure> {
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = format!("{ORIGIN}{path}")
            .parse()
            .map_err(|err: http::uri::InvalidUri| Failure::Violation(err.into()))?;
        if let Some((name, value)) = &self.token {
            request.headers_mut().insert(name, value.clone());
        }
        let mut sender = self.sender.clone();
        poll_fn(|cx| sender.poll_ready(cx))
            .await
            .map_err(classify)?;
        sender.send_request(request, ends).map_err(classify)
    }
}

type Answer = Result<http::Response<RecvStream>, h2::Error>;

/// Uploads while listening: a worker that refuses says so before it has read everything.
///
/// It then closes the stream, which the upload may see first: the answer still counts.
async fn race(
    mut response: Pin<&mut ResponseFuture>,
    upload: impl Future<Output = Result<(), Failure>>,
) -> Result<Option<Answer>, Failure> {
    let mut upload = pin!(upload);
    let mut closed = None;
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(answer) = response.as_mut().poll(cx) {
                return Poll::Ready(match (answer, closed.take()) {
                    (Err(_), Some(failure)) => Err(failure),
                    (answer, _) => Ok(Some(answer)),
                });
            }
            if closed.is_some() {
                return Poll::Pending;
            }
            match upload.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(None)),
                Poll::Ready(Err(failure @ Failure::Source(_))) => return Poll::Ready(Err(failure)),
                // The answer may have come since it was looked for.
                Poll::Ready(Err(failure)) => closed = Some(failure),
            }
        }
    })
    .await
}

/// Hands `data` to the connection as the worker makes room for it.
async fn send_all(send: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), Failure> {
    while !data.is_empty() {
        send.reserve_capacity(data.len());
        let room = poll_fn(|cx| send.poll_capacity(cx))
            .await
            .ok_or_else(|| Failure::Lost("the worker closed the stream".into()))?
            .map_err(classify)?;
        let piece = data.split_to(room.min(data.len()));
        send.send_data(piece, false).map_err(classify)?;
    }
    Ok(())
}

fn respond(answer: http::Response<RecvStream>, send: Option<SendStream<Bytes>>) -> Response {
    let (head, recv) = answer.into_parts();
    Response {
        status: head.status,
        headers: head.headers,
        body: Body::Mux { recv, _send: send },
    }
}

/// Tells a connection that ended from a worker that broke the protocol.
pub(super) fn classify(err: h2::Error) -> Failure {
    let broke = match err.reason() {
        _ if err.is_io() => false,
        // Of a `GOAWAY`, only our own says that the worker did something wrong.
        Some(reason) if err.is_go_away() => err.is_library() && reason != Reason::NO_ERROR,
        Some(Reason::REFUSED_STREAM) => false,
        Some(_) => true,
        None => false,
    };
    if broke {
        Failure::Violation(err.into())
    } else {
        Failure::Lost(err.into())
    }
}
