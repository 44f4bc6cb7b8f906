//! The output of a command: one ordered log of chunks, bounded, read by any number of cursors.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

/// Where output came from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
    Pty,
}

impl Stream {
    const COUNT: usize = 3;
    /// All of them.
    pub(crate) const ALL: [Self; Self::COUNT] = [Self::Stdout, Self::Stderr, Self::Pty];

    pub(super) fn index(self) -> usize {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
            Self::Pty => 2,
        }
    }
}

/// One number for each stream.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct PerStream([u64; Stream::COUNT]);

impl PerStream {
    pub(crate) fn new(stdout: u64, stderr: u64, pty: u64) -> Self {
        Self([stdout, stderr, pty])
    }

    pub(crate) fn get(&self, stream: Stream) -> u64 {
        self.0[stream.index()]
    }

    fn set(&mut self, stream: Stream, value: u64) {
        self.0[stream.index()] = value;
    }
}

/// A chunk as a reader gets it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Chunk {
    pub(crate) stream: Stream,
    /// Absolute position of the first byte in its stream.
    pub(crate) offset: u64,
    /// Bytes this reader missed just before it.
    pub(crate) skipped: u64,
    pub(crate) bytes: Bytes,
}

/// Where a reader is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// Number of the entry it reads next.
    entry: u64,
    /// Bytes already read, or given up, of each stream.
    read: PerStream,
}

struct Entry {
    stream: Stream,
    offset: u64,
    bytes: Bytes,
    /// Bytes of memory that `bytes` keeps alive.
    whole: usize,
}

/// Chunks of all streams in the order they were read.
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    /// Number of the first entry kept.
    first: u64,
    /// Bytes kept.
    held: usize,
    retain: usize,
    written: PerStream,
}

/// Small writes are joined up to this size, so that the cost of an entry is paid by its bytes.
const JOIN: usize = 4 * 1024;
/// No more entries than this many for each byte kept, where joining cannot help.
const BYTES_PER_ENTRY: usize = 64;

impl Log {
    pub(crate) fn new(retain: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            held: 0,
            retain,
            written: PerStream::default(),
        }
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> PerStream {
        self.written
    }

    /// The oldest byte still held of each stream.
    pub(crate) fn oldest(&self) -> PerStream {
        let mut oldest = self.written;
        for entry in self.entries.iter().rev() {
            oldest.set(entry.stream, entry.offset);
        }
        oldest
    }

    /// The position before the first byte ever written.
    pub(crate) fn start() -> Position {
        Position {
            entry: 0,
            read: PerStream::default(),
        }
    }

    /// The position after everything written so far.
    pub(crate) fn end(&self) -> Position {
        // The last entry, not the one after it: it may still grow by joining.
        let last = self.entries.len().saturating_sub(1) as u64;
        Position {
            entry: self.first + last,
            read: self.written,
        }
    }

    /// The position at the byte offsets `cursor`, or `None` when a byte from there on is gone.
    /// An offset beyond the end waits for that byte.
    pub(crate) fn at(&self, cursor: PerStream) -> Option<Position> {
        let oldest = self.oldest();
        let held = cursor
            .0
            .iter()
            .zip(oldest.0)
            .all(|(wanted, oldest)| *wanted >= oldest);
        held.then_some(Position {
            entry: self.first,
            read: cursor,
        })
    }

    /// Appends a chunk. `keep` is the position of a reader that must lose nothing.
    pub(crate) fn push(&mut self, stream: Stream, bytes: Bytes, keep: Option<&Position>) {
        let offset = self.written.get(stream);
        self.written.set(stream, offset + bytes.len() as u64);
        self.held += bytes.len();
        match self.entries.back_mut() {
            Some(last) if last.stream == stream && last.bytes.len() + bytes.len() <= JOIN => {
                last.bytes = [&last.bytes[..], &bytes[..]].concat().into();
                last.whole = last.bytes.len();
            }
            _ => self.entries.push_back(Entry {
                stream,
                offset,
                whole: bytes.len(),
                bytes,
            }),
        }
        self.trim(keep);
    }

    /// Forgets what is beyond the retention and not needed by `keep`.
    pub(crate) fn trim(&mut self, keep: Option<&Position>) {
        let most = (self.retain / BYTES_PER_ENTRY).max(1024);
        while self.held > self.retain || self.entries.len() > most {
            let too_many = self.entries.len() > most;
            let Some(front) = self.entries.front_mut() else {
                return;
            };
            let end = front.offset + front.bytes.len() as u64;
            if keep
                .is_some_and(|keep| keep.entry <= self.first && keep.read.get(front.stream) < end)
            {
                return;
            }
            let excess = self.held.saturating_sub(self.retain);
            if !too_many && excess < front.bytes.len() {
                front.shorten(excess);
                self.held -= excess;
                return;
            }
            self.held -= front.bytes.len();
            self.first += 1;
            self.entries.pop_front();
        }
    }

    /// Forgets everything that `keep` does not need, now and from now on.
    pub(crate) fn stop_retaining(&mut self, keep: Option<&Position>) {
        self.retain = 0;
        self.trim(keep);
    }

    /// Bytes held.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Bytes written that a reader at `position` has not read.
    pub(crate) fn lag(&self, position: &Position) -> u64 {
        self.written
            .0
            .iter()
            .zip(position.read.0)
            .map(|(written, read)| written.saturating_sub(read))
            .sum()
    }

    /// The next chunk for a reader, of at most `most` bytes, moving its position past it.
    pub(crate) fn next(&self, position: &mut Position, most: usize) -> Option<Chunk> {
        position.entry = position.entry.max(self.first);
        loop {
            let index = usize::try_from(position.entry - self.first).ok()?;
            let entry = self.entries.get(index)?;
            let read = position.read.get(entry.stream);
            let end = entry.offset + entry.bytes.len() as u64;
            if read >= end {
                // The last entry may still grow by joining.
                if index + 1 == self.entries.len() {
                    return None;
                }
                position.entry += 1;
                continue;
            }
            let skipped = entry.offset.saturating_sub(read);
            let offset = read.max(entry.offset);
            let from = usize::try_from(offset - entry.offset).ok()?;
            let to = entry.bytes.len().min(from.saturating_add(most));
            let bytes = entry.bytes.slice(from..to);
            position.read.set(entry.stream, offset + bytes.len() as u64);
            return Some(Chunk {
                stream: entry.stream,
                offset,
                skipped,
                bytes,
            });
        }
    }

    /// For a reader at the end of the log: an empty chunk that tells what it missed of a stream
    /// of which nothing is held any more.
    pub(crate) fn give_up(&self, position: &mut Position) -> Option<Chunk> {
        let missed = |stream: &Stream| position.read.get(*stream) < self.written.get(*stream);
        let stream = Stream::ALL.into_iter().find(missed)?;
        let offset = self.written.get(stream);
        let skipped = offset - position.read.get(stream);
        position.read.set(stream, offset);
        Some(Chunk {
            stream,
            offset,
            skipped,
            bytes: Bytes::new(),
        })
    }
}

impl Entry {
    /// Lets go of the first `count` bytes, and of their memory once it is more than is kept.
    fn shorten(&mut self, count: usize) {
        self.bytes.advance(count);
        self.offset += count as u64;
        if self.bytes.len() < self.whole / 2 {
            self.bytes = Bytes::copy_from_slice(&self.bytes);
            self.whole = self.bytes.len();
        }
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("held", &self.held)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(log: &Log, position: &mut Position) -> Vec<(u64, u64, String)> {
        std::iter::from_fn(|| log.next(position, 1 << 20))
            .map(|chunk| {
                (
                    chunk.offset,
                    chunk.skipped,
                    String::from_utf8(chunk.bytes.to_vec()).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn a_reader_sees_streams_in_order_and_small_writes_joined() {
        let mut log = Log::new(100);
        let mut position = Log::start();
        log.push(Stream::Stdout, "ab".into(), None);
        assert_eq!(text(&log, &mut position), [(0, 0, "ab".into())]);
        log.push(Stream::Stdout, "cd".into(), None);
        log.push(Stream::Stderr, "x".into(), None);
        log.push(Stream::Stdout, "e".into(), None);
        let expected = [(2, 0, "cd".into()), (0, 0, "x".into()), (4, 0, "e".into())];
        assert_eq!(text(&log, &mut position), expected);
        assert_eq!(log.entries.len(), 3);
    }

    #[test]
    fn a_reader_that_starts_at_the_end_gets_what_is_joined_after_it() {
        let mut log = Log::new(100);
        log.push(Stream::Stdout, "ab".into(), None);
        let mut position = log.end();
        log.push(Stream::Stdout, "cd".into(), None);
        assert_eq!(text(&log, &mut position), [(2, 0, "cd".into())]);
    }

    #[test]
    fn a_slow_reader_skips_and_is_told_how_much() {
        let mut log = Log::new(JOIN);
        let mut position = Log::start();
        for _ in 0..4 {
            log.push(Stream::Stdout, vec![b'a'; JOIN].into(), None);
        }
        assert_eq!(log.held(), JOIN);
        let chunk = log.next(&mut position, 10).unwrap();
        assert_eq!(
            (chunk.offset, chunk.skipped, chunk.bytes.len()),
            (3 * JOIN as u64, 3 * JOIN as u64, 10)
        );
        assert_eq!(log.next(&mut position, 10).unwrap().skipped, 0);
    }

    #[test]
    fn the_end_of_a_chunk_larger_than_the_retention_is_kept() {
        let mut log = Log::new(JOIN);
        let mut bytes = vec![b'a'; 4 * JOIN];
        bytes.extend_from_slice(b"end");
        log.push(Stream::Stdout, bytes.into(), None);
        assert_eq!((log.held(), log.entries[0].whole), (JOIN, JOIN));
        let oldest = log.oldest();
        assert_eq!(oldest.get(Stream::Stdout), 3 * JOIN as u64 + 3);
        let mut position = log.at(oldest).unwrap();
        let chunk = log.next(&mut position, usize::MAX).unwrap();
        assert_eq!(chunk.bytes.len(), JOIN);
        assert!(chunk.bytes.ends_with(b"end"));
    }

    #[test]
    fn what_the_kept_reader_needs_is_never_forgotten() {
        let mut log = Log::new(0);
        let mut position = Log::start();
        for _ in 0..4 {
            log.push(Stream::Stdout, vec![b'a'; JOIN].into(), Some(&position));
        }
        assert_eq!(log.lag(&position), 4 * JOIN as u64);
        while let Some(chunk) = log.next(&mut position, usize::MAX) {
            assert_eq!(chunk.skipped, 0);
            log.trim(Some(&position));
        }
        assert_eq!((log.held(), log.lag(&position)), (0, 0));
    }

    #[test]
    fn what_is_gone_at_the_end_is_told_of() {
        let mut log = Log::new(100);
        let mut position = Log::start();
        log.push(Stream::Stderr, "abc".into(), None);
        log.stop_retaining(None);
        assert!(log.next(&mut position, 10).is_none());
        let told = log.give_up(&mut position).unwrap();
        assert_eq!(
            (told.stream, told.offset, told.skipped),
            (Stream::Stderr, 3, 3)
        );
        assert!(log.give_up(&mut position).is_none());
    }

    #[test]
    fn a_cursor_older_than_the_log_is_expired() {
        let mut log = Log::new(JOIN);
        log.push(Stream::Stdout, vec![b'a'; JOIN].into(), None);
        log.push(Stream::Stdout, vec![b'b'; JOIN].into(), None);
        assert!(log.at(PerStream::default()).is_none());
        assert_eq!(log.oldest().get(Stream::Stdout), JOIN as u64);
        let mut position = log.at(PerStream::new(JOIN as u64 + 1, 0, 0)).unwrap();
        let chunk = log.next(&mut position, usize::MAX).unwrap();
        assert_eq!(
            (chunk.offset, chunk.skipped, chunk.bytes.len()),
            (JOIN as u64 + 1, 0, JOIN - 1)
        );
    }

    #[test]
    fn alternating_single_bytes_stay_bounded() {
        let mut log = Log::new(1 << 20);
        for _ in 0..100_000 {
            log.push(Stream::Stdout, "a".into(), None);
            log.push(Stream::Stderr, "b".into(), None);
        }
        assert!(log.entries.len() <= (1 << 20) / BYTES_PER_ENTRY);
    }
}
