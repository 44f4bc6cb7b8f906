//! One way to send a request to a worker, over a multiplexed duplex or a pool of connections.

mod body;
mod mux;
mod pool;
mod stream;

use std::error::Error as StdError;
use std::fmt;
use std::io;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use namzu_core::{Channel, Duplex, Error, ErrorCode, Result};
use namzu_egress::Forwarded;
use namzu_types::Secret;
use tokio::io::AsyncRead;

pub(crate) use self::body::Body;
use self::mux::Mux;
use self::pool::Pool;

/// Bytes of the header block of one response.
const HEADER_CAP: u32 = 64 << 10;

/// Bytes read at once from the source of an upload.
const UPLOAD_CHUNK: usize = 256 << 10;

/// Of an answer that cannot know what it speaks of.
const EARLY: &str = "success was answered before the request was sent whole";

/// A connection, or a way to make them. Cloning is cheap and shares it.
#[derive(Clone, Debug)]
pub(crate) enum Conn {
    Mux(Mux),
    Pool(Pool),
}

/// The head of a request; who sends it adds the token and the rest of the address.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query, percent-encoded.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// May be sent again when it was not delivered.
    pub(crate) idempotent: bool,
}

impl Call {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            idempotent: method == Method::GET,
            method,
            path: path.into(),
            headers: HeaderMap::new(),
        }
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }
}

/// The body of a request.
pub(crate) enum Payload<'a> {
    Empty,
    Full(Bytes),
    /// Made piece by piece, each when the last is on its way.
    Pieces(&'a mut (dyn Iterator<Item = Bytes> + Send)),
    Source(&'a mut (dyn AsyncRead + Send + Unpin)),
}

/// The head of a response, and its body as it comes.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

/// A byte stream, and the headers of the answer that opened it.
pub(crate) struct Opened {
    pub(crate) headers: HeaderMap,
    pub(crate) io: Box<dyn Forwarded>,
}

/// Why a request got no response, or half of one.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No connection was made: nothing was delivered.
    Connect(Box<dyn StdError + Send + Sync>),
    /// The connection ended.
    Lost(Box<dyn StdError + Send + Sync>),
    /// The worker broke HTTP, or its caps.
    Violation(Box<dyn StdError + Send + Sync>),
    /// The worker does not do this, and said so.
    Unsupported(Box<dyn StdError + Send + Sync>),
    /// The caller's own stream failed.
    Source(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect(_) => "no connection to the worker could be made",
            Self::Lost(_) => "the connection to the worker ended",
            Self::Violation(_) => "the worker broke the HTTP protocol",
            Self::Unsupported(_) => "the worker cannot do this",
            Self::Source(_) => "the stream to send could not be read",
        })
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Connect(err)
            | Self::Lost(err)
            | Self::Violation(err)
            | Self::Unsupported(err) => Some(&**err),
            Self::Source(err) => Some(err),
        }
    }
}

impl Conn {
    /// Prepares to talk over `channel`. On a duplex this starts the task that drives it; the task
    /// ends with the last clone.
    pub(crate) async fn open(channel: Channel) -> Result<Self> {
        match channel {
            Channel::Duplex(duplex) => Ok(Self::Mux(Mux::open(duplex.io, duplex.token).await?)),
            Channel::Http(http) => Ok(Self::Pool(Pool::new(&http)?)),
            _ => Err(Error::new(
                ErrorCode::Internal,
                "this kind of channel is not known to the client",
            )),
        }
    }

    /// Sends a request and waits for the head of its response.
    ///
    /// Cancel safety: dropping the future takes the request back.
    pub(crate) async fn send(&self, call: Call, payload: Payload<'_>) -> Result<Response, Failure> {
        match self {
            Self::Mux(mux) => mux.send(call, payload).await,
            Self::Pool(pool) => pool.send(call, payload).await,
        }
    }

    /// Opens a byte stream to `path`; the response when the worker answers something else.
    pub(crate) async fn connect(
        &self,
        path: String,
    ) -> Result<Result<Box<dyn Duplex>, Response>, Failure> {
        let opened = self.open_stream(path).await?;
        Ok(opened.map(|opened| opened.io as Box<dyn Duplex>))
    }

    /// As [`Self::connect`], with what the worker says of the stream.
    pub(crate) async fn open_stream(
        &self,
        path: String,
    ) -> Result<Result<Opened, Response>, Failure> {
        match self {
            Self::Mux(mux) => mux.connect(path).await,
            Self::Pool(pool) => pool.connect(path).await,
        }
    }

    /// Ends the connection; what is under way fails.
    pub(crate) fn close(&self) {
        match self {
            Self::Mux(mux) => mux.close(),
            Self::Pool(pool) => pool.close(),
        }
    }
}

/// The header that carries `token`, marked so that nothing logs it.
fn token_header(token: Option<&Secret>) -> Result<Option<(HeaderName, HeaderValue)>> {
    let Some(token) = token else { return Ok(None) };
    let value = secret_value(&format!("Bearer {}", token.expose()), "the worker's token")?;
    Ok(Some((AUTHORIZATION, value)))
}

fn secret_value(text: &str, what: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        // The cause is left out: it could quote the secret.
        Error::new(
            ErrorCode::ConfigInvalid,
            format!("{what} cannot be sent in an HTTP header"),
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}
