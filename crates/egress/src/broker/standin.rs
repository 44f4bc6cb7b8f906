//! What a sandbox holds in the place of a secret.

use rustix::rand::{GetRandomFlags, getrandom};

/// How every stand-in begins: it can be told at sight, and searched for with one needle.
pub(super) const PREFIX: &str = "namzu_";

/// Random letters, five bits each: 130 bits.
const LETTERS: usize = 26;

/// Lower case, for programs that change a token's case.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A stand-in. Worth nothing outside, and of use only through a rule of its own credential; it is
/// not shown in logs for all that.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Standin(Box<str>);

impl Standin {
    /// A new one. As long as the secret where that is longer than 32 bytes: programs that check a token's
    /// length go on working.
    ///
    /// # Errors
    ///
    /// The kernel gave no random bytes.
    pub(super) fn random(secret: usize) -> Result<Self, String> {
        let letters = LETTERS.max(secret.saturating_sub(PREFIX.len()));
        let mut bytes = vec![0; letters];
        fill(&mut bytes).map_err(|err| format!("no random bytes: {err}"))?;
        let mut text = PREFIX.to_owned();
        text.extend(
            bytes
                .iter()
                .map(|byte| char::from(ALPHABET[usize::from(byte % 32)])),
        );
        Ok(Self(text.into()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

fn fill(mut bytes: &mut [u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        let got = rustix::io::retry_on_intr(|| getrandom(&mut *bytes, GetRandomFlags::empty()))?;
        bytes = &mut bytes[got..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_130_bits_after_the_prefix() {
        let standin = Standin::random(8).unwrap();
        let letters = standin.as_str().strip_prefix(PREFIX).unwrap();
        assert_eq!(letters.len(), LETTERS);
        assert!(letters.bytes().all(|letter| ALPHABET.contains(&letter)));
        assert!(standin != Standin::random(8).unwrap());
    }

    #[test]
    fn it_is_as_long_as_a_longer_secret() {
        for secret in [33, 40, 93, 8192] {
            assert_eq!(Standin::random(secret).unwrap().as_str().len(), secret);
        }
    }
}
