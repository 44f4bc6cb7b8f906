//! The body of a server stream: replies in envelopes, keep-alives, one end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes};
use http::StatusCode;
use http_body::Frame;
use http_body_util::BodyExt;
use namzu_protocol::connect::{ContentType, EndStream, Envelope, HEADER_LEN};
use namzu_protocol::{Codec, WireMessage};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{Error, Replies};
use crate::http::{BodyError, Response};
use crate::pool::Pool;
use crate::process::LARGE_CHUNK;

/// Replies that are ready at once share a frame up to this size.
const BATCH: usize = 64 * 1024;
/// Room for one more large reply beyond a batch, and for what it is wrapped in.
const BUFFER: usize = BATCH + LARGE_CHUNK + 1024;
/// Frames of one stream on their way at once whose buffers are used again.
const KEPT: usize = 2;
/// Smaller frames are worth no large buffer.
const SMALL: usize = 16 * 1024;

pub(super) fn stream<O: WireMessage + Unpin + 'static>(
    codec: Codec,
    replies: Result<Replies<O>, Error>,
    deadline: Option<Instant>,
    interval: Duration,
    keepalive: fn() -> O,
) -> Response {
    let body = ReplyBody {
        codec,
        source: Source::from(replies),
        buffer: Vec::new(),
        pool: Pool::new(BUFFER, KEPT),
        deadline: deadline.map(|when| Box::pin(sleep_until(when))),
        quiet: Box::pin(sleep_until(Instant::now() + interval)),
        interval,
        keepalive,
    };
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static(ContentType::Stream(codec).as_str()),
    );
    response
}

/// The last message of a stream that failed.
pub(super) fn end_of(error: Error) -> EndStream {
    let end = EndStream::failure(error.code, error.message);
    error
        .metadata
        .into_iter()
        .fold(end, |end, (name, value)| end.with_metadata(name, value))
}

enum Source<O> {
    Replies(Replies<O>),
    Failed(Option<Error>),
    Ended,
}

impl<O> From<Result<Replies<O>, Error>> for Source<O> {
    fn from(replies: Result<Replies<O>, Error>) -> Self {
        match replies {
            Ok(replies) => Self::Replies(replies),
            Err(error) => Self::Failed(Some(error)),
        }
    }
}

struct ReplyBody<O> {
    codec: Codec,
    source: Source<O>,
    buffer: Vec<u8>,
    pool: Arc<Pool>,
    deadline: Option<Pin<Box<Sleep>>>,
    quiet: Pin<Box<Sleep>>,
    interval: Duration,
    keepalive: fn() -> O,
}

impl<O: WireMessage + Unpin> ReplyBody<O> {
    /// Appends what is ready to the buffer.
    fn gather(&mut self, cx: &mut Context<'_>) {
        while self.buffer.len() < BATCH {
            let next = match &mut self.source {
                Source::Ended => return,
                Source::Failed(error) => Poll::Ready(error.take().map(Err)),
                Source::Replies(replies) => replies.as_mut().poll_next(cx),
            };
            match next {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(reply))) => self.append(&reply),
                Poll::Ready(Some(Err(error))) => self.end(&end_of(error)),
                Poll::Ready(None) => self.end(&EndStream::success()),
            }
        }
    }

    /// Whether the deadline is over; if not, the task is woken when it is.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        self.deadline.as_mut().is_some_and(|deadline| {
            // The timer alone says nothing to a task that has used up its turn.
            Instant::now() >= deadline.deadline() || deadline.as_mut().poll(cx).is_ready()
        })
    }

    fn append(&mut self, reply: &O) {
        match self.codec {
            // In place: a reply is copied once, into the frame that leaves.
            Codec::Proto => {
                let length = reply.encoded_len();
                let Ok(announced) = u32::try_from(length) else {
                    return;
                };
                self.buffer.reserve(HEADER_LEN + length);
                self.buffer.put_u8(0);
                self.buffer.put_u32(announced);
                reply.encode_raw(&mut self.buffer);
            }
            Codec::Json => {
                if let Ok(envelope) = Envelope::encode(Codec::Json, reply) {
                    self.buffer.put_slice(&envelope.header);
                    self.buffer.put(envelope.payload);
                }
            }
        }
    }

    /// What has been gathered, as a frame. A stream that is busy works in large buffers, used
    /// again; a quiet one in small ones of its own.
    fn take(&mut self) -> Bytes {
        if self.buffer.capacity() == BUFFER {
            return if self.buffer.len() < SMALL {
                let frame = Bytes::copy_from_slice(&self.buffer);
                self.buffer.clear();
                frame
            } else {
                let frame = std::mem::replace(&mut self.buffer, self.pool.take());
                self.pool.lend(frame)
            };
        }
        let next = if self.buffer.len() < SMALL {
            Vec::new()
        } else {
            self.pool.take()
        };
        std::mem::replace(&mut self.buffer, next).into()
    }

    fn end(&mut self, end: &EndStream) {
        if let Ok(envelope) = Envelope::end(end) {
            self.buffer.put_slice(&envelope.header);
            self.buffer.put(envelope.payload);
        }
        // What made the replies is let go now, not when the peer has read the end.
        self.source = Source::Ended;
    }
}

impl<O: WireMessage + Unpin> http_body::Body for ReplyBody<O> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        // Before anything is gathered: a command that never pauses must not outrun its deadline.
        if this.is_late(cx) && !matches!(this.source, Source::Ended) {
            this.end(&end_of(Error::deadline()));
        }
        this.gather(cx);
        if this.buffer.is_empty() {
            if matches!(this.source, Source::Ended) {
                return Poll::Ready(None);
            }
            if this.quiet.as_mut().poll(cx).is_ready() {
                this.append(&(this.keepalive)());
            } else {
                return Poll::Pending;
            }
        }
        // The timer is moved even if it is not polled before the next silence.
        this.quiet.as_mut().reset(Instant::now() + this.interval);
        Poll::Ready(Some(Ok(Frame::data(this.take()))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.source, Source::Ended) && self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use namzu_protocol::connect::{Code, EnvelopeDecoder, Frame as Read};
    use namzu_protocol::process::StartResponse;

    use super::*;

    /// Never has nothing to say.
    struct Babbler;

    impl futures_core::Stream for Babbler {
        type Item = Result<StartResponse, Error>;

        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(Some(Ok(StartResponse::default())))
        }
    }

    #[tokio::test]
    async fn a_deadline_ends_a_stream_that_is_never_silent() {
        let replies: Replies<StartResponse> = Box::pin(Babbler);
        let response = stream(
            Codec::Proto,
            Ok(replies),
            Some(Instant::now()),
            Duration::from_secs(1000),
            StartResponse::default,
        );
        let mut decoder = EnvelopeDecoder::new(1024);
        let mut bytes = response.into_body().frame().await.unwrap().unwrap();
        let Read::End(end) = decoder.decode(bytes.data_mut().unwrap()).unwrap().unwrap() else {
            panic!("a reply after the deadline");
        };
        assert_eq!(end.error.unwrap().code, Code::DeadlineExceeded);
    }
}
