//! The thread that writes audit lines, and its queue.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::chain::Link;
use super::{AuditSink, Line};
use crate::Reason;
use crate::lock::locked;
use crate::metrics::Metrics;

/// Lines of one sandbox that may wait. What is admitted waits for room among these.
const ROOM: usize = 4096;
/// Lines of one sandbox that may wait before its refusals, which are not held back, are only counted.
const ROOM_FOR_REFUSALS: usize = 2 * ROOM;
/// Lines that may wait at all. Ends are not held back either, but there are no more of them than flows that
/// were admitted while there was room.
const MOST: usize = 1 << 16;
/// How long something that is to be admitted waits for room.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts to write what could not be written.
const AGAIN: Duration = Duration::from_millis(200);

/// The near end of the queue. Dropping it lets the thread write what waits, and end.
pub(super) struct Writer(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    /// Told when a line came, or the last will have.
    filled: Condvar,
    /// Told when there is room again, or the medium failed.
    drained: Notify,
    failing: AtomicBool,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Waiting>,
    over: bool,
}

struct Waiting {
    /// A JSON object without its closing brace.
    text: String,
    of: Room,
}

/// How many lines of one sandbox wait, those that are being written among them.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Arc<AtomicUsize>);

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        locked(&self.queue)
    }

    /// Whether something may be admitted now; `None` while that has to wait.
    fn ready(&self, room: &Room) -> Option<Result<(), Reason>> {
        if self.failing.load(Acquire) {
            return Some(Err(Reason::AuditFailed));
        }
        (room.0.load(Acquire) < ROOM && self.queue().lines.len() < MOST).then_some(Ok(()))
    }

    /// A line of a sandbox was written.
    fn written(&self, of: &Room) {
        if of.0.fetch_sub(1, Release) == ROOM {
            self.drained.notify_waiters();
        }
    }

    /// The state of the medium changed.
    fn failing(&self, failing: bool) {
        self.failing.store(failing, Release);
        self.drained.notify_waiters();
    }
}

impl Writer {
    pub(super) fn start(sink: Arc<dyn AuditSink>, metrics: Arc<Metrics>) -> io::Result<Self> {
        let link = match sink.last()? {
            None => Link::start(),
            Some(line) => Link::after(&line).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the last line of the audit log is none of ours",
                )
            })?,
        };
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            filled: Condvar::new(),
            drained: Notify::new(),
            failing: AtomicBool::new(false),
            metrics,
        });
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("egress-audit".to_owned())
            .spawn(move || write(&theirs, &*sink, link))?;
        Ok(Self(shared))
    }

    pub(super) async fn ready(&self, room: &Room) -> Result<(), Reason> {
        match self.0.ready(room) {
            Some(now) => now,
            // Rare, and waited for by many: not part of what every flow keeps.
            None => Box::pin(self.wait(room)).await,
        }
    }

    async fn wait(&self, room: &Room) -> Result<(), Reason> {
        let wait = async {
            loop {
                // Before the look: what is told between the two is not missed.
                let drained = self.0.drained.notified();
                if let Some(now) = self.0.ready(room) {
                    return now;
                }
                drained.await;
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .unwrap_or(Err(Reason::AuditFailed))
    }

    /// Has a line written, and says how many bytes it takes: none where it is only counted.
    pub(super) fn push(&self, line: &Line<'_>, room: &Room) -> usize {
        if line.refuses() && room.0.load(Acquire) >= ROOM_FOR_REFUSALS {
            self.0.metrics.audit_lost.fetch_add(1, Relaxed);
            return 0;
        }
        // Data of ours with no maps in it: this does not fail.
        let Ok(mut text) = serde_json::to_string(line) else {
            return 0;
        };
        text.pop();
        let length = text.len() + Link::BYTES;
        let mut queue = self.0.queue();
        if queue.lines.len() >= MOST {
            drop(queue);
            self.0.metrics.audit_lost.fetch_add(1, Relaxed);
            return 0;
        }
        room.0.fetch_add(1, Release);
        queue.lines.push_back(Waiting {
            text,
            of: room.clone(),
        });
        drop(queue);
        self.0.filled.notify_one();
        length
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.queue().over = true;
        self.0.filled.notify_one();
    }
}

/// Writes what comes, until the other end is dropped and the queue is empty or the medium fails.
fn write(shared: &Shared, sink: &dyn AuditSink, mut link: Link) {
    loop {
        let mut queue = shared.queue();
        while queue.lines.is_empty() {
            if queue.over {
                return;
            }
            queue = shared
                .filled
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let batch = std::mem::take(&mut queue.lines);
        drop(queue);
        shared.drained.notify_waiters();
        for waiting in batch {
            let line = link.close(&waiting.text);
            if !persist(shared, sink, line.as_bytes()) {
                return;
            }
            link.advance(line.as_bytes());
            shared.written(&waiting.of);
        }
    }
}

/// Writes one line, as often as it takes; whether it was written before the end.
fn persist(shared: &Shared, sink: &dyn AuditSink, line: &[u8]) -> bool {
    loop {
        let result = sink.write(line);
        shared.metrics.audit_lines.count(&result);
        let failed = shared.failing.load(Relaxed);
        match result {
            Ok(()) => {
                if failed {
                    tracing::info!("the audit log can be written again");
                    shared.failing(false);
                }
                return true;
            }
            Err(why) => {
                if !failed {
                    tracing::error!(%why, "the audit log cannot be written: nothing is let out");
                    shared.failing(true);
                }
            }
        }
        let queue = shared.queue();
        if queue.over {
            tracing::error!("audit lines were lost: the log could not be written to the end");
            return false;
        }
        // Woken early by each line that comes, it tries no harm.
        drop(shared.filled.wait_timeout(queue, AGAIN));
    }
}
