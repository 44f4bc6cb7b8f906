//! One reader of a command's output and end.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::Exit;
use super::command::{LARGE_CHUNK, Process};
use super::log::{Chunk, Position};

/// What a subscription yields; nothing follows `End` or `Expired`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// Output.
    Data(Chunk),
    /// The command is over.
    End(Exit),
    /// `StartSpec::deadline` passed; only the first subscription is told so.
    Expired,
}

/// A reader. Dropping it frees its place; dropping the first one of a command that was started
/// with `kill_on_disconnect` kills the command's tree.
#[derive(Debug)]
pub(crate) struct Subscription {
    process: Arc<Process>,
    /// Its place among the wakers.
    slot: usize,
    position: Position,
    /// The most bytes of an event.
    most: usize,
    first: bool,
    done: bool,
}

impl Subscription {
    pub(super) fn new(process: Arc<Process>, position: Position, first: bool) -> Self {
        let slot = process.state().subscribe();
        Self {
            most: process.chunk_bytes(),
            process,
            slot,
            position,
            first,
            done: false,
        }
    }

    /// For a reader that is known to take events larger than envd's.
    pub(crate) fn in_large_events(mut self) -> Self {
        self.most = LARGE_CHUNK;
        self
    }

    /// The next event, or `None` after the last.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.done {
            return Poll::Ready(None);
        }
        let mut state = self.process.state();
        if self.first && state.expired {
            self.done = true;
            return Poll::Ready(Some(Event::Expired));
        }
        if let Some(chunk) = state.log.next(&mut self.position, self.most) {
            if self.first && state.first_read(self.position) {
                self.process.room.notify_one();
            }
            return Poll::Ready(Some(Event::Data(chunk)));
        }
        if let Some(exit) = state.end {
            if let Some(chunk) = state.log.give_up(&mut self.position) {
                return Poll::Ready(Some(Event::Data(chunk)));
            }
            self.done = true;
            return Poll::Ready(Some(Event::End(exit)));
        }
        state.wait(self.slot, cx.waker());
        Poll::Pending
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let running = {
            let mut state = self.process.state();
            state.unsubscribe(self.slot);
            if self.first {
                state.release_first();
                self.process.room.notify_one();
            }
            state.end.is_none()
        };
        if self.first && running && self.process.kill_on_disconnect {
            self.process.kill_tree();
        }
    }
}
