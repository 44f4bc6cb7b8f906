//! Newline-delimited JSON.

use bytes::{Buf as _, BufMut, Bytes, BytesMut};

/// Why bytes are no lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// A line is longer than the cap.
    #[error("a line is longer than the {max} bytes allowed")]
    TooLong {
        /// The cap.
        max: usize,
    },
}

/// Writes a line: the JSON and a line feed.
#[must_use]
pub fn encode_line(json: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(json.len() + 1);
    line.put_slice(json);
    line.put_u8(b'\n');
    line.freeze()
}

/// Takes a stream of lines apart, however its bytes were cut. Blank lines are skipped.
#[derive(Debug)]
pub struct LineDecoder {
    max: usize,
    /// What has come of a line that was cut.
    partial: BytesMut,
}

impl LineDecoder {
    /// A decoder that refuses lines of more than `max` bytes, their end not counted.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            partial: BytesMut::new(),
        }
    }

    /// Takes the next line out of `chunk`, or all of `chunk` when the line goes on.
    ///
    /// Call it until it gives `None`; `chunk` is empty then. After an error the stream is of no
    /// further use.
    ///
    /// # Errors
    ///
    /// [`LineError::TooLong`] as soon as a line is longer than the cap.
    pub fn decode(&mut self, chunk: &mut Bytes) -> Result<Option<Bytes>, LineError> {
        loop {
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let length = self.partial.len() + end.unwrap_or(chunk.len());
            // One byte more may be the carriage return of the line's end.
            if length > self.max.saturating_add(1) {
                return Err(LineError::TooLong { max: self.max });
            }
            let Some(end) = end else {
                self.partial.extend_from_slice(chunk);
                chunk.clear();
                return Ok(None);
            };
            let part = chunk.split_to(end);
            chunk.advance(1);
            let line = if self.partial.is_empty() {
                part
            } else {
                self.partial.extend_from_slice(&part);
                std::mem::take(&mut self.partial).freeze()
            };
            if let Some(line) = self.accept(line)? {
                return Ok(Some(line));
            }
        }
    }

    /// Says that no more bytes come, and gives a last line that had no end.
    ///
    /// # Errors
    ///
    /// [`LineError::TooLong`] when it is longer than the cap.
    pub fn finish(&mut self) -> Result<Option<Bytes>, LineError> {
        let line = std::mem::take(&mut self.partial).freeze();
        self.accept(line)
    }

    fn accept(&self, mut line: Bytes) -> Result<Option<Bytes>, LineError> {
        if line.ends_with(b"\r") {
            line.truncate(line.len() - 1);
        }
        if line.len() > self.max {
            return Err(LineError::TooLong { max: self.max });
        }
        let blank = line.iter().all(u8::is_ascii_whitespace);
        Ok((!blank).then_some(line))
    }
}
