//! From a command's pipes into its log, and from its leader's exit to its end.

use std::future::{pending, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use rustix::process::Signal;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use super::command::{LARGE_CHUNK, Process};
use super::{Exit, Stream, table};
use crate::pool::Pool;

/// How long after the leader's exit, and after what it left in the pipes was read, a background
/// process may hold back the end.
const GRACE: Duration = Duration::from_millis(500);

/// What is read at once of a stream that keeps its pipe full.
const LARGE: usize = LARGE_CHUNK;
/// What the pipe of such a stream holds, if the kernel allows it: all pipes of a user share an
/// allowance, so the others keep what they have.
const LARGE_PIPE: usize = 2 * LARGE;
/// Large buffers kept for all commands together.
const KEPT: usize = 4;
const SMALL: usize = 4 * 1024;

/// The reading end of one stream.
pub(super) struct Source {
    pub(super) stream: Stream,
    pub(super) fd: Arc<AsyncFd<OwnedFd>>,
    buffer: Vec<u8>,
    pool: Arc<Pool>,
    /// Bytes that were in the pipe when the leader ended and are still to be read.
    owed: u64,
    /// The pipe was made larger, or cannot be.
    grown: bool,
}

/// The buffers of all commands.
pub(super) fn pool() -> Arc<Pool> {
    Pool::new(LARGE, KEPT)
}

/// What may cut a command short.
#[derive(Debug, Default)]
pub(super) struct Timers {
    pub(super) timeout: Option<Instant>,
    pub(super) term_grace: Duration,
    pub(super) deadline: Option<Instant>,
}

impl Source {
    pub(super) fn new(stream: Stream, fd: Arc<AsyncFd<OwnedFd>>, pool: Arc<Pool>) -> Self {
        Self {
            stream,
            fd,
            buffer: Vec::new(),
            pool,
            owed: 0,
            grown: stream == Stream::Pty,
        }
    }

    /// The next bytes; empty at the end of the stream.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        loop {
            let Ok(mut ready) = ready!(self.fd.poll_read_ready(cx)) else {
                return Poll::Ready(Bytes::new());
            };
            if self.buffer.capacity() == 0 {
                self.buffer = Vec::with_capacity(SMALL);
            }
            let buffer = &mut self.buffer;
            let read = ready.try_io(|fd| {
                Ok(rustix::io::read(
                    fd,
                    rustix::buffer::spare_capacity(buffer),
                )?)
            });
            match read {
                Ok(Ok(count)) => {
                    // A short read has emptied a pipe (not a terminal): what comes next rings again.
                    if self.stream != Stream::Pty && buffer.len() < buffer.capacity() {
                        ready.clear_ready();
                    }
                    return Poll::Ready(self.take(count));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                // A terminal says EIO when its last process is gone.
                Ok(Err(_)) => return Poll::Ready(Bytes::new()),
                Err(_would_block) => {}
            }
        }
    }

    fn take(&mut self, count: usize) -> Bytes {
        self.owed = self.owed.saturating_sub(count as u64);
        if count >= LARGE / 2 {
            if !std::mem::replace(&mut self.grown, true) {
                // Refused beyond the allowance; it works as it is, too.
                let _ = rustix::pipe::fcntl_setpipe_size(&*self.fd, LARGE_PIPE);
            }
            let full = std::mem::replace(&mut self.buffer, self.pool.take());
            return self.pool.lend(full);
        }
        // What is kept of a small chunk is no more than itself.
        let bytes = Bytes::copy_from_slice(&self.buffer);
        self.buffer.clear();
        if count == self.buffer.capacity() {
            // There is more: the next read takes all that the pipe holds.
            self.buffer = self.pool.take();
        }

        bytes
    }
}

/// Runs a command to its end, then keeps its pipes empty while somebody holds them.
pub(super) async fn run(
    process: Arc<Process>,
    mut sources: Vec<Source>,
    timers: Timers,
    table: Arc<table::Shared>,
) {
    read_until_end(&process, &mut sources, timers).await;
    let exit = exit(&process);
    process.state().finish(exit);
    // A write in progress holds the lock; it fails or the process is forgotten some time.
    if let Ok(mut stdin) = process.stdin.try_lock() {
        *stdin = None;
    }
    // A terminal goes away with its session; what still runs on it is hung up.
    let terminal = process
        .terminal
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    drop(terminal);
    sources.retain(|source| source.stream != Stream::Pty);
    table.retire(&process);
    while !sources.is_empty() {
        next_read(&mut sources).await;
    }
    // The handle would keep this task's memory for as long as the ended command is known.
    process
        .pump
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
}

async fn read_until_end(process: &Process, sources: &mut Vec<Source>, mut timers: Timers) {
    let mut kill_at = None;
    let mut grace_end = None;
    loop {
        let owed = sources.iter().any(|source| source.owed > 0);
        let over =
            grace_end.is_some_and(|end| sources.is_empty() || (!owed && Instant::now() >= end));
        if over {
            return;
        }
        let running = grace_end.is_none();
        let room = process.state().has_room();
        if running {
            // Not by the alarm alone: a pipe that is never empty comes before it.
            fire(process, &mut timers, &mut kill_at);
        }
        let wake = if running {
            [timers.deadline, timers.timeout, kill_at]
                .into_iter()
                .flatten()
                .min()
        } else {
            // While bytes are owed, only reading them can end the wait.
            grace_end.filter(|_| !owed)
        };
        let alarm = async {
            match wake {
                Some(when) => sleep_until(when).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = process.exited.notified(), if running => {
                let timed_out = process.state().timed_out;
                if timed_out {
                    process.kill_tree();
                }
                for source in &mut *sources {
                    source.owed = rustix::io::ioctl_fionread(&*source.fd).unwrap_or(0);
                }
                grace_end = Some(Instant::now() + GRACE);
            }
            (stream, bytes) = next_read(sources), if room && !sources.is_empty() => {
                if !bytes.is_empty() {
                    process.state().push(stream, bytes);
                }
            }
            () = process.room.notified(), if !room => {}
            // What is due is done above.
            () = alarm => {}
        }
    }
}

/// Acts on whatever is due.
fn fire(process: &Process, timers: &mut Timers, kill_at: &mut Option<Instant>) {
    let now = Instant::now();
    let due = |when: &mut Option<Instant>| when.take_if(|when| *when <= now).is_some();
    if due(&mut timers.deadline) {
        process.state().expire();
        process.kill_tree();
    }
    if due(&mut timers.timeout) {
        process.state().timed_out = true;
        if timers.term_grace.is_zero() {
            process.kill_tree();
        } else {
            process.signal_tree(Signal::TERM);
            *kill_at = Some(now + timers.term_grace);
        }
    }
    if due(kill_at) {
        process.kill_tree();
    }
}

/// The next bytes of any source; an empty read is its end, and takes it off the list.
async fn next_read(sources: &mut Vec<Source>) -> (Stream, Bytes) {
    poll_fn(|cx| {
        for index in 0..sources.len() {
            if let Poll::Ready(bytes) = sources[index].poll_read(cx) {
                let stream = sources[index].stream;
                if bytes.is_empty() {
                    sources.remove(index);
                } else {
                    // The others come first next time.
                    sources.rotate_left(index + 1);
                }
                return Poll::Ready((stream, bytes));
            }
        }
        Poll::Pending
    })
    .await
}

fn exit(process: &Process) -> Exit {
    let state = process.state();
    let reaped = state.reaped;
    Exit {
        code: reaped.map_or(-1, |reaped| reaped.code),
        signal: reaped.map_or(0, |reaped| reaped.signal),
        timed_out: state.timed_out,
        oom: reaped.is_some_and(|reaped| reaped.oom),
        written: state.log.written(),
        user: reaped.map(|reaped| reaped.user).unwrap_or_default(),
        system: reaped.map(|reaped| reaped.system).unwrap_or_default(),
        max_rss: reaped.map(|reaped| reaped.max_rss).unwrap_or_default(),
        duration: reaped
            .map(|reaped| reaped.at - process.started_at)
            .unwrap_or_default(),
    }
}
