//! The end of a connection that leads into a sandbox.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use namzu_core::Duplex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection from inside.
pub(crate) enum Inside {
    /// Accepted on a listener of the sandbox's own network.
    Tcp(TcpStream),
    /// Forwarded by the worker over the channel.
    Channel(Box<dyn Duplex>),
}

impl Inside {
    /// Ends it with a reset, where there is such a thing.
    pub(crate) fn reset(self) {
        if let Self::Tcp(stream) = self {
            // Without the option it ends in an orderly way, which is an end as well.
            let _ = stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Inside {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Channel(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Inside {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Channel(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Channel(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Channel(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
