//! Paths of requests against prefixes of rules.

/// Whether every server reads `path` as we do: absolute, visible ASCII, no empty, `.` or `..` segments,
/// nor anything that becomes a separator or a dot when it is decoded once or twice. Only such a path can
/// satisfy a rule that names paths.
pub(super) fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let visible = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'?' | b'#');
    bytes.first() == Some(&b'/')
        && bytes.iter().all(visible)
        && !bytes.windows(2).any(|pair| pair == b"//")
        && path[1..].split('/').all(is_plain_segment)
        && is_plainly_encoded(bytes)
}

/// Whether `prefix` holds `path`: it is all of it, or ends at a `/`.
pub(super) fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/'))
}

/// Some servers drop `;…` before they look at a segment, also where a proxy before them has decoded it; and
/// file systems of Windows drop spaces at its end.
fn is_plain_segment(segment: &str) -> bool {
    let ends = |at: &usize| {
        let rest = &segment.as_bytes()[*at..];
        rest.starts_with(b";")
            || rest
                .get(..3)
                .is_some_and(|code| code.eq_ignore_ascii_case(b"%3b"))
    };
    let end = (0..segment.len()).find(ends);
    let name = end.and_then(|end| segment.get(..end)).unwrap_or(segment);
    !(name.starts_with('.') && matches!(&*name.replace("%20", ""), "." | ".."))
}

fn is_plainly_encoded(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut before = 0;
    while let Some(at) = memchr::memchr(b'%', rest) {
        let Some(byte) = rest.get(at + 1..at + 3).and_then(hex) else {
            return false;
        };
        // `%25` is decoded to the `%` of another code by whoever decodes twice.
        if matches!(byte, 0..=0x1f | b'.' | b'/' | b'\\' | b'%' | 0x7f) {
            return false;
        }
        // The long spellings of ASCII that no UTF-8 has, in two, three and four bytes.
        if matches!(
            (before, byte),
            (_, 0xc0 | 0xc1) | (0xe0, 0x80..=0x9f) | (0xf0, 0x80..=0x8f)
        ) {
            return false;
        }
        before = byte;
        rest = &rest[at + 3..];
    }
    true
}

fn hex(pair: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(pair).ok()?;
    let digits = pair.iter().all(u8::is_ascii_hexdigit);
    digits.then(|| u8::from_str_radix(text, 16).ok()).flatten()
}
