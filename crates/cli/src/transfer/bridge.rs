//! Between blocking code that reads or writes a tar stream and the async side that carries it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::sync::{mpsc, oneshot};

use super::Progress;

/// Bytes of one piece.
pub(super) const PIECE: usize = 128 << 10;

/// Pieces between the two sides: 1 MiB, enough that neither waits for each piece of the other.
const DEPTH: usize = 8;

/// A way from async to blocking: [`Feed::run`] on one side, a [`Read`] on the other.
pub(crate) fn pipe_in() -> (Feed, Source) {
    let (tx, rx) = mpsc::channel(DEPTH);
    let source = Source {
        rx,
        piece: Bytes::new(),
        finished: false,
    };
    (Feed { tx }, source)
}

/// The async end of [`pipe_in`].
#[derive(Debug)]
pub(crate) struct Feed {
    tx: mpsc::Sender<io::Result<Bytes>>,
}

impl Feed {
    /// Carries `from` to its end, to its failure, or until nobody reads any more.
    pub(crate) async fn run(self, mut from: impl AsyncRead + Unpin) {
        loop {
            let mut piece = Vec::with_capacity(PIECE);
            let read = from.read_buf(&mut piece).await;
            // Nothing is the end. A feed that was given up does not say so.
            let message = read.map(|_| Bytes::from(piece));
            let last = message.as_ref().map_or(true, Bytes::is_empty);
            if self.tx.send(message).await.is_err() || last {
                return;
            }
        }
    }
}

/// The blocking end of [`pipe_in`].
#[derive(Debug)]
pub(crate) struct Source {
    rx: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
    finished: bool,
}

impl Source {
    /// The next piece as it came; `None` at the end. A stream that was cut fails.
    pub(crate) fn next(&mut self) -> io::Result<Option<Bytes>> {
        if !self.piece.is_empty() {
            return Ok(Some(std::mem::take(&mut self.piece)));
        }
        if self.finished {
            return Ok(None);
        }
        let piece = self.rx.blocking_recv();
        let piece = piece.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))?;
        self.finished = piece.is_empty();
        Ok((!self.finished).then_some(piece))
    }
}

impl Read for Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.next()? {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let len = self.piece.len().min(buf.len());
        self.piece.copy_to_slice(&mut buf[..len]);
        Ok(len)
    }
}

/// A way from blocking to async: a [`Write`] on one side, an [`AsyncRead`] on the other.
pub(crate) fn pipe_out() -> (Sink, Drain) {
    let (tx, rx) = mpsc::channel(DEPTH);
    let sink = Sink {
        tx,
        piece: Vec::with_capacity(PIECE),
    };
    let drain = Drain {
        rx,
        piece: Bytes::new(),
        finished: false,
    };
    (sink, drain)
}

/// The blocking end of [`pipe_out`]. Without [`Sink::finish`] the other side fails: a stream that
/// was cut must not look whole.
#[derive(Debug)]
pub(crate) struct Sink {
    tx: mpsc::Sender<Option<Bytes>>,
    piece: Vec<u8>,
}

impl Sink {
    /// Ends the stream.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.send(None)
    }

    fn send(&self, message: Option<Bytes>) -> io::Result<()> {
        self.tx
            .blocking_send(message)
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Sink {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let len = buf.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&buf[..len]);
        if self.piece.len() == PIECE {
            self.flush()?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        self.send(Some(piece.into()))
    }
}

/// Copies `from` into `sink` on a thread that may outlive every use of it: it can block for ever
/// in a read of the host's input, and ends with the process.
pub(crate) fn copy_out(
    mut from: File,
    mut sink: Sink,
) -> io::Result<oneshot::Receiver<io::Result<()>>> {
    let (done, end) = oneshot::channel();
    thread::Builder::new()
        .name("copy".to_owned())
        .spawn(move || {
            let copied = loop {
                sink.piece.resize(PIECE, 0);
                match from.read(&mut sink.piece) {
                    Ok(0) => {
                        sink.piece.clear();
                        break sink.finish();
                    }
                    Ok(len) => {
                        sink.piece.truncate(len);
                        if let Err(err) = sink.flush() {
                            break Err(err);
                        }
                    }
                    Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                    Err(err) => break Err(err),
                }
            };
            // Nobody left to tell: the copy was given up.
            let _ = done.send(copied);
        })?;
    Ok(end)
}

/// The async end of [`pipe_out`].
#[derive(Debug)]
pub(crate) struct Drain {
    rx: mpsc::Receiver<Option<Bytes>>,
    piece: Bytes,
    finished: bool,
}

impl AsyncRead for Drain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.piece.is_empty() && !self.finished {
            match ready!(self.rx.poll_recv(cx)) {
                Some(Some(piece)) => self.piece = piece,
                Some(None) => self.finished = true,
                None => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            }
        }
        let len = self.piece.len().min(buf.remaining());
        buf.put_slice(&self.piece.split_to(len));
        Poll::Ready(Ok(()))
    }
}

/// A stream that tells a [`Progress`] what passes.
#[derive(Debug)]
pub(crate) struct Counted<R> {
    inner: R,
    progress: Progress,
}

impl<R> Counted<R> {
    pub(crate) const fn new(inner: R, progress: Progress) -> Self {
        Self { inner, progress }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Counted<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        self.progress.add((buf.filled().len() - before) as u64);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn bytes_cross_from_async_to_blocking_whole() {
        let data: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let (feed, mut source) = pipe_in();
        let reader = tokio::task::spawn_blocking(move || {
            let mut got = Vec::new();
            source.read_to_end(&mut got).map(|_| got)
        });
        feed.run(data.as_slice()).await;
        assert!(reader.await.unwrap().unwrap() == data);
    }

    #[test]
    fn a_feed_that_was_given_up_does_not_look_whole() {
        let (feed, mut source) = pipe_in();
        feed.tx.try_send(Ok(Bytes::from_static(b"half"))).unwrap();
        drop(feed);
        let err = source.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn bytes_cross_from_blocking_to_async_whole() {
        let data: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let (mut sink, mut drain) = pipe_out();
        let sent = data.clone();
        let writer = tokio::task::spawn_blocking(move || {
            sink.write_all(&sent)?;
            sink.finish()
        });
        let mut got = Vec::new();
        drain.read_to_end(&mut got).await.unwrap();
        writer.await.unwrap().unwrap();
        assert!(got == data);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_stream_that_was_cut_does_not_look_whole() {
        let (mut sink, mut drain) = pipe_out();
        sink.write_all(b"half").unwrap();
        drop(sink);
        let err = drain.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::UnexpectedEof);
    }
}
