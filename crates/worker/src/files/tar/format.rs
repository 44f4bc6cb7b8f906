//! The 512-byte header of a tar stream: ustar with GNU's long names and large numbers.

/// Bytes of a header, and what content is padded to.
pub(super) const BLOCK: usize = 512;

/// What an entry is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Type {
    File,
    HardLink,
    Symlink,
    Directory,
    /// GNU: the content is the next entry's name.
    LongName,
    /// GNU: the content is the next entry's link target.
    LongLink,
    /// POSIX: records about the next entry.
    Pax,
    /// POSIX: records about all entries; read nothing of it is used, written it says what was left out.
    PaxGlobal,
    /// Devices, pipes, sparse files, whatever else.
    Other(u8),
}

/// A decoded header.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Header {
    pub(super) name: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) kind: Type,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) mtime: i64,
}

impl Header {
    /// Reads a block. `None`: its checksum or a number is wrong.
    pub(super) fn decode(block: &[u8; BLOCK]) -> Option<Self> {
        let stored = number(&block[148..156])?;
        let sum: u64 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| {
                u64::from(if (148..156).contains(&at) {
                    b' '
                } else {
                    *byte
                })
            })
            .sum();
        if stored != sum {
            return None;
        }
        let mut name = text(&block[..100]).to_vec();
        // GNU's own format has other things where ustar has the prefix.
        if block[257..263] == *b"ustar\0" && block[345] != 0 {
            name = [text(&block[345..500]), b"/", &name].concat();
        }
        let kind = match block[156] {
            b'0' | 0 | b'7' if name.ends_with(b"/") => Type::Directory,
            b'0' | 0 | b'7' => Type::File,
            b'1' => Type::HardLink,
            b'2' => Type::Symlink,
            b'5' => Type::Directory,
            b'L' => Type::LongName,
            b'K' => Type::LongLink,
            b'x' => Type::Pax,
            b'g' => Type::PaxGlobal,
            other => Type::Other(other),
        };
        Some(Self {
            name,
            link: text(&block[157..257]).to_vec(),
            kind,
            mode: u32::try_from(number(&block[100..108])? & 0o7777).ok()?,
            size: number(&block[124..136])?,
            mtime: number(&block[136..148])
                .and_then(|time| i64::try_from(time).ok())
                .unwrap_or(0),
        })
    }

    /// Writes the header, after entries for names that do not fit.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for (text, kind) in [(&self.link, b'K'), (&self.name, b'L')] {
            if text.len() > 100 {
                let long = text.len() as u64 + 1;
                out.extend_from_slice(&block(b"././@LongLink", b"", kind, 0o644, long, 0));
                out.extend_from_slice(text);
                out.push(0);
                pad(out, long);
            }
        }
        let kind = match self.kind {
            Type::HardLink => b'1',
            Type::Symlink => b'2',
            Type::Directory => b'5',
            Type::PaxGlobal => b'g',
            _ => b'0',
        };
        let short = |text: &[u8]| text[..text.len().min(100)].to_vec();
        let header = block(
            &short(&self.name),
            &short(&self.link),
            kind,
            self.mode,
            self.size,
            self.mtime,
        );
        out.extend_from_slice(&header);
    }
}

/// A record of an extended header: its length, itself included, the key and the value.
pub(super) fn record(key: &str, value: &str) -> String {
    // The blank, the equals sign and the newline.
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n")
}

/// Appends the zeros after content of `size` bytes.
pub(super) fn pad(out: &mut Vec<u8>, size: u64) {
    out.resize(out.len() + padding(size), 0);
}

/// How many zeros follow content of `size` bytes.
pub(super) fn padding(size: u64) -> usize {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or(0);
    if over == 0 { 0 } else { BLOCK - over }
}

fn block(name: &[u8], link: &[u8], kind: u8, mode: u32, size: u64, mtime: i64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..name.len()].copy_from_slice(name);
    put(&mut block[100..108], u64::from(mode));
    put(&mut block[108..116], 0);
    put(&mut block[116..124], 0);
    put(&mut block[124..136], size);
    put(&mut block[136..148], u64::try_from(mtime).unwrap_or(0));
    block[148..156].fill(b' ');
    block[156] = kind;
    block[157..157 + link.len()].copy_from_slice(link);
    block[257..265].copy_from_slice(b"ustar  \0");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    let digits = format!("{sum:06o}\0 ");
    block[148..156].copy_from_slice(digits.as_bytes());
    block
}

/// Octal where it fits, else GNU's big-endian form.
fn put(field: &mut [u8], value: u64) {
    let digits = format!("{value:0width$o}", width = field.len() - 1);
    if digits.len() < field.len() {
        field[..digits.len()].copy_from_slice(digits.as_bytes());
    } else {
        let bytes = value.to_be_bytes();
        let at = field.len() - bytes.len();
        field[0] = 0x80;
        field[at..].copy_from_slice(&bytes);
    }
}

fn number(field: &[u8]) -> Option<u64> {
    if let Some((first, bytes)) = field.split_first()
        && first & 0x80 != 0
    {
        // A set sign bit, or more than 64 bits, is no size.
        if first & 0x40 != 0 {
            return None;
        }
        return bytes
            .iter()
            .try_fold(u64::from(first & 0x3f), |value, byte| {
                value.checked_mul(256)?.checked_add(u64::from(*byte))
            });
    }
    let digits = field
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default()
        .trim_ascii();
    digits.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

fn text(field: &[u8]) -> &[u8] {
    let end = memchr::memchr(0, field).unwrap_or(field.len());
    &field[..end]
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn large_numbers_are_read_in_fields_of_any_length() {
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 1, 2]), Some(258));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]), Some(258));
        assert_eq!(number(&[0xff; 12]), None);
        assert_eq!(number(&[0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(number(&[0xff; 8]), None);
        assert_eq!(number(&[0xbf, 0, 0, 0, 0, 0, 0, 0]), Some(0x3f << 56));
        assert_eq!(number(&[]), Some(0));
    }
}
