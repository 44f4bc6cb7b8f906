//! Response bodies that are read with blocking calls: one chunk is read while the one before is sent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::task::JoinHandle;

use crate::http::BodyError;
use crate::pool::Pool;

/// The size of a chunk, in bytes.
pub(crate) const CHUNK: usize = 256 << 10;

/// Chunks of one transfer on their way at once whose buffers are used again.
const KEPT: usize = 4;

/// Buffers of one transfer.
pub(crate) fn pool() -> Arc<Pool> {
    Pool::new(CHUNK, KEPT)
}

/// Something that yields chunks and may block.
pub(crate) trait Source: Send + 'static {
    /// The next chunk; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Bytes>>;
}

type Turn<S> = (S, io::Result<Option<Bytes>>);

/// A body of what a source yields. Dropping it drops the source after the chunk in hand.
#[derive(Debug)]
pub(crate) struct SourceBody<S> {
    turn: Option<JoinHandle<Turn<S>>>,
    left: Option<u64>,
}

impl<S: Source> SourceBody<S> {
    /// `length`: how many bytes the source yields, where that is known.
    pub(crate) fn new(source: S, length: Option<u64>) -> Self {
        Self {
            turn: (length != Some(0)).then(|| take_turn(source)),
            left: length,
        }
    }
}

fn take_turn<S: Source>(mut source: S) -> JoinHandle<Turn<S>> {
    tokio::task::spawn_blocking(move || {
        let chunk = source.next();
        (source, chunk)
    })
}

impl<S: Source> http_body::Body for SourceBody<S> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(turn) = &mut self.turn else {
            return Poll::Ready(None);
        };
        let outcome = ready!(Pin::new(turn).poll(cx));
        self.turn = None;
        Poll::Ready(match outcome {
            Ok((source, Ok(Some(chunk)))) => {
                if let Some(left) = &mut self.left {
                    *left = left.saturating_sub(chunk.len() as u64);
                }
                if self.left != Some(0) {
                    self.turn = Some(take_turn(source));
                }
                Some(Ok(Frame::data(chunk)))
            }
            Ok((_, Ok(None))) => None,
            Ok((_, Err(error))) => Some(Err(error.into())),
            Err(error) => Some(Err(error.into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.turn.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
