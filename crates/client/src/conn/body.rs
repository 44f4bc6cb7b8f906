//! The body of a response, as it comes.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use http_body::Body as _;
use hyper::body::Incoming;

use super::Failure;

/// Dropping it tells the worker that nobody listens any more.
pub(crate) enum Body {
    Mux {
        recv: RecvStream,
        /// Held so that the stream is reset only when both halves are done with.
        _send: Option<SendStream<Bytes>>,
    },
    Pool(Incoming),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

impl Body {
    /// The next piece; `None` at the end. Never longer than the flow-control window.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Failure>>> {
        match self {
            Self::Mux { recv, .. } => match ready!(recv.poll_data(cx)) {
                None => Poll::Ready(None),
                Some(Err(err)) => Poll::Ready(Some(Err(super::mux::classify(err)))),
                Some(Ok(chunk)) => {
                    // It is the caller's memory from here on: let the worker send on.
                    if let Err(err) = recv.flow_control().release_capacity(chunk.len()) {
                        return Poll::Ready(Some(Err(super::mux::classify(err))));
                    }
                    Poll::Ready(Some(Ok(chunk)))
                }
            },
            Self::Pool(incoming) => loop {
                return match ready!(Pin::new(&mut *incoming).poll_frame(cx)) {
                    None => Poll::Ready(None),
                    Some(Err(err)) => Poll::Ready(Some(Err(super::pool::classify(err)))),
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(chunk) => Poll::Ready(Some(Ok(chunk))),
                        Err(_trailers) => continue,
                    },
                };
            },
        }
    }

    /// As [`Self::poll_chunk`]. Cancel safety: no byte is lost.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, Failure>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// The whole body, or a violation once it is longer than `cap`.
    pub(crate) async fn collect(mut self, cap: usize) -> Result<Bytes, Failure> {
        let Some(first) = self.chunk().await.transpose()? else {
            return Ok(Bytes::new());
        };
        let mut whole = Vec::new();
        let mut next = Some(first);
        while let Some(chunk) = next {
            if chunk.len() > cap - whole.len() {
                return Err(Failure::Violation(
                    format!("a response is longer than {cap} bytes").into(),
                ));
            }
            let more = self.chunk().await.transpose()?;
            if more.is_none() && whole.is_empty() {
                return Ok(chunk);
            }
            whole.extend_from_slice(&chunk);
            next = more;
        }
        Ok(whole.into())
    }
}
