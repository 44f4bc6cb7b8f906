//! Frames of the v1 stream: eight lower-case hexadecimal digits, a line feed, the payload.

use bytes::{BufMut, Bytes, BytesMut};

/// Bytes before each payload.
pub const FRAME_HEADER_LEN: usize = 9;

/// Why bytes are no frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The header is not eight lower-case hexadecimal digits and a line feed.
    #[error("a frame's header is malformed")]
    InvalidHeader,
    /// A payload is longer than the cap. Nothing was allocated for it.
    #[error("a frame announces {length} bytes, more than the {max} allowed")]
    TooLarge {
        /// What the header says.
        length: usize,
        /// The cap.
        max: usize,
    },
    /// The stream stopped inside a frame.
    #[error("a frame was cut off")]
    Truncated,
}

/// Writes a frame.
///
/// # Errors
///
/// [`FrameError::TooLarge`] from 4 GiB on.
pub fn encode_frame(payload: &[u8]) -> Result<Bytes, FrameError> {
    let length = u32::try_from(payload.len()).map_err(|_| FrameError::TooLarge {
        length: payload.len(),
        max: u32::MAX as usize,
    })?;
    let mut frame = BytesMut::with_capacity(FRAME_HEADER_LEN + payload.len());
    frame.put_slice(format!("{length:08x}\n").as_bytes());
    frame.put_slice(payload);
    Ok(frame.freeze())
}

/// Whether the first bytes of a connection are the header of a frame.
#[must_use]
pub fn is_frame_header(first: &[u8; FRAME_HEADER_LEN]) -> bool {
    parse_header(first).is_some()
}

fn parse_header(header: &[u8; FRAME_HEADER_LEN]) -> Option<usize> {
    let [digits @ .., b'\n'] = header else {
        return None;
    };
    digits.iter().try_fold(0usize, |sum, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        sum.checked_mul(16)?.checked_add(usize::from(value))
    })
}

/// Takes a stream of frames apart, however its bytes were cut.
#[derive(Debug)]
pub struct FrameDecoder {
    max: usize,
    header: [u8; FRAME_HEADER_LEN],
    header_len: usize,
    /// What has come of a payload that was cut.
    partial: BytesMut,
}

impl FrameDecoder {
    /// A decoder that refuses payloads of more than `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            header: [0; FRAME_HEADER_LEN],
            header_len: 0,
            partial: BytesMut::new(),
        }
    }

    /// Takes the next payload out of `chunk`, or all of `chunk` when the payload goes on. An empty
    /// payload ends the answer to a command.
    ///
    /// Call it until it gives `None`; `chunk` is empty then. A payload that lies in one chunk is
    /// not copied. After an error the stream is of no further use.
    ///
    /// # Errors
    ///
    /// [`FrameError`] as soon as a header cannot be accepted.
    pub fn decode(&mut self, chunk: &mut Bytes) -> Result<Option<Bytes>, FrameError> {
        if self.header_len < FRAME_HEADER_LEN {
            let take = chunk.len().min(FRAME_HEADER_LEN - self.header_len);
            let part = chunk.split_to(take);
            self.header[self.header_len..self.header_len + take].copy_from_slice(&part);
            self.header_len += take;
            if self.header_len < FRAME_HEADER_LEN {
                return Ok(None);
            }
        }
        let length = parse_header(&self.header).ok_or(FrameError::InvalidHeader)?;
        if length > self.max {
            return Err(FrameError::TooLarge {
                length,
                max: self.max,
            });
        }
        let missing = length - self.partial.len();
        let payload = if self.partial.is_empty() && chunk.len() >= missing {
            chunk.split_to(missing)
        } else {
            let take = chunk.len().min(missing);
            // Grows with what arrives, never by what the header announces.
            self.partial.extend_from_slice(&chunk.split_to(take));
            if self.partial.len() < length {
                return Ok(None);
            }
            std::mem::take(&mut self.partial).freeze()
        };
        self.header_len = 0;
        Ok(Some(payload))
    }

    /// Says that no more bytes come.
    ///
    /// # Errors
    ///
    /// [`FrameError::Truncated`] inside a frame.
    pub const fn finish(&self) -> Result<(), FrameError> {
        if self.header_len == 0 {
            Ok(())
        } else {
            Err(FrameError::Truncated)
        }
    }
}
