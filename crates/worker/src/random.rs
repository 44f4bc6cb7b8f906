//! Names that nobody guesses or meets twice.

use std::fmt::Write as _;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// 32 hexadecimal digits.
///
/// # Errors
/// The kernel has no randomness for us.
pub(crate) fn hex() -> io::Result<String> {
    let mut random = [0_u8; 16];
    let mut filled = 0;
    while filled < random.len() {
        match getrandom(&mut random[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut text = String::with_capacity(2 * random.len());
    for byte in random {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_differ() {
        let [one, other] = [hex().unwrap(), hex().unwrap()];
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
    }
}
