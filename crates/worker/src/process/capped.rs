//! A subscription of which only the beginning and the end of each stream are passed on.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use bytes::Bytes;

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
        Self {
            events,
            windows: Stream::ALL.map(|_| Window::new(head, tail)),
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
                    for stream in Stream::ALL {
                        let window = &mut self.windows[stream.index()];
                        self.last.extend(window.release(stream).map(Event::Data));
                    }
                    self.last.push_back(last);
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

/// The last bytes are let go in pieces of this size.
const PIECE: usize = 64 * 1024;

#[derive(Debug)]
struct Window {
    head: u64,
    tail: usize,
    /// Where what was passed on ends.
    passed: u64,
    /// The latest bytes that were not passed on, however small the chunks were that they came in.
    held: VecDeque<u8>,
    /// Where they end.
    end: u64,
}

impl Window {
    fn new(head: u64, tail: usize) -> Self {
        Self {
            head,
            tail,
            passed: 0,
            held: VecDeque::new(),
            end: 0,
        }
    }

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
            self.hold(&chunk);
        }
        if head.bytes.is_empty() {
            return None;
        }
        self.passed = head.offset + head.bytes.len() as u64;
        Some(head)
    }

    fn hold(&mut self, chunk: &Chunk) {
        if chunk.offset != self.end {
            // What was missed parts what is held from what follows.
            self.held.clear();
        }
        self.end = chunk.offset + chunk.bytes.len() as u64;
        let new = &chunk.bytes[chunk.bytes.len().saturating_sub(self.tail)..];
        let excess = (self.held.len() + new.len()).saturating_sub(self.tail);
        self.held.drain(..excess);
        let needed = self.held.len() + new.len();
        if needed > self.held.capacity() {
            // As a vector grows, but never beyond what may be held.
            let wanted = needed.max(2 * self.held.capacity()).min(self.tail);
            self.held.reserve_exact(wanted - self.held.len());
        }
        self.held.extend(new);
    }

    /// What was held back, in order, the first chunk saying what is missing before it.
    fn release(&mut self, stream: Stream) -> impl Iterator<Item = Chunk> {
        let mut bytes = Bytes::from(Vec::from(std::mem::take(&mut self.held)));
        let mut offset = self.end.saturating_sub(bytes.len() as u64);
        let mut passed = self.passed;
        std::iter::from_fn(move || {
            let piece = bytes.split_to(bytes.len().min(PIECE));
            let chunk = Chunk {
                stream,
                offset,
                skipped: offset.saturating_sub(passed),
                bytes: piece,
            };
            offset += chunk.bytes.len() as u64;
            passed = offset;
            (!chunk.bytes.is_empty()).then_some(chunk)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(offset: u64, text: &str) -> Chunk {
        Chunk {
            stream: Stream::Stdout,
            offset,
            skipped: 0,
            bytes: Bytes::copy_from_slice(text.as_bytes()),
        }
    }

    fn rest(window: &mut Window) -> Vec<Chunk> {
        window.release(Stream::Stdout).collect()
    }

    #[test]
    fn the_beginning_and_the_end_are_passed_on() {
        let mut window = Window::new(3, 2);
        assert_eq!(window.take(chunk(0, "abcde")), Some(chunk(0, "abc")));
        assert_eq!(window.take(chunk(5, "fghij")), None);
        let expected = Chunk {
            skipped: 5,
            ..chunk(8, "ij")
        };
        assert_eq!(rest(&mut window), [expected]);
    }

    #[test]
    fn output_that_fits_is_whole() {
        let mut window = Window::new(2, 4);
        assert_eq!(window.take(chunk(0, "abcd")), Some(chunk(0, "ab")));
        assert_eq!(window.take(chunk(4, "ef")), None);
        assert_eq!(rest(&mut window), [chunk(2, "cdef")]);
    }

    #[test]
    fn no_tail_holds_nothing() {
        let mut window = Window::new(1, 0);
        window.take(chunk(0, "abc"));
        assert_eq!((window.held.capacity(), rest(&mut window)), (0, vec![]));
    }

    #[test]
    fn a_writer_of_single_bytes_costs_no_more_than_the_tail() {
        const TAIL: usize = 1 << 20;
        let mut window = Window::new(0, TAIL);
        let count = 3 * TAIL as u64 + 7;
        for offset in 0..count {
            assert_eq!(window.take(chunk(offset, "x")), None);
            assert!(window.held.capacity() <= TAIL);
        }
        let rest = rest(&mut window);
        assert_eq!(rest[0].skipped, count - TAIL as u64);
        assert_eq!(rest.len(), TAIL / PIECE);
        let held: usize = rest.iter().map(|chunk| chunk.bytes.len()).sum();
        assert_eq!(held, TAIL);
    }

    #[test]
    fn what_comes_after_a_gap_is_not_joined_to_what_came_before() {
        let mut window = Window::new(0, 8);
        window.take(chunk(0, "abc"));
        window.take(chunk(10, "def"));
        let expected = Chunk {
            skipped: 10,
            ..chunk(10, "def")
        };
        assert_eq!(rest(&mut window), [expected]);
    }
}
