//! A subscription of which only the beginning and the end of each stream are passed on.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use super::{Chunk, Event, Stream, Subscription};

/// Passes on the first `head` bytes of each stream as they come, and its last `tail` bytes
/// before the end.
#[derive(Debug)]
pub(super) struct Capped {
    events: Subscription,
    windows: [Window; 3],
    /// What comes before anything else: held back output, then the end.
    last: VecDeque<Event>,
    ended: bool,
}

impl Capped {
    pub(super) fn new(events: Subscription, head: u64, tail: usize) -> Self {
        let windows = Stream::ALL.map(|_| Window {
            head,
            tail,
            passed: 0,
            held: VecDeque::new(),
            held_bytes: 0,
        });
        Self {
            events,
            windows,
            last: VecDeque::new(),
            ended: false,
        }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            if let Some(event) = self.last.pop_front() {
                return Poll::Ready(Some(event));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match std::task::ready!(self.events.poll_next(cx)) {
                Some(Event::Data(chunk)) => {
                    let window = &mut self.windows[chunk.stream.index()];
                    if let Some(chunk) = window.take(chunk) {
                        return Poll::Ready(Some(Event::Data(chunk)));
                    }
                }
                Some(last) => {
                    self.ended = true;
                    for window in &mut self.windows {
                        self.last.extend(window.release().map(Event::Data));
                    }
                    self.last.push_back(last);
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

#[derive(Debug)]
struct Window {
    head: u64,
    tail: usize,
    /// Where what was passed on ends.
    passed: u64,
    held: VecDeque<Chunk>,
    held_bytes: usize,
}

impl Window {
    /// The part of a chunk that is passed on at once; the rest is held back.
    fn take(&mut self, mut chunk: Chunk) -> Option<Chunk> {
        let room = self.head.saturating_sub(chunk.offset);
        let now = usize::try_from(room)
            .unwrap_or(usize::MAX)
            .min(chunk.bytes.len());
        let mut head = chunk.clone();
        head.bytes = chunk.bytes.split_to(now);
        chunk.offset += now as u64;
        if !chunk.bytes.is_empty() {
            self.held_bytes += chunk.bytes.len();
            self.held.push_back(chunk);
            self.forget();
        }
        if head.bytes.is_empty() {
            return None;
        }
        self.passed = head.offset + head.bytes.len() as u64;
        Some(head)
    }

    fn forget(&mut self) {
        while self.held_bytes > self.tail {
            let Some(front) = self.held.front_mut() else {
                return;
            };
            let excess = (self.held_bytes - self.tail).min(front.bytes.len());
            // A copy of the rest of a chunk does not keep the whole of it alive.
            front.bytes = bytes::Bytes::copy_from_slice(&front.bytes[excess..]);
            front.offset += excess as u64;
            self.held_bytes -= excess;
            if front.bytes.is_empty() {
                self.held.pop_front();
            }
        }
    }

    /// What was held back, in order, each chunk saying what is missing before it.
    fn release(&mut self) -> impl Iterator<Item = Chunk> {
        let mut end = self.passed;
        std::mem::take(&mut self.held)
            .into_iter()
            .map(move |mut chunk| {
                chunk.skipped = chunk.offset.saturating_sub(end);
                end = chunk.offset + chunk.bytes.len() as u64;
                chunk
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(offset: u64, text: &str) -> Chunk {
        let bytes = bytes::Bytes::copy_from_slice(text.as_bytes());
        Chunk {
            stream: Stream::Stdout,
            offset,
            skipped: 0,
            bytes,
        }
    }

    fn window(head: u64, tail: usize) -> Window {
        Window {
            head,
            tail,
            passed: 0,
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    #[test]
    fn the_beginning_and_the_end_are_passed_on() {
        let mut window = window(3, 2);
        assert_eq!(window.take(chunk(0, "abcde")), Some(chunk(0, "abc")));
        assert_eq!(window.take(chunk(5, "fghij")), None);
        let rest: Vec<_> = window.release().collect();
        assert_eq!(
            rest,
            [Chunk {
                skipped: 5,
                ..chunk(8, "ij")
            }]
        );
    }

    #[test]
    fn output_that_fits_is_whole() {
        let mut window = window(2, 4);
        let head = window.take(chunk(0, "abcd")).unwrap();
        assert_eq!(window.take(chunk(4, "ef")), None);
        let rest: Vec<_> = window.release().collect();
        assert_eq!(
            (head, rest),
            (chunk(0, "ab"), vec![chunk(2, "cd"), chunk(4, "ef")])
        );
    }

    #[test]
    fn no_tail_holds_nothing() {
        let mut window = window(1, 0);
        window.take(chunk(0, "abc"));
        assert_eq!((window.held_bytes, window.release().count()), (0, 0));
    }
}
