//! Sends a stream of unknown length, for as long as it moves.

use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use namzu_core::{Phase, Result};
use tokio::io::{AsyncRead, ReadBuf};

use crate::conn::{Call, Payload, Response};
use crate::worker::Worker;

/// What is known about an upload from the outside.
#[derive(Debug, Default)]
struct Meter {
    bytes: AtomicU64,
    /// The caller's stream has nothing to give at the moment.
    starved: AtomicBool,
}

struct Metered<'a, S> {
    source: S,
    meter: &'a Meter,
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.source).poll_read(cx, buf);
        let more = buf.filled().len() - before;
        self.meter.bytes.fetch_add(more as u64, Ordering::Relaxed);
        self.meter
            .starved
            .store(read.is_pending(), Ordering::Relaxed);
        read
    }
}

/// Sends `source` to its end and gives back the answer, and how many bytes it was.
///
/// Each piece has the deadline of a call. The time in which `source` has nothing to give does not
/// count: it is the caller's.
pub(super) async fn upload(
    worker: &Worker,
    what: &str,
    call: Call,
    source: impl AsyncRead + Send + Unpin,
) -> Result<(Response, u64)> {
    let meter = Meter::default();
    let mut metered = Metered {
        source,
        meter: &meter,
    };
    let mut answer = pin!(worker.conn().send(call, Payload::Source(&mut metered)));
    let mut seen = 0;
    loop {
        let Ok(done) = tokio::time::timeout(worker.request(), answer.as_mut()).await else {
            let moved = meter.bytes.load(Ordering::Relaxed);
            if moved == seen && !meter.starved.load(Ordering::Relaxed) {
                return Err(worker.late(Phase::Files, what));
            }
            seen = moved;
            continue;
        };
        return match done {
            Ok(response) => Ok((response, meter.bytes.load(Ordering::Relaxed))),
            Err(failure) => Err(worker.failed(Phase::Files, what, failure).await),
        };
    }
}
