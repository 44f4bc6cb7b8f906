//! Where a head ends. Looks at each byte once, and refuses at the first one that no head may have, so that
//! nobody waits for a deadline to learn that bare line feeds are not accepted.

use crate::Reason;

/// The most bytes that a head may have.
pub(crate) const HEAD_MAX: usize = 32 * 1024;
/// The most fields that a head may have.
pub(crate) const FIELDS_MAX: usize = 100;
/// A request line has its method's end in these first bytes: what does not is not HTTP.
const METHOD_MAX: usize = 32;

/// Which head is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From inside.
    Request,
    /// From outside.
    Response,
}

/// How far the bytes of one head were looked at.
#[derive(Debug)]
pub(crate) struct Scan {
    kind: Kind,
    /// All before it was looked at.
    at: usize,
    /// Where the line begins that is being looked at.
    line: usize,
    lines: usize,
}

impl Scan {
    pub(crate) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            at: 0,
            line: 0,
            lines: 0,
        }
    }

    /// The length of the head with which `bytes` begin; `None` while it is not whole. To be called with the
    /// same bytes and more.
    ///
    /// # Errors
    ///
    /// [`Reason::RequestMalformed`] and [`Reason::RequestTooLarge`].
    pub(crate) fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Reason> {
        let from = self.at;
        for found in memchr::memchr3_iter(b'\r', b'\n', 0, &bytes[from..]) {
            let found = from + found;
            match bytes[found] {
                b'\r' => match bytes.get(found + 1) {
                    None => {
                        self.at = found;
                        return self.more(bytes);
                    }
                    Some(b'\n') => {
                        if found == self.line {
                            return self.whole(found + 2);
                        }
                        self.line_ended(&bytes[self.line..found])?;
                        self.line = found + 2;
                    }
                    Some(_) => return Err(Reason::RequestMalformed),
                },
                b'\n' if found > 0 && bytes[found - 1] == b'\r' => {}
                _ => return Err(Reason::RequestMalformed),
            }
        }
        self.at = bytes.len();
        self.more(bytes)
    }

    fn line_ended(&mut self, line: &[u8]) -> Result<(), Reason> {
        self.lines += 1;
        if self.lines > FIELDS_MAX + 1 {
            return Err(Reason::RequestTooLarge);
        }
        if self.lines > 1 {
            return Ok(());
        }
        // HTTP/0.9 has no more to say, and HTTP/2 must not be taken for a head that is still to come.
        let version = match self.kind {
            Kind::Request => line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0"),
            Kind::Response => line.starts_with(b"HTTP/1.1 ") || line.starts_with(b"HTTP/1.0 "),
        };
        if version && plausible(self.kind, line) {
            Ok(())
        } else {
            Err(Reason::RequestMalformed)
        }
    }

    const fn whole(&self, end: usize) -> Result<Option<usize>, Reason> {
        // An empty first line: the one that is forgiven was taken off before.
        if self.lines == 0 {
            return Err(Reason::RequestMalformed);
        }
        if end > HEAD_MAX {
            return Err(Reason::RequestTooLarge);
        }
        Ok(Some(end))
    }

    fn more(&self, bytes: &[u8]) -> Result<Option<usize>, Reason> {
        if bytes.len() >= HEAD_MAX {
            return Err(Reason::RequestTooLarge);
        }
        if self.lines == 0 && !plausible(self.kind, bytes) {
            return Err(Reason::RequestMalformed);
        }
        Ok(None)
    }
}

/// Whether bytes without a whole line may be the beginning of one.
fn plausible(kind: Kind, bytes: &[u8]) -> bool {
    match kind {
        Kind::Request => {
            let method = bytes.iter().take(METHOD_MAX + 1);
            let length = method.take_while(|byte| is_token(**byte)).count();
            match bytes.get(length) {
                Some(byte) => length > 0 && length <= METHOD_MAX && *byte == b' ' || bytes == b"\r",
                None => true,
            }
        }
        Kind::Response => bytes.iter().zip(b"HTTP/1.").all(|(is, want)| is == want),
    }
}

/// Whether a byte may be in a method or in a field's name (RFC 9110 §5.6.2).
pub(crate) const fn is_token(byte: u8) -> bool {
    matches!(byte,
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z'
        | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(bytes: &[u8]) -> Result<Option<usize>, Reason> {
        Scan::new(Kind::Request).end(bytes)
    }

    #[test]
    fn a_head_ends_at_the_first_empty_line() {
        let head = b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\nGET";
        assert_eq!(request(head), Ok(Some(head.len() - 3)));
    }

    #[test]
    fn a_head_that_comes_byte_by_byte_ends_at_the_same_place() {
        let head = b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n";
        let mut scan = Scan::new(Kind::Request);
        for end in 1..head.len() {
            assert_eq!(scan.end(&head[..end]), Ok(None), "{end}");
        }
        assert_eq!(scan.end(head), Ok(Some(head.len())));
    }

    #[test]
    fn bare_line_feeds_carriage_returns_and_nuls_are_refused_before_the_head_is_whole() {
        for head in [
            &b"GET / HTTP/1.1\nhost: a.test"[..],
            b"GET / HTTP/1.1\r\nhost: a\rb",
            b"GET / HTTP/1.1\r\nhost: a\0",
            b"\nGET / HTTP/1.1",
        ] {
            assert_eq!(request(head), Err(Reason::RequestMalformed), "{head:?}");
        }
    }

    #[test]
    fn what_is_not_http_1_is_refused_at_its_first_line() {
        for head in [
            &b"GET /\r\n"[..],
            b"PRI * HTTP/2.0\r\n",
            b"GET / HTTP/1.2\r\n",
            b"GET / http/1.1\r\n",
            b"\x16\x03\x01\x02\x00\x01",
            b" GET",
        ] {
            assert_eq!(request(head), Err(Reason::RequestMalformed), "{head:?}");
        }
    }

    #[test]
    fn a_head_of_100_kilobytes_is_too_large_at_32() {
        let mut head = b"GET / HTTP/1.1\r\na: ".to_vec();
        head.resize(HEAD_MAX - 1, b'a');
        assert_eq!(request(&head), Ok(None));
        head.push(b'a');
        assert_eq!(request(&head), Err(Reason::RequestTooLarge));
    }

    #[test]
    fn five_thousand_fields_are_too_many_at_the_hundred_and_first() {
        let head = |fields: usize| format!("GET / HTTP/1.1\r\n{}", "a:b\r\n".repeat(fields));
        assert_eq!(request(head(FIELDS_MAX).as_bytes()), Ok(None));
        assert_eq!(
            request(head(FIELDS_MAX + 1).as_bytes()),
            Err(Reason::RequestTooLarge)
        );
    }

    #[test]
    fn a_response_must_begin_like_one() {
        let mut scan = Scan::new(Kind::Response);
        assert_eq!(scan.end(b"HTTP"), Ok(None));
        assert_eq!(
            Scan::new(Kind::Response).end(b"SSH-2.0"),
            Err(Reason::RequestMalformed)
        );
    }
}
