//! Envelopes of a Connect stream: one flag byte, four length bytes (big endian), the payload.

use bytes::{BufMut, Bytes, BytesMut};

use super::EndStream;
use crate::codec::{Codec, WireMessage};

/// Bytes before each payload.
pub const HEADER_LEN: usize = 5;
/// Flag of a compressed payload. Not spoken: it is refused.
pub const FLAG_COMPRESSED: u8 = 0x01;
/// Flag of the last envelope of an answer.
pub const FLAG_END: u8 = 0x02;

/// Why bytes are no stream of envelopes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// A payload is longer than the cap. Nothing was allocated for it.
    #[error("an envelope announces {length} bytes, more than the {max} allowed")]
    TooLarge {
        /// What the header says.
        length: usize,
        /// The cap.
        max: usize,
    },
    /// A payload is compressed, which was not negotiated.
    #[error("an envelope is compressed, and no compression was negotiated")]
    Compressed,
    /// A flag that Connect does not have.
    #[error("an envelope has the unknown flags {0:#04x}")]
    UnknownFlags(u8),
    /// The last envelope's JSON is malformed.
    #[error("the last envelope of a stream is malformed: {0}")]
    InvalidEnd(String),
    /// Bytes after the last envelope.
    #[error("bytes follow the last envelope of a stream")]
    AfterEnd,
    /// The stream stopped inside an envelope, or before the last.
    #[error("a stream of envelopes was cut off")]
    Truncated,
}

/// One envelope to send, header and payload apart so that the payload need not be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Flag and length.
    pub header: [u8; HEADER_LEN],
    /// What it carries.
    pub payload: Bytes,
}

impl Envelope {
    fn new(flags: u8, payload: Bytes) -> Result<Self, EnvelopeError> {
        let length = u32::try_from(payload.len()).map_err(|_| EnvelopeError::TooLarge {
            length: payload.len(),
            max: u32::MAX as usize,
        })?;
        let [a, b, c, d] = length.to_be_bytes();
        Ok(Self {
            header: [flags, a, b, c, d],
            payload,
        })
    }

    /// An envelope around a message that is written already.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError::TooLarge`] from 4 GiB on.
    pub fn message(payload: Bytes) -> Result<Self, EnvelopeError> {
        Self::new(0, payload)
    }

    /// An envelope around a message.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError::TooLarge`] from 4 GiB on.
    pub fn encode<M: WireMessage>(codec: Codec, message: &M) -> Result<Self, EnvelopeError> {
        Self::new(0, codec.encode(message))
    }

    /// The last envelope of an answer.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError::TooLarge`] from 4 GiB on.
    pub fn end(end: &EndStream) -> Result<Self, EnvelopeError> {
        Self::new(FLAG_END, end.to_json().into())
    }

    /// Header and payload in one piece; copies the payload.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        let mut joined = BytesMut::with_capacity(HEADER_LEN + self.payload.len());
        joined.put_slice(&self.header);
        joined.put(self.payload);
        joined.freeze()
    }
}

/// What an envelope carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message.
    Message(Bytes),
    /// The end of the answer.
    End(EndStream),
}

/// Takes a stream of envelopes apart, however its bytes were cut.
#[derive(Debug)]
pub struct EnvelopeDecoder {
    max: usize,
    header: [u8; HEADER_LEN],
    header_len: usize,
    /// What has come of a payload that was cut.
    partial: BytesMut,
    ended: bool,
}

impl EnvelopeDecoder {
    /// A decoder that refuses payloads of more than `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            header: [0; HEADER_LEN],
            header_len: 0,
            partial: BytesMut::new(),
            ended: false,
        }
    }

    /// Takes the next envelope out of `chunk`, or all of `chunk` when the envelope goes on.
    ///
    /// Call it until it gives `None`; `chunk` is empty then. A payload that lies in one chunk is
    /// not copied. After an error the stream is of no further use.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError`] as soon as a header cannot be accepted.
    pub fn decode(&mut self, chunk: &mut Bytes) -> Result<Option<Frame>, EnvelopeError> {
        if self.header_len < HEADER_LEN {
            if chunk.is_empty() {
                return Ok(None);
            }
            if self.ended {
                return Err(EnvelopeError::AfterEnd);
            }
            let take = chunk.len().min(HEADER_LEN - self.header_len);
            let part = chunk.split_to(take);
            self.header[self.header_len..self.header_len + take].copy_from_slice(&part);
            self.header_len += take;
            if self.header_len < HEADER_LEN {
                return Ok(None);
            }
        }
        let length = self.accept()?;
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
        if self.header[0] & FLAG_END == 0 {
            return Ok(Some(Frame::Message(payload)));
        }
        self.ended = true;
        EndStream::from_json(&payload)
            .map(|end| Some(Frame::End(end)))
            .map_err(|error| EnvelopeError::InvalidEnd(error.to_string()))
    }

    /// The announced length, if the header can be accepted.
    fn accept(&self) -> Result<usize, EnvelopeError> {
        let [flags, length @ ..] = self.header;
        if flags & FLAG_COMPRESSED != 0 {
            return Err(EnvelopeError::Compressed);
        }
        if flags & !FLAG_END != 0 {
            return Err(EnvelopeError::UnknownFlags(flags));
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > self.max {
            return Err(EnvelopeError::TooLarge {
                length,
                max: self.max,
            });
        }
        Ok(length)
    }

    /// Whether the last envelope of an answer has come.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Says that no more bytes come of a request, which has no last envelope.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError::Truncated`] inside an envelope.
    pub const fn finish_request(&self) -> Result<(), EnvelopeError> {
        if self.header_len == 0 {
            Ok(())
        } else {
            Err(EnvelopeError::Truncated)
        }
    }

    /// Says that no more bytes come of an answer, which must have had its last envelope.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError::Truncated`] when it has not.
    pub const fn finish_response(&self) -> Result<(), EnvelopeError> {
        if self.ended && self.header_len == 0 {
            Ok(())
        } else {
            Err(EnvelopeError::Truncated)
        }
    }
}
