//! HTTP/1.1 to a base URL, on pooled connections.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, HOST, UPGRADE};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderName, Request, StatusCode, Uri};
use http_body::{Frame, SizeHint};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use namzu_core::{Error, ErrorCode, HttpChannel, Result};
use namzu_egress::Forwarded;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Body, Call, Failure, HEADER_CAP, Opened, Payload, Response, UPLOAD_CHUNK};

/// Header lines of one response.
const HEADER_COUNT: usize = 100;

/// How long one address is tried.
const DIAL: Duration = Duration::from_secs(10);

/// How long a connection is kept for the next request.
const IDLE: Duration = Duration::from_secs(20);

/// How often an idempotent request is sent when no connection can be made.
const ATTEMPTS: usize = 3;

#[cfg(feature = "tls")]
type Connector = hyper_rustls::HttpsConnector<HttpConnector>;
#[cfg(not(feature = "tls"))]
type Connector = HttpConnector;

/// A shared pool of connections to one address.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Inner>);

struct Inner {
    client: Client<Connector, Upload>,
    scheme: Scheme,
    authority: Authority,
    /// The token and the routing headers of every request.
    headers: HeaderMap,
    closed: CancellationToken,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("authority", &self.0.authority)
            .finish_non_exhaustive()
    }
}

impl Pool {
    pub(super) fn new(channel: &HttpChannel) -> Result<Self> {
        // What comes before an `@` may be a password.
        let shown = match channel.base_url.rsplit_once('@') {
            Some((_, rest)) => format!("…@{rest}"),
            None => channel.base_url.clone(),
        };
        let invalid = |why: &str| {
            Error::new(
                ErrorCode::ConfigInvalid,
                format!("`{shown}` is no address of a worker: {why}"),
            )
        };
        let uri: Uri = channel
            .base_url
            .parse()
            .map_err(|err| invalid("not a URL").with_source(err))?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(invalid("expected `http://host:port` or `https://host`"));
        };
        if parts.path_and_query.is_some_and(|path| path != "/") {
            return Err(invalid("it must have no path"));
        }
        if authority.as_str().contains('@') {
            return Err(invalid("it must hold no user or password"));
        }
        if scheme != Scheme::HTTP && (scheme != Scheme::HTTPS || !cfg!(feature = "tls")) {
            return Err(invalid("this build speaks no such scheme"));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &channel.headers {
            let key = HeaderName::try_from(name.as_str())
                .map_err(|err| invalid("a header's name is malformed").with_source(err))?;
            if key == HOST {
                return Err(invalid("the `host` header cannot be set"));
            }
            headers.append(
                key,
                super::secret_value(value.expose(), &format!("header `{name}`"))?,
            );
        }
        if let Some((name, value)) = super::token_header(channel.token.as_ref())? {
            headers.insert(name, value);
        }
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .http1_max_buf_size(UPLOAD_CHUNK.max(HEADER_CAP as usize))
            .http1_max_headers(HEADER_COUNT)
            .build(connector()?);
        Ok(Self(Arc::new(Inner {
            client,
            scheme,
            authority,
            headers,
            closed: CancellationToken::new(),
        })))
    }

    pub(super) fn close(&self) {
        self.0.closed.cancel();
    }

    pub(super) async fn send(&self, call: Call, payload: Payload<'_>) -> Result<Response, Failure> {
        match payload {
            Payload::Empty => self.retry(&call, &Bytes::new()).await,
            Payload::Full(bytes) => self.retry(&call, &bytes).await,
            Payload::Pieces(pieces) => {
                let (tx, body) = Upload::pieces();
                let request = self.request(&call, body)?;
                let upload = async {
                    for piece in pieces {
                        if tx.send(Piece::Data(piece)).await.is_err() {
                            return Ok(());
                        }
                    }
                    let _ = tx.send(Piece::End).await;
                    Ok(())
                };
                self.race(request, upload).await
            }
            Payload::Source(source) => {
                let (tx, body) = Upload::pieces();
                let request = self.request(&call, body)?;
                let upload = async {
                    let mut buffer = BytesMut::new();
                    loop {
                        buffer.reserve(UPLOAD_CHUNK);
                        let mut room = (&mut *source).take(UPLOAD_CHUNK as u64);
                        if room.read_buf(&mut buffer).await.map_err(Failure::Source)? == 0 {
                            let _ = tx.send(Piece::End).await;
                            return Ok(());
                        }
                        if tx.send(Piece::Data(buffer.split().freeze())).await.is_err() {
                            // The response says why nobody takes the rest.
                            return Ok(());
                        }
                    }
                };
                self.race(request, upload).await
            }
        }
    }

    pub(super) async fn connect(&self, path: String) -> Result<Result<Opened, Response>, Failure> {
        let call = Call::new(http::Method::GET, path)
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, "namzu");
        let request = self.request(&call, Upload::Full(None))?;
        let response = self.unless_closed(self.0.client.request(request)).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Err(respond(response)));
        }
        let headers = response.headers().clone();
        let upgraded = hyper::upgrade::on(response).await.map_err(classify)?;
        Ok(Ok(Opened {
            headers,
            io: Box::new(Upgraded(TokioIo::new(upgraded))),
        }))
    }

    fn request(&self, call: &Call, body: Upload) -> Result<Request<Upload>, Failure> {
        let uri = Uri::builder()
            .scheme(self.0.scheme.clone())
            .authority(self.0.authority.clone())
            .path_and_query(call.path.as_str())
            .build()
            .map_err(|err| Failure::Violation(err.into()))?;
        let mut request = Request::new(body);
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = self.0.headers.clone();
        request.headers_mut().extend(call.headers.clone());
        Ok(request)
    }

    /// Sends it again, as long as nothing was delivered and a repetition is harmless.
    async fn retry(&self, call: &Call, body: &Bytes) -> Result<Response, Failure> {
        let mut left = if call.idempotent { ATTEMPTS } else { 1 };
        loop {
            left -= 1;
            let request = self.request(call, Upload::Full(Some(body.clone())))?;
            match self.unless_closed(self.0.client.request(request)).await {
                Ok(response) => return Ok(respond(response)),
                Err(Failure::Connect(err)) if left > 0 => {
                    tracing::debug!(%err, "no connection to a worker, trying again");
                }
                Err(err) => return Err(err),
            }
        }
    }

    /// Uploads while listening: a worker that refuses says so before it has read everything.
    async fn race(
        &self,
        request: Request<Upload>,
        upload: impl Future<Output = Result<(), Failure>>,
    ) -> Result<Response, Failure> {
        let mut response = pin!(self.unless_closed(self.0.client.request(request)));
        let mut upload = pin!(upload);
        let mut uploading = true;
        poll_fn(|cx| {
            if let Poll::Ready(answer) = response.as_mut().poll(cx) {
                let answer = answer.map(respond);
                let early = uploading && answer.as_ref().is_ok_and(|a| a.status.is_success());
                return Poll::Ready(if early {
                    Err(Failure::Violation(super::EARLY.into()))
                } else {
                    answer
                });
            }
            if uploading && let Poll::Ready(done) = upload.as_mut().poll(cx) {
                done?;
                uploading = false;
            }
            Poll::Pending
        })
        .await
    }

    async fn unless_closed(
        &self,
        response: impl Future<Output = Result<http::Response<hyper::body::Incoming>, ClientError>>,
    ) -> Result<http::Response<hyper::body::Incoming>, Failure> {
        tokio::select! {
            biased;
            () = self.0.closed.cancelled() => Err(Failure::Lost("the client closed it".into())),
            answer = response => answer.map_err(|err| {
                if err.is_connect() {
                    return Failure::Connect(err.into());
                }
                let broke = std::error::Error::source(&err)
                    .and_then(|cause| cause.downcast_ref::<hyper::Error>())
                    .is_some_and(breaks_protocol);
                if broke {
                    Failure::Violation(err.into())
                } else {
                    Failure::Lost(err.into())
                }
            }),
        }
    }
}

#[cfg(feature = "tls")]
fn connector() -> Result<Connector> {
    let mut http = tcp();
    http.enforce_http(false);
    let builder = hyper_rustls::HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(Arc::new(rustls::crypto::ring::default_provider()))
        .map_err(|err| {
            Error::new(
                ErrorCode::HostUnsupported,
                "the host's root certificates could not be loaded",
            )
            .with_source(err)
        })?;
    Ok(builder.https_or_http().enable_http1().wrap_connector(http))
}

#[cfg(not(feature = "tls"))]
fn connector() -> Result<Connector> {
    Ok(tcp())
}

fn tcp() -> HttpConnector {
    let mut http = HttpConnector::new();
    // A small request must not wait for the acknowledgement of the one before.
    http.set_nodelay(true);
    http.set_connect_timeout(Some(DIAL));
    http
}

fn respond(response: http::Response<hyper::body::Incoming>) -> Response {
    let (head, body) = response.into_parts();
    Response {
        status: head.status,
        headers: head.headers,
        body: Body::Pool(body),
    }
}

fn breaks_protocol(err: &hyper::Error) -> bool {
    err.is_parse()
}

/// Tells a connection that ended from a worker that broke the protocol.
pub(super) fn classify(err: hyper::Error) -> Failure {
    if breaks_protocol(&err) {
        Failure::Violation(err.into())
    } else {
        Failure::Lost(err.into())
    }
}

/// A connection that became a byte stream. It belongs to HTTP and knows no reset.
struct Upgraded(TokioIo<hyper::upgrade::Upgraded>);

impl Forwarded for Upgraded {}

impl AsyncRead for Upgraded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A piece of a body, or its proper end: a channel that closes without one was abandoned.
enum Piece {
    Data(Bytes),
    End,
}

/// The body of a request.
enum Upload {
    Full(Option<Bytes>),
    Pieces(mpsc::Receiver<Piece>),
    Done,
}

impl Upload {
    fn pieces() -> (mpsc::Sender<Piece>, Self) {
        let (tx, rx) = mpsc::channel(2);
        (tx, Self::Pieces(rx))
    }
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Pieces(pieces) => match std::task::ready!(pieces.poll_recv(cx)) {
                Some(Piece::Data(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(Piece::End) => {
                    *self = Self::Done;
                    Poll::Ready(None)
                }
                None => Poll::Ready(Some(Err("the upload was abandoned"))),
            },
            Self::Done => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None) | Self::Done)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Self::Pieces(_) => SizeHint::default(),
            Self::Done => SizeHint::with_exact(0),
        }
    }
}
