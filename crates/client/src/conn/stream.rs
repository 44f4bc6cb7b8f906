//! An HTTP/2 stream as a byte stream.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};
use namzu_egress::Forwarded;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes handed to the connection at once.
const WRITE_CHUNK: usize = 64 << 10;

/// Both halves of a stream opened by extended `CONNECT`.
pub(super) struct MuxStream {
    send: SendStream<Bytes>,
    recv: RecvStream,
    /// Received and not yet read.
    rest: Bytes,
    shut: bool,
    broken_off: AtomicBool,
}

impl MuxStream {
    pub(super) const fn new(send: SendStream<Bytes>, recv: RecvStream) -> Self {
        Self {
            send,
            recv,
            rest: Bytes::new(),
            shut: false,
            broken_off: AtomicBool::new(false),
        }
    }
}

impl Forwarded for MuxStream {
    fn break_off(&self) {
        self.broken_off.store(true, Ordering::Relaxed);
    }
}

impl Drop for MuxStream {
    fn drop(&mut self) {
        if *self.broken_off.get_mut() {
            // `CANCEL`, which a drop is by itself, is an end to the worker's HTTP/2.
            self.send.send_reset(Reason::INTERNAL_ERROR);
        }
    }
}

impl AsyncRead for MuxStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(self.recv.poll_data(cx)) {
                None => return Poll::Ready(Ok(())),
                // The other end let go: what a socket calls its end.
                Some(Err(err)) if err.reason() == Some(Reason::NO_ERROR) => {
                    return Poll::Ready(Ok(()));
                }
                Some(Err(err)) => return Poll::Ready(Err(broken(err))),
                Some(Ok(chunk)) => self.rest = chunk,
            }
        }
        let taken = self.rest.len().min(buf.remaining());
        buf.put_slice(&self.rest[..taken]);
        self.rest.advance(taken);
        self.recv
            .flow_control()
            .release_capacity(taken)
            .map_err(broken)?;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MuxStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.send.reserve_capacity(buf.len().min(WRITE_CHUNK));
        let room = match ready!(self.send.poll_capacity(cx)) {
            Some(Ok(room)) => room,
            Some(Err(err)) => return Poll::Ready(Err(broken(err))),
            None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        };
        let taken = room.min(buf.len());
        self.send
            .send_data(Bytes::copy_from_slice(&buf[..taken]), false)
            .map_err(broken)?;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.shut {
            self.shut = true;
            self.send.send_data(Bytes::new(), true).map_err(broken)?;
        }
        Poll::Ready(Ok(()))
    }
}

fn broken(err: h2::Error) -> io::Error {
    if err.is_io() {
        return err
            .into_io()
            .unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
    }
    let kind = match err.reason() {
        Some(Reason::CANCEL | Reason::INTERNAL_ERROR | Reason::STREAM_CLOSED) => {
            io::ErrorKind::ConnectionReset
        }
        _ => io::ErrorKind::BrokenPipe,
    };
    io::Error::new(kind, err)
}
