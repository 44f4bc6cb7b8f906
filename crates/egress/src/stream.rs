//! The ends of connections: those that lead into a sandbox, and what all of them can do.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use namzu_core::Duplex;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How long a silent peer is trusted to be there, and how often it is asked from then on.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A stream whose end can be made to look like what it is.
pub(crate) trait Line: AsyncRead + AsyncWrite + Send + Unpin {
    /// The socket, where its bytes are those of the stream: they may be spliced.
    fn tcp(&self) -> Option<&TcpStream> {
        None
    }

    /// Makes dropping it a reset, where there is such a thing.
    fn doom(&self) {}
}

impl Line for TcpStream {
    fn tcp(&self) -> Option<&TcpStream> {
        Some(self)
    }

    fn doom(&self) {
        // Without the option it ends in an orderly way, which is an end as well.
        let _ = self.set_zero_linger();
    }
}

impl<S: Line> Line for tokio_rustls::server::TlsStream<S> {
    fn doom(&self) {
        self.get_ref().0.doom();
    }
}

impl<S: Line> Line for tokio_rustls::client::TlsStream<S> {
    fn doom(&self) {
        self.get_ref().0.doom();
    }
}

/// Sets what every connection has: no waiting for more to send, and a peer that is gone is found out. A
/// listener hands it on to what it accepts.
pub(crate) fn settle(socket: &impl AsFd) {
    let socket = SockRef::from(socket);
    // Both are improvements; a connection without them still carries.
    let _ = socket.set_tcp_nodelay(true);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE)
        .with_retries(4);
    let _ = socket.set_tcp_keepalive(&keepalive);
}

/// Sends at once what a connection that never leaves this machine is given: nothing gets lost on the way,
/// and a host's congestion control may pace it by timers. A listener hands it on, too.
pub(crate) fn hurry(socket: &impl AsFd) {
    // Every kernel has it and lets everybody use it; without it bytes arrive as well.
    let _ = SockRef::from(socket).set_tcp_congestion(b"reno");
}

/// A connection that is forwarded by somebody inside.
pub trait Forwarded: Duplex {
    /// Makes dropping it a reset, where there is such a thing: whoever is inside must not take a stream that
    /// was cut for one that has ended.
    fn break_off(&self) {}
}

impl Forwarded for tokio::io::DuplexStream {}

impl Forwarded for TcpStream {
    fn break_off(&self) {
        self.doom();
    }
}

/// A connection from inside.
pub(crate) enum Inside {
    /// Accepted on a listener of the sandbox's own network.
    Tcp(TcpStream),
    /// Forwarded by the worker over the channel.
    Channel(Box<dyn Forwarded>),
}

impl Inside {
    /// Ends it with a reset, where there is such a thing.
    pub(crate) fn reset(self) {
        self.doom();
    }
}

impl Line for Inside {
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Channel(_) => None,
        }
    }

    fn doom(&self) {
        match self {
            Self::Tcp(stream) => stream.doom(),
            Self::Channel(stream) => stream.break_off(),
        }
    }
}

/// Reads and writes whichever stream a value of an enum holds.
macro_rules! carries {
    ($of:ident: $($kind:ident),+) => {
        impl AsyncRead for $of {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $(Self::$kind(stream) => Pin::new(stream).poll_read(cx, buf),)+
                }
            }
        }

        impl AsyncWrite for $of {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $(Self::$kind(stream) => Pin::new(stream).poll_write(cx, buf),)+
                }
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $(Self::$kind(stream) => Pin::new(stream).poll_flush(cx),)+
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $(Self::$kind(stream) => Pin::new(stream).poll_shutdown(cx),)+
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $(Self::$kind(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),)+
                }
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $(Self::$kind(stream) => stream.is_write_vectored(),)+
                }
            }
        }
    };
}
pub(crate) use carries;

carries!(Inside: Tcp, Channel);
