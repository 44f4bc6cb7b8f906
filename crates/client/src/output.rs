//! What a command left behind: its end, its output, its usage.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use namzu_core::Error;
use namzu_types::{ExitStatus, OutputCap};

/// A command that ended, with what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecOutput {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output; with a terminal, everything it printed.
    pub stdout: Captured,
    /// Its standard error; empty with a terminal.
    pub stderr: Captured,
    /// What it used.
    pub usage: Usage,
}

/// What a command and its waited-for children used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Bytes of the largest resident set.
    pub max_rss: u64,
    /// Time between start and end, as the worker measured it.
    pub duration: Duration,
}

/// One output stream, capped: its first and its last bytes, and how long it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes, up to [`OutputCap::head`].
    pub head: Vec<u8>,
    /// The last of the bytes after `head`, up to [`OutputCap::tail`].
    pub tail: Vec<u8>,
    /// Bytes the command printed, kept or not.
    pub total: u64,
}

impl Captured {
    /// Whether bytes between `head` and `tail` were dropped.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    /// Everything kept, `head` and `tail` joined without a mark of what lies between.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        [self.head.as_slice(), &self.tail].concat()
    }

    /// Everything kept as text; where bytes were dropped, a line says how many, and each byte
    /// sequence that is no UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn text_lossy(&self) -> Cow<'_, str> {
        if self.is_truncated() {
            let dropped = self.total - (self.head.len() + self.tail.len()) as u64;
            let head = String::from_utf8_lossy(&self.head);
            let tail = String::from_utf8_lossy(&self.tail);
            return Cow::Owned(format!("{head}\n[... {dropped} bytes dropped ...]\n{tail}"));
        }
        if self.tail.is_empty() {
            return String::from_utf8_lossy(&self.head);
        }
        // Joined first: a character may straddle the two halves.
        Cow::Owned(String::from_utf8_lossy(&self.to_vec()).into_owned())
    }
}

/// Fills a [`Captured`] chunk by chunk, holding no more than the cap.
#[derive(Debug)]
pub(crate) struct Capture {
    cap: OutputCap,
    head: Vec<u8>,
    /// A ring once it holds `cap.tail` bytes.
    tail: Vec<u8>,
    /// Index of the oldest byte in a full `tail`.
    oldest: usize,
    total: u64,
}

impl Capture {
    pub(crate) const fn new(cap: OutputCap) -> Self {
        Self {
            cap,
            head: Vec::new(),
            tail: Vec::new(),
            oldest: 0,
            total: 0,
        }
    }

    /// Bytes seen, kept or not.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// Counts bytes that were dropped before they came here.
    pub(crate) const fn skip(&mut self, bytes: u64) {
        self.total = self.total.saturating_add(bytes);
        // What comes next is not adjacent to the head: only the tail may take it.
        if bytes > 0 {
            self.cap.head = 0;
        }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.total = self.total.saturating_add(chunk.len() as u64);
        let room = self.cap.head.saturating_sub(self.head.len());
        let (head, rest) = chunk.split_at(room.min(chunk.len()));
        append(&mut self.head, head, self.cap.head);
        let cap = self.cap.tail;
        if rest.is_empty() || cap == 0 {
            return;
        }
        if rest.len() >= cap {
            self.tail.clear();
            append(&mut self.tail, &rest[rest.len() - cap..], cap);
            self.oldest = 0;
            return;
        }
        let (grow, wrap) = rest.split_at((cap - self.tail.len()).min(rest.len()));
        append(&mut self.tail, grow, cap);
        let (first, second) = wrap.split_at((cap - self.oldest).min(wrap.len()));
        self.tail[self.oldest..self.oldest + first.len()].copy_from_slice(first);
        self.tail[..second.len()].copy_from_slice(second);
        self.oldest = (self.oldest + wrap.len()) % cap;
    }

    pub(crate) fn finish(mut self) -> Captured {
        self.tail.rotate_left(self.oldest);
        Captured {
            head: self.head,
            tail: self.tail,
            total: self.total,
        }
    }
}

/// Appends to what may become `cap` bytes long, without ever having room for more.
fn append(to: &mut Vec<u8>, bytes: &[u8], cap: usize) {
    let needed = to.len() + bytes.len();
    if needed > to.capacity() {
        let room = needed.max(to.capacity().saturating_mul(2).min(cap));
        to.reserve_exact(room - to.len());
    }
    to.extend_from_slice(bytes);
}

/// What a command printed before it was stopped. Travels as a cause of the error.
#[derive(Debug)]
pub(crate) struct Partial(pub(crate) ExecOutput);

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExecOutput { stdout, stderr, .. } = &self.0;
        write!(
            f,
            "it printed {} bytes on standard output and {} on standard error",
            stdout.total, stderr.total
        )
    }
}

impl StdError for Partial {}

/// What a command printed before `exec_timeout`, `out_of_memory` or `cancelled`, if anything was
/// kept. Where the sandbox itself ended, as in `lifetime_exceeded` or `sandbox_lost`, nothing is.
///
/// Its `status` is how the command was ended, usually by signal 9.
#[must_use]
pub fn partial_output(err: &Error) -> Option<&ExecOutput> {
    let mut next = StdError::source(err);
    while let Some(cause) = next {
        if let Some(Partial(output)) = cause.downcast_ref() {
            return Some(output);
        }
        next = cause.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of `stream` when it comes in chunks of `size`.
    fn kept(stream: &[u8], head: usize, tail: usize, size: usize) -> Captured {
        let mut capture = Capture::new(OutputCap { head, tail });
        stream.chunks(size).for_each(|chunk| capture.push(chunk));
        capture.finish()
    }

    #[test]
    fn the_ends_of_a_stream_are_kept_however_it_is_cut() {
        let stream: Vec<u8> = (0..=255).collect();
        for head in [0, 1, 7, 100, 300] {
            for tail in [0, 1, 7, 100, 300] {
                for size in [1, 2, 3, 64, 99, 256] {
                    let kept = kept(&stream, head, tail, size);
                    let middle = head.min(stream.len());
                    let rest = &stream[middle..];
                    assert_eq!(kept.head, stream[..middle]);
                    assert_eq!(kept.tail, rest[rest.len().saturating_sub(tail)..]);
                    assert_eq!(kept.total, 256);
                    assert_eq!(kept.is_truncated(), head + tail < 256);
                }
            }
        }
    }

    #[test]
    fn nothing_is_joined_to_the_head_over_a_gap() {
        let mut capture = Capture::new(OutputCap { head: 8, tail: 4 });
        capture.push(b"ab");
        capture.skip(10);
        capture.push(b"yz");
        let kept = capture.finish();
        assert_eq!((&kept.head[..], &kept.tail[..]), (&b"ab"[..], &b"yz"[..]));
        assert_eq!(kept.total, 14);
        assert_eq!(kept.text_lossy(), "ab\n[... 10 bytes dropped ...]\nyz");
    }

    #[test]
    fn a_total_beyond_all_numbers_is_no_panic() {
        let mut capture = Capture::new(OutputCap { head: 1, tail: 1 });
        capture.skip(u64::MAX);
        capture.skip(u64::MAX);
        capture.push(b"x");
        assert_eq!(capture.finish().total, u64::MAX);
    }

    #[test]
    fn a_character_that_straddles_head_and_tail_is_whole() {
        let kept = kept("aé".as_bytes(), 2, 8, 3);
        assert_eq!(kept.text_lossy(), "aé");
    }
}
