//! The message that goes with descriptors over the fd lane.

/// [`LaneMessage::mask`] bit of standard input.
pub const STDIN: u8 = 1;
/// [`LaneMessage::mask`] bit of standard output.
pub const STDOUT: u8 = 2;
/// [`LaneMessage::mask`] bit of standard error.
pub const STDERR: u8 = 4;

/// Says which command's streams the descriptors beside it are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneMessage {
    /// What the start names.
    pub id: u64,
    /// Which streams: [`STDIN`], [`STDOUT`], [`STDERR`], in the order of the descriptors.
    pub mask: u8,
}

/// Why bytes are no [`LaneMessage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// Not nine bytes.
    #[error("a lane message has {0} bytes instead of 9")]
    Length(usize),
    /// No stream, or one that does not exist.
    #[error("a lane message has the invalid mask {0:#04x}")]
    Mask(u8),
}

impl LaneMessage {
    /// Length on the wire.
    pub const LEN: usize = 9;

    /// Writes the message: the id, little endian, then the mask.
    #[must_use]
    pub const fn encode(self) -> [u8; Self::LEN] {
        let [a, b, c, d, e, f, g, h] = self.id.to_le_bytes();
        [a, b, c, d, e, f, g, h, self.mask]
    }

    /// Reads a message.
    ///
    /// # Errors
    ///
    /// [`LaneError`] when the length or the mask is wrong.
    pub fn decode(message: &[u8]) -> Result<Self, LaneError> {
        let Ok([id @ .., mask]) = <[u8; Self::LEN]>::try_from(message) else {
            return Err(LaneError::Length(message.len()));
        };
        if mask == 0 || mask & !(STDIN | STDOUT | STDERR) != 0 {
            return Err(LaneError::Mask(mask));
        }
        Ok(Self {
            id: u64::from_le_bytes(id),
            mask,
        })
    }

    /// How many descriptors go with it.
    #[must_use]
    pub const fn descriptors(self) -> usize {
        self.mask.count_ones() as usize
    }
}
