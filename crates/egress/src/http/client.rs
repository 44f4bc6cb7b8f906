//! A connection from inside, as HTTP sees it.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::scan::{Kind, Scan};
use crate::Reason;
use crate::stream::Line;

/// For a head to come in whole.
const HEAD: Duration = Duration::from_secs(10);
/// Between two requests.
const IDLE: Duration = Duration::from_secs(120);
/// For a client to take note of an answer before which it was not read to its end.
const LINGER: Duration = Duration::from_secs(1);
/// What is read of such a client, at most.
const LINGER_BYTES: usize = 1024 * 1024;
/// What is read at once of a head.
pub(super) const ROOM: usize = 8 * 1024;
/// An idle connection that holds more room than this gives it up.
const LARGEST_IDLE: usize = 16 * 1024;

/// A connection from inside, and what was read of it and not looked at yet.
pub(super) struct Client<S> {
    pub(super) io: S,
    pub(super) buffer: BytesMut,
    /// What is to be written to it.
    pub(super) out: BytesMut,
    clock: Clock,
    /// It has sent a request.
    known: bool,
}

/// Why there is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHead {
    /// The connection is over, or was idle too long.
    Over,
    /// Something came that is none.
    Refused(Reason),
}

/// One timer a connection. It is moved only when something is due before it: a timer that rings too early
/// costs one wake-up, one that is moved with each request costs each request.
struct Clock(Option<Pin<Box<Sleep>>>);

impl Clock {
    async fn until(&mut self, at: Instant) {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if sleep.deadline() > at {
            sleep.as_mut().reset(at);
        }
        loop {
            sleep.as_mut().await;
            if Instant::now() >= at {
                return;
            }
            sleep.as_mut().reset(at);
        }
    }
}

/// Gives up the room of empty buffers that hold much of it, before a connection is idle.
pub(super) fn slim(buffers: [&mut BytesMut; 2]) {
    for buffer in buffers {
        if buffer.is_empty() && buffer.capacity() > LARGEST_IDLE {
            *buffer = BytesMut::new();
        }
    }
}

impl<S: Line> Client<S> {
    pub(super) fn new(io: S, early: BytesMut) -> Self {
        Self {
            io,
            buffer: early,
            out: BytesMut::new(),
            clock: Clock(None),
            known: false,
        }
    }

    /// Reads the next head, and no further than what came with it.
    pub(super) async fn head(&mut self) -> Result<Bytes, NoHead> {
        slim([&mut self.buffer, &mut self.out]);
        if self.buffer.is_empty() {
            let idle = if self.known { IDLE } else { HEAD };
            self.fill(Instant::now() + idle)
                .await
                .map_err(|_| NoHead::Over)?;
        }
        self.known = true;
        let due = Instant::now() + HEAD;
        // Some clients of old end a body with a line end that it does not have.
        while self.buffer[..] == b"\r"[..] {
            self.fill(due).await?;
        }
        if self.buffer.starts_with(b"\r\n") {
            self.buffer.advance(2);
        }
        let mut scan = Scan::new(Kind::Request);
        loop {
            if let Some(end) = scan.end(&self.buffer).map_err(NoHead::Refused)? {
                let head = Bytes::copy_from_slice(&self.buffer[..end]);
                self.buffer.advance(end);
                return Ok(head);
            }
            self.fill(due).await?;
        }
    }

    async fn fill(&mut self, due: Instant) -> Result<(), NoHead> {
        self.buffer.reserve(ROOM);
        tokio::select! {
            biased;
            read = self.io.read_buf(&mut self.buffer) => match read {
                Ok(read) if read > 0 => Ok(()),
                _ => Err(NoHead::Over),
            },
            () = self.clock.until(due) => Err(NoHead::Refused(Reason::Deadline)),
        }
    }

    /// Writes what is to be written. Says whether the client is still there.
    pub(super) async fn flush(&mut self) -> bool {
        let written = self.io.write_all(&self.out).await.is_ok();
        self.out.clear();
        written && self.io.flush().await.is_ok()
    }

    /// Ends the connection so that the last answer arrives: what is still on its way here would else have
    /// the kernel reset it.
    pub(super) async fn finish(mut self) {
        if self.io.shutdown().await.is_err() {
            return;
        }
        let drained = async {
            let mut left = LINGER_BYTES;
            loop {
                self.buffer.clear();
                self.buffer.reserve(ROOM);
                match self.io.read_buf(&mut self.buffer).await {
                    Ok(read) if read > 0 && read < left => left -= read,
                    _ => return,
                }
            }
        };
        // A client that goes on sending is reset after all.
        let _ = timeout(LINGER, drained).await;
    }
}
