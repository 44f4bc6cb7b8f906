//! `Range: bytes=…` of one range.

/// What of a file is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Part {
    /// All of it: no range, one we need not honour, or one that makes no sense.
    Whole,
    /// From the first byte, so many.
    Some { first: u64, length: u64 },
    /// Nothing of it lies in the range.
    Unsatisfiable,
}

/// Reads a range of a file of `size` bytes. Several ranges may be answered with the whole, and are.
pub(super) fn parse(header: &str, size: u64) -> Part {
    let Some(range) = header.trim().strip_prefix("bytes=") else {
        return Part::Whole;
    };
    let Some((first, last)) = range.trim().split_once('-') else {
        return Part::Whole;
    };
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        // Digits only: `+1` is a number for Rust and none here.
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(Some(text.parse::<u64>().unwrap_or(u64::MAX)))
        }
        _ => None,
    };
    let (Some(first), Some(last)) = (number(first), number(last)) else {
        return Part::Whole;
    };
    let (first, length) = match (first, last) {
        (None, None) => return Part::Whole,
        (None, Some(count)) => (size - count.min(size), count.min(size)),
        (Some(first), Some(last)) if last < first => return Part::Whole,
        (Some(first), last) => {
            let end = last.map_or(size, |last| last.saturating_add(1).min(size));
            (first, end.saturating_sub(first))
        }
    };
    if length == 0 {
        Part::Unsatisfiable
    } else {
        Part::Some { first, length }
    }
}
