//! Bounds the number of elements of a repeated field before they are allocated.

use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};

/// The most elements that one list of one message may have.
///
/// An empty element takes two bytes on the wire and hundreds in memory; this keeps a small message
/// from becoming a large allocation. A server refuses to answer with more.
pub const MAX_LIST_ITEMS: usize = 1 << 18;

/// Whether the top level of `message` has at most [`MAX_LIST_ITEMS`] length-delimited fields.
///
/// Malformed bytes are fine here: the decoder proper refuses them.
pub(crate) fn fits(mut message: &[u8]) -> bool {
    let mut items = 0usize;
    while message.has_remaining() {
        let Ok((_, wire_type)) = decode_key(&mut message) else {
            return true;
        };
        let skip = match wire_type {
            WireType::Varint => {
                if decode_varint(&mut message).is_err() {
                    return true;
                }
                0
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => {
                items += 1;
                if items > MAX_LIST_ITEMS {
                    return false;
                }
                match decode_varint(&mut message) {
                    Ok(length) => usize::try_from(length).unwrap_or(usize::MAX),
                    Err(_) => return true,
                }
            }
            // No message here has groups; what is inside one is skipped by the decoder.
            WireType::StartGroup | WireType::EndGroup => 0,
        };
        if skip > message.remaining() {
            return true;
        }
        message.advance(skip);
    }
    true
}
