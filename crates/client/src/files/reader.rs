//! A file or a tar stream, piece by piece.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::CONTENT_LENGTH;
use namzu_core::{Error, ErrorCode, Phase};
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::conn::{Body, Response};
use crate::fault;
use crate::worker::Worker;

/// Bytes of a file or a tar stream, as they come. What is inside its [`io::Error`] is a
/// [`namzu_core::Error`].
///
/// Its pieces are large: [`tokio::io::copy_buf`] passes them on whole.
pub struct FileReader {
    body: Body,
    /// Received and not yet read.
    rest: Bytes,
    len: Option<u64>,
    what: &'static str,
    /// How long one piece may take.
    limit: Duration,
    /// Runs while a piece is awaited.
    alarm: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

/// What the head of a response says about its length.
pub(super) fn length(response: &Response) -> Option<u64> {
    response
        .headers
        .get(CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

impl FileReader {
    pub(super) fn new(worker: &Worker, what: &'static str, response: Response) -> Self {
        Self {
            len: length(&response),
            body: response.body,
            rest: Bytes::new(),
            what,
            limit: worker.request(),
            alarm: None,
            waiting: false,
        }
    }

    /// How many bytes there will be, where the worker said so.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a length announced, not one held"
    )]
    pub const fn len(&self) -> Option<u64> {
        self.len
    }

    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let limit = self.limit;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(limit)));
        if !self.waiting {
            self.waiting = true;
            if let Some(at) = Instant::now().checked_add(limit) {
                alarm.as_mut().reset(at);
            }
        }
        ready!(alarm.as_mut().poll(cx));
        let err = Error::new(
            ErrorCode::RequestTimeout,
            format!("{}: nothing came within {limit:?}", self.what),
        );
        Poll::Ready(Err(io::Error::other(err.during(Phase::Files))))
    }
}

impl fmt::Debug for FileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileReader")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl AsyncBufRead for FileReader {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        while this.rest.is_empty() {
            match this.body.poll_chunk(cx) {
                Poll::Pending => {
                    ready!(this.poll_alarm(cx))?;
                }
                Poll::Ready(None) => break,
                Poll::Ready(Some(Ok(chunk))) => {
                    this.waiting = false;
                    this.rest = chunk;
                }
                Poll::Ready(Some(Err(failure))) => {
                    let err = fault::failed(this.what, failure).during(Phase::Files);
                    return Poll::Ready(Err(io::Error::other(err)));
                }
            }
        }
        Poll::Ready(Ok(&this.rest))
    }

    fn consume(mut self: Pin<&mut Self>, amount: usize) {
        self.rest.advance(amount);
    }
}

impl AsyncRead for FileReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let piece = ready!(self.as_mut().poll_fill_buf(cx))?;
        let taken = piece.len().min(buf.remaining());
        buf.put_slice(&piece[..taken]);
        self.consume(taken);
        Poll::Ready(Ok(()))
    }
}
