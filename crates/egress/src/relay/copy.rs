//! From stream to stream through buffers, for what is no bare socket on both sides.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use super::stock::Buffer;
use super::{End, Meter, Way};
use crate::stream::Line;

/// After so many rounds others get their turn.
const ROUNDS: u32 = 32;

/// One way of a flow.
struct Carrier<'a> {
    way: Way,
    /// Held only while there is something in it.
    buffer: Option<Buffer<'a>>,
    start: usize,
    end: usize,
    /// Something was written that may not have left yet.
    unflushed: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The end was read, and is to be passed on.
    Ending,
    Ended,
}

/// Carries both ways until both have ended.
pub(super) async fn both<A: Line, B: Line>(
    meter: &Meter<'_>,
    inside: &mut A,
    outside: &mut B,
) -> Result<(), End> {
    let mut up = Carrier::new(Way::Up);
    let mut down = Carrier::new(Way::Down);
    poll_fn(|cx| {
        let up = up.poll(cx, meter, inside, outside)?;
        let down = down.poll(cx, meter, outside, inside)?;
        if up.is_ready() && down.is_ready() {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    })
    .await
}

impl<'a> Carrier<'a> {
    const fn new(way: Way) -> Self {
        Self {
            way,
            buffer: None,
            start: 0,
            end: 0,
            unflushed: false,
            state: State::Open,
        }
    }

    fn poll<R: Line, W: Line>(
        &mut self,
        cx: &mut Context<'_>,
        meter: &Meter<'a>,
        from: &mut R,
        to: &mut W,
    ) -> Poll<Result<(), End>> {
        for _ in 0..ROUNDS {
            match self.state {
                State::Ended => return Poll::Ready(Ok(())),
                State::Ending => {
                    // A peer that is gone by now needs no telling.
                    let _ = ready!(Pin::new(&mut *to).poll_shutdown(cx));
                    self.state = State::Ended;
                }
                State::Open if self.start < self.end => ready!(self.put(cx, to))?,
                State::Open => ready!(self.get(cx, meter, from, to))?,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn put<W: Line>(&mut self, cx: &mut Context<'_>, to: &mut W) -> Poll<Result<(), End>> {
        let held = self.buffer.as_deref().unwrap_or_default();
        let put = ready!(Pin::new(to).poll_write(cx, &held[self.start..self.end]));
        match put {
            Ok(0) | Err(_) => Poll::Ready(Err(End::Broken)),
            Ok(put) => {
                self.start += put;
                self.unflushed = true;
                Poll::Ready(Ok(()))
            }
        }
    }

    fn get<R: Line, W: Line>(
        &mut self,
        cx: &mut Context<'_>,
        meter: &Meter<'a>,
        from: &mut R,
        to: &mut W,
    ) -> Poll<Result<(), End>> {
        let mut buffer = self.buffer.take().unwrap_or_else(|| meter.stock.buffer());
        let mut room = ReadBuf::new(&mut buffer);
        match Pin::new(from).poll_read(cx, &mut room) {
            Poll::Pending => {
                if self.unflushed {
                    ready!(Pin::new(to).poll_flush(cx)).map_err(|_| End::Broken)?;
                    self.unflushed = false;
                }
                Poll::Pending
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(End::Broken)),
            Poll::Ready(Ok(())) => {
                let got = room.filled().len();
                if got == 0 {
                    self.state = State::Ending;
                    return Poll::Ready(Ok(()));
                }
                meter.count(self.way, got)?;
                (self.start, self.end) = (0, got);
                self.buffer = Some(buffer);
                Poll::Ready(Ok(()))
            }
        }
    }
}
