//! One stream type for whatever carries a connection: socket, socketpair, vsock, pipes.
#![expect(
    unsafe_code,
    reason = "reading into a buffer that was not zeroed before, which large ones pay for each time"
)]

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::sync::oneshot;

use crate::fd;

/// A duplex over one descriptor, or over one for each direction.
#[derive(Debug)]
pub(crate) struct FdStream {
    read: AsyncFd<OwnedFd>,
    /// `None`: the same descriptor, which is a socket then.
    write: Option<AsyncFd<OwnedFd>>,
    /// Read before, to be read again.
    prefix: Bytes,
    /// Dropped with the stream, whoever has it then.
    held: Option<oneshot::Sender<Infallible>>,
}

impl FdStream {
    /// A duplex over a socket.
    ///
    /// # Errors
    /// The descriptor cannot be watched, e.g. a file.
    pub(crate) fn socket(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self {
            read: fd::watch_both(fd)?,
            write: None,
            prefix: Bytes::new(),
            held: None,
        })
    }

    /// A duplex over two pipe ends or the like.
    ///
    /// # Errors
    /// A descriptor cannot be watched, e.g. a file.
    pub(crate) fn pair(read: OwnedFd, write: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&read, true)?;
        rustix::io::ioctl_fionbio(&write, true)?;
        Ok(Self {
            read: fd::watch(read, Interest::READABLE)?,
            write: Some(fd::watch(write, Interest::WRITABLE)?),
            prefix: Bytes::new(),
            held: None,
        })
    }

    /// What ends when the stream is dropped, also by a tunnel that has taken it over.
    pub(crate) fn end(&mut self) -> oneshot::Receiver<Infallible> {
        let (held, end) = oneshot::channel();
        self.held = Some(held);
        end
    }

    /// Puts back what was read.
    pub(crate) fn unread(&mut self, prefix: Bytes) {
        self.prefix = prefix;
    }

    fn writer(&self) -> &AsyncFd<OwnedFd> {
        self.write.as_ref().unwrap_or(&self.read)
    }
}

fn retry<T>(poll: Result<io::Result<T>, tokio::io::unix::TryIoError>) -> Option<io::Result<T>> {
    match poll {
        Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => None,
        Ok(result) => Some(result),
        Err(_would_block) => None,
    }
}

impl AsyncRead for FdStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.prefix.is_empty() {
            let take = self.prefix.len().min(buf.remaining());
            buf.put_slice(&self.prefix[..take]);
            self.prefix.advance(take);
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut guard = ready!(self.read.poll_read_ready(cx))?;
            // SAFETY: nothing in there is made uninitialised; the kernel writes, or nobody does.
            let space = unsafe { buf.unfilled_mut() };
            let room = space.len();
            let read = guard.try_io(|fd| Ok(rustix::io::read(fd.as_fd(), &mut *space)?.0.len()));
            match retry(read) {
                Some(Ok(count)) => {
                    // A short read has emptied the stream: what comes next rings again.
                    if count < room {
                        guard.clear_ready();
                    }
                    // SAFETY: the kernel has just written these bytes.
                    unsafe { buf.assume_init(count) };
                    buf.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => {}
            }
        }
    }
}

impl AsyncWrite for FdStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.writer().poll_write_ready(cx))?;
            // SIGPIPE is ignored, so a closed peer is an error like any other.
            if let Some(result) = retry(guard.try_io(|fd| Ok(rustix::io::writev(fd, slices)?))) {
                return Poll::Ready(result);
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.write.is_none() {
            // A peer that is gone already is shut down enough.
            let _ = rustix::net::shutdown(self.read.get_ref(), rustix::net::Shutdown::Write);
        }
        Poll::Ready(Ok(()))
    }
}
