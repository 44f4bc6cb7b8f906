//! A connection to the outside.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::Scheme;
use crate::denial::Denial;
use crate::place::Flow;
use crate::stream::Line;
use crate::tls;

/// A stream to the outside.
pub(crate) enum Out {
    /// In the clear.
    Tcp(TcpStream),
    /// In TLS, whose server proved that it is the host that was asked for.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection to the outside, and what was read of it and not looked at yet.
pub(crate) struct Server {
    pub(crate) io: Out,
    pub(crate) buffer: BytesMut,
    /// What is to be written to it.
    pub(crate) out: BytesMut,
}

impl Server {
    /// Where it leads.
    pub(crate) fn peer(&self) -> Option<std::net::SocketAddr> {
        let stream = match &self.io {
            Out::Tcp(stream) => stream,
            Out::Tls(stream) => stream.get_ref().0,
        };
        stream.peer_addr().ok()
    }

    pub(crate) fn new(io: Out) -> Self {
        Self {
            io,
            buffer: BytesMut::new(),
            out: BytesMut::new(),
        }
    }

    /// Dials what `flow` was admitted for.
    ///
    /// # Errors
    ///
    /// Those of dialling, and [`UpstreamTls`](crate::Reason::UpstreamTls).
    pub(crate) async fn open(flow: &Flow, scheme: Scheme) -> Result<Self, Denial> {
        let tcp = flow.dial().await?;
        let io = match scheme {
            Scheme::Https => {
                let stream = tls::upstream::connect(flow, tcp, &[tls::HTTP1]).await?;
                Out::Tls(Box::new(stream))
            }
            Scheme::Http | Scheme::Tcp => Out::Tcp(tcp),
        };
        Ok(Self::new(io))
    }

    /// Whether nothing came of it since the last response: neither its end, nor bytes that nobody asked for.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let mut room = ReadBuf::new(&mut byte);
        let mut context = Context::from_waker(Waker::noop());
        self.buffer.is_empty()
            && Pin::new(&mut self.io)
                .poll_read(&mut context, &mut room)
                .is_pending()
    }
}

impl Line for Out {
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(_) => None,
        }
    }

    fn doom(&self) {
        match self {
            Self::Tcp(stream) => stream.doom(),
            Self::Tls(stream) => stream.doom(),
        }
    }
}

crate::stream::carries!(Out: Tcp, Tls);
