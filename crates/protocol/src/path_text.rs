//! Paths, which are bytes, in fields that must be UTF-8.
//!
//! A byte that belongs to no UTF-8 character is written as U+0000 and two lower-case hexadecimal digits. No path holds
//! a NUL, so the form is unambiguous, and every path that is UTF-8 is written as it is.

use std::fmt::Write as _;

/// Text that is no path: a U+0000 without the two digits of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path contains a NUL byte")]
pub struct InvalidPathText;

/// Writes a path, or a name in one.
#[must_use]
pub fn encode(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            write!(text, "\0{byte:02x}").expect("writing to a string never fails");
        }
    }
    text
}

/// Reads what [`encode`] wrote. Bytes that are no UTF-8 stand for themselves.
///
/// # Errors
///
/// [`InvalidPathText`] for any other U+0000.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, InvalidPathText> {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        path.push(match byte {
            0 => {
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                // Only what cannot be written plainly is written so: no NUL, no second spelling.
                Some(high << 4 | low)
                    .filter(|byte| *byte >= 0x80)
                    .ok_or(InvalidPathText)?
            }
            other => other,
        });
    }
    Ok(path)
}

fn digit(byte: Option<u8>) -> Result<u8, InvalidPathText> {
    match byte {
        Some(b @ b'0'..=b'9') => Ok(b - b'0'),
        Some(b @ b'a'..=b'f') => Ok(b - b'a' + 10),
        _ => Err(InvalidPathText),
    }
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn every_path_comes_back() {
        for path in [
            &b"/plain"[..],
            "/naïve/日本".as_bytes(),
            b"/\xff\xfe/\n\t",
            b"\xe6\x97",
            b"a\xc3(",
            b"",
        ] {
            assert_eq!(decode(encode(path).as_bytes()).as_deref(), Ok(path));
        }
        assert_eq!(encode(b"a\xff"), "a\0ff");
        assert_eq!(encode("日".as_bytes()), "日");
    }

    #[test]
    fn any_other_nul_is_refused() {
        for text in ["\0", "a\0", "\0f", "\0FF", "\x0000", "\x002f", "\0zz"] {
            assert!(decode(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
