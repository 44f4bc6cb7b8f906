//! The messages of a server stream, one by one.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::task::{Context, Poll, ready};

use http::StatusCode;
use namzu_core::{Error, Phase, Result};
use namzu_protocol::connect::{ContentType, EndStream, Envelope, EnvelopeDecoder, Frame};
use namzu_protocol::{Bytes, Codec, WireMessage};

use crate::conn::{Body, Failure, Payload};
use crate::detail::with_details;
use crate::fault;
use crate::worker::{MESSAGE_CAP, Worker, rpc};

/// Crumbs of a message that are put together before others get their turn.
const AT_ONCE: usize = 256;

/// A server stream that is under way. Dropping it tells the worker that nobody listens.
#[derive(Debug)]
pub(crate) struct Messages<M> {
    body: Body,
    decoder: EnvelopeDecoder,
    /// Received and not yet taken apart.
    chunk: Bytes,
    phase: Phase,
    what: &'static str,
    message: PhantomData<fn() -> M>,
}

/// Why there is no next message.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The connection failed: [`Worker::failed`] knows more.
    Connection(Failure),
    /// All else.
    Error(Error),
}

impl<M: WireMessage> Messages<M> {
    /// Asks for the stream; its messages come when they come.
    pub(crate) async fn open<Q: WireMessage>(
        worker: &Worker,
        phase: Phase,
        what: &'static str,
        path: &str,
        request: &Q,
    ) -> Result<Self> {
        let kind = ContentType::Stream(Codec::Proto);
        let body = Envelope::encode(Codec::Proto, request)
            .map_err(|err| {
                Error::new(namzu_core::ErrorCode::InvalidArgument, what)
                    .with_source(err)
                    .during(phase)
            })?
            .into_bytes();
        let call = rpc(path, kind);
        let response = worker.send(phase, what, call, Payload::Full(body)).await?;
        if response.status != StatusCode::OK {
            return Err(worker.refusal_rpc(phase, what, response).await);
        }
        worker.expect_type(phase, what, &response, kind)?;
        Ok(Self {
            body: response.body,
            decoder: EnvelopeDecoder::new(MESSAGE_CAP),
            chunk: Bytes::new(),
            phase,
            what,
            message: PhantomData,
        })
    }

    /// The next message; `None` once the worker ended the stream in good order.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<M>, Broken>> {
        for _ in 0..AT_ONCE {
            let frame = self
                .decoder
                .decode(&mut self.chunk)
                .map_err(|err| self.violation(err))?;
            match frame {
                Some(Frame::Message(payload)) => {
                    let message = Codec::Proto
                        .decode(payload)
                        .map_err(|err| self.violation(err))?;
                    return Poll::Ready(Ok(Some(message)));
                }
                Some(Frame::End(end)) => {
                    if let Some(refusal) = self.refusal(&end) {
                        return Poll::Ready(Err(Broken::Error(refusal)));
                    }
                }
                None => match ready!(self.body.poll_chunk(cx)) {
                    Some(Ok(chunk)) => self.chunk = chunk,
                    Some(Err(failure)) => {
                        return Poll::Ready(Err(Broken::Connection(failure)));
                    }
                    None => {
                        self.decoder
                            .finish_response()
                            .map_err(|err| self.violation(err))?;
                        return Poll::Ready(Ok(None));
                    }
                },
            }
        }
        // A worker that sends crumbs must not hold the thread.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// As [`Self::poll_next`]. Cancel safety: no message is lost.
    pub(crate) async fn next(&mut self, worker: &Worker) -> Result<Option<M>> {
        let next = poll_fn(|cx| self.poll_next(cx)).await;
        match next {
            Ok(message) => Ok(message),
            Err(broken) => Err(self.explain(worker, broken).await),
        }
    }

    /// Turns a break into the error that callers see.
    pub(crate) async fn explain(&self, worker: &Worker, broken: Broken) -> Error {
        match broken {
            Broken::Error(err) => err,
            Broken::Connection(failure) => worker.failed(self.phase, self.what, failure).await,
        }
    }

    pub(crate) fn violation(
        &self,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Broken {
        Broken::Error(fault::violation(self.what, cause).during(self.phase))
    }

    fn refusal(&self, end: &EndStream) -> Option<Error> {
        let error = end.error.as_ref()?;
        let err = fault::refused(self.phase, self.what, error.code, &error.message);
        Some(with_details(err, |name| end.metadata(name)))
    }
}
