//! One sequence of bytes that must not be seen, and what is shown in its place.

use memchr::memmem::Finder;

/// Bytes to be found in either case, and as many to be put in their place.
pub(super) struct Needle {
    finder: Finder<'static>,
    fill: Box<[u8]>,
    /// For each position, how long the longest beginning of the needle is that also ends there
    /// (Knuth, Morris and Pratt).
    borders: Box<[usize]>,
}

impl Needle {
    /// `bytes` are not empty, and `fill` is as long.
    pub(super) fn new(bytes: &[u8], fill: &[u8]) -> Self {
        debug_assert!(!bytes.is_empty() && bytes.len() == fill.len());
        let bytes = bytes.to_ascii_lowercase();
        Self {
            finder: Finder::new(&bytes).into_owned(),
            fill: fill.into(),
            borders: borders(&bytes),
        }
    }

    fn len(&self) -> usize {
        self.fill.len()
    }

    /// Fills in `clean` wherever `raw`, which is as long and in lower case, holds the needle. Overlapping ones are all found:
    /// half of a secret is not for showing either.
    pub(super) fn mask(&self, raw: &[u8], clean: &mut [u8]) {
        let step = self.len() - self.borders.last().copied().unwrap_or(0);
        let (mut at, mut done) = (0, 0);
        while let Some(found) = raw.get(at..).and_then(|rest| self.finder.find(rest)) {
            let start = at + found;
            let end = start + self.len();
            let from = start.max(done);
            clean[from..end].copy_from_slice(&self.fill[from - start..]);
            (at, done) = (start + step, end);
        }
    }

    /// How many of the last bytes of `raw`, which is in lower case, may be the beginning of a needle that is not there in full.
    pub(super) fn begun(&self, raw: &[u8]) -> usize {
        let bytes = self.finder.needle();
        let from = raw.len().saturating_sub(self.len() - 1);
        let mut length = 0;
        for byte in &raw[from..] {
            length = extend(bytes, &self.borders, length, *byte);
        }
        length
    }
}

fn borders(bytes: &[u8]) -> Box<[usize]> {
    let mut borders = vec![0; bytes.len()];
    for at in 1..bytes.len() {
        borders[at] = extend(bytes, &borders, borders[at - 1], bytes[at]);
    }
    borders.into()
}

/// The longest beginning of `bytes` that ends with `next`, after one of `length`.
fn extend(bytes: &[u8], borders: &[usize], mut length: usize, next: u8) -> usize {
    while length > 0 && bytes[length] != next {
        length = borders[length - 1];
    }
    length + usize::from(bytes[length] == next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(needle: &[u8], raw: &[u8]) -> String {
        let mut clean = raw.to_vec();
        Needle::new(needle, &vec![b'*'; needle.len()]).mask(raw, &mut clean);
        String::from_utf8(clean).unwrap()
    }

    #[test]
    fn overlapping_ones_are_masked_to_the_end() {
        assert_eq!(masked(b"abab", b"xababab!"), "x******!");
        assert_eq!(masked(b"aaa", b"aaaaab"), "*****b");
        assert_eq!(masked(b"a", b"banana"), "b*n*n*");
    }

    #[test]
    fn what_may_go_on_is_told() {
        let needle = Needle::new(b"abcabd", b"******");
        for (raw, begun) in [
            ("", 0),
            ("x", 0),
            ("xa", 1),
            ("abcab", 5),
            ("abcabcab", 5),
            ("zzabca", 4),
            ("abcabd", 0),
            ("ab", 2),
            ("abx", 0),
        ] {
            assert_eq!(needle.begun(raw.as_bytes()), begun, "{raw}");
        }
    }
}
