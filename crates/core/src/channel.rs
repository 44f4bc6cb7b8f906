//! The line to a worker. Nothing above it knows which kind it has.

use std::fmt;
use std::os::fd::OwnedFd;

use namzu_types::Secret;
use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// How the worker is reached.
#[derive(Debug)]
#[non_exhaustive]
pub enum Channel {
    /// One stream: socketpair, unix socket, vsock, attached stdio. HTTP/2 multiplexes it.
    Duplex(DuplexChannel),
    /// A base URL: HTTP/1.1, or HTTP/2 where TLS negotiates it.
    Http(HttpChannel),
}

/// A stream to the worker.
pub struct DuplexChannel {
    /// The stream.
    pub io: Box<dyn Duplex>,
    /// A `SOCK_SEQPACKET` socket that carries file descriptors to the worker, on local private
    /// streams: a command's output then reaches the caller without passing through the worker.
    pub lane: Option<OwnedFd>,
    /// The worker's token; required on every stream that others can open too.
    pub token: Option<Secret>,
}

impl DuplexChannel {
    /// A private stream: nobody else can reach its other end.
    pub fn private(io: impl Duplex + 'static) -> Self {
        Self {
            io: Box::new(io),
            lane: None,
            token: None,
        }
    }
}

impl fmt::Debug for DuplexChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DuplexChannel")
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

/// An address of the worker.
#[derive(Clone, Debug)]
pub struct HttpChannel {
    /// `http://host:port` or `https://host`, without a path.
    pub base_url: String,
    /// Headers of every request, e.g. for routing.
    pub headers: Vec<(String, Secret)>,
    /// The worker's token.
    pub token: Option<Secret>,
}
