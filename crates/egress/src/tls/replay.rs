//! A connection from inside of which some bytes were read already.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::{Inside, Line};

/// Gives what was read already first, then the connection.
pub(super) struct Replay {
    early: BytesMut,
    /// Absent only while it is dropped.
    inside: Option<Inside>,
    cut: Cut,
}

/// Makes the connection end with a reset when it is dropped, from wherever it has got to.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut(Arc<AtomicBool>);

impl Cut {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Replay {
    pub(super) fn new(early: BytesMut, inside: Inside) -> Self {
        Self {
            early,
            inside: Some(inside),
            cut: Cut::default(),
        }
    }

    pub(super) fn cut(&self) -> Cut {
        self.cut.clone()
    }

    fn inside(&mut self) -> io::Result<Pin<&mut Inside>> {
        match &mut self.inside {
            Some(inside) => Ok(Pin::new(inside)),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if self.cut.0.load(Ordering::Relaxed)
            && let Some(inside) = self.inside.take()
        {
            inside.reset();
        }
    }
}

impl Line for Replay {
    fn doom(&self) {
        if let Some(inside) = &self.inside {
            inside.doom();
        }
    }
}

impl AsyncRead for Replay {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.early.is_empty() {
            return this.inside()?.poll_read(cx, buf);
        }
        let count = this.early.len().min(buf.remaining());
        buf.put_slice(&this.early[..count]);
        this.early.advance(count);
        if this.early.is_empty() {
            // The room of a whole hello, for a connection that may last hours.
            this.early = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Replay {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().inside()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().inside()?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inside
            .as_ref()
            .is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().inside()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().inside()?.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn what_was_read_already_comes_first_and_once() {
        let (near, mut far) = tokio::io::duplex(64);
        far.write_all(b" world").await.unwrap();
        drop(far);
        let mut replay = Replay::new(
            BytesMut::from(&b"hello"[..]),
            Inside::Channel(Box::new(near)),
        );
        let mut text = String::new();
        replay.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello world");
    }

    #[tokio::test]
    async fn a_cut_connection_ends_with_a_reset() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = tokio::net::TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let replay = Replay::new(BytesMut::new(), Inside::Tcp(stream));
        replay.cut().set();
        drop(replay);
        let why = client.read_u8().await.unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::ConnectionReset);
    }
}
