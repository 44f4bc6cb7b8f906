//! Bytes to text, however the bytes were cut.

/// Decodes UTF-8 chunk by chunk. A character that is split over two chunks is held back until it
/// is whole; what is no UTF-8 becomes U+FFFD, as [`String::from_utf8_lossy`] would have it for all
/// chunks together.
#[derive(Clone, Debug, Default)]
pub struct Utf8Decoder {
    /// The beginning of a character, at most three bytes.
    held: [u8; 3],
    held_len: usize,
}

impl Utf8Decoder {
    /// A decoder at the start of a text.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The text of what was held back and of `chunk`, but for a character that goes on.
    pub fn decode(&mut self, chunk: &[u8]) -> String {
        if self.held_len == 0 {
            return self.decode_whole(chunk);
        }
        let mut joined = Vec::with_capacity(self.held_len + chunk.len());
        joined.extend_from_slice(&self.held[..self.held_len]);
        joined.extend_from_slice(chunk);
        self.decode_whole(&joined)
    }

    fn decode_whole(&mut self, bytes: &[u8]) -> String {
        self.held_len = 0;
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                continue;
            }
            if chunks.peek().is_none() && is_prefix(invalid) {
                self.held[..invalid.len()].copy_from_slice(invalid);
                self.held_len = invalid.len();
            } else {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }

    /// Says that no more bytes come: U+FFFD for a character that was cut off.
    pub fn finish(&mut self) -> &'static str {
        let cut = std::mem::take(&mut self.held_len) > 0;
        if cut { "\u{FFFD}" } else { "" }
    }
}

/// Whether more bytes can make a character of these.
fn is_prefix(bytes: &[u8]) -> bool {
    bytes.len() <= 3 && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
