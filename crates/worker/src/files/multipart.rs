//! `multipart/form-data`, parsed as it arrives: bytes in, events out, nothing but part headers kept.

#[cfg(test)]
mod tests;

use memchr::memmem::Finder;

use super::fail::{Fail, Kind, Outcome};

/// The most bytes of one part's headers.
const MAX_HEAD: usize = 16 << 10;
/// The most parts of one body.
const MAX_PARTS: usize = 10_000;
/// The longest boundary (RFC 2046).
const MAX_BOUNDARY: usize = 70;

/// What a piece of the body said.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Event<'a> {
    /// A part begins.
    Part(Head),
    /// Bytes of the part.
    Data(&'a [u8]),
    /// The part is complete.
    End,
}

/// What a part's headers say.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Head {
    /// The form field.
    pub(crate) name: Option<Vec<u8>>,
    /// The file name, as bytes.
    pub(crate) filename: Option<Vec<u8>>,
}

#[derive(Debug)]
enum State {
    /// Before the first boundary; what is there is ignored.
    Preamble,
    /// Right after a boundary: `--` ends the body, a line end begins a part.
    Boundary(Vec<u8>),
    Head(Vec<u8>),
    Data,
    Epilogue,
}

/// The parser.
#[derive(Debug)]
pub(crate) struct Multipart {
    /// CR LF `--` and the boundary. CR is nowhere else in it, so that a failed match never restarts within itself.
    delimiter: Vec<u8>,
    finder: Finder<'static>,
    /// How much of the delimiter the input so far ended with.
    matched: usize,
    /// The line end of that match is the header's and no content, should the match fail.
    borrowed: bool,
    state: State,
    parts: usize,
}

impl Multipart {
    /// A parser for the boundary that a `Content-Type` names.
    pub(crate) fn new(content_type: &[u8]) -> Outcome<Self> {
        let boundary = parameter(content_type, b"boundary")
            .ok_or_else(|| Fail::invalid("the multipart content type names no boundary"))?;
        if boundary.is_empty()
            || boundary.len() > MAX_BOUNDARY
            || boundary
                .iter()
                .any(|byte| !byte.is_ascii_graphic() && *byte != b' ')
        {
            return Err(Fail::invalid("the multipart boundary is malformed"));
        }
        let delimiter = [b"\r\n--", &boundary[..]].concat();
        let finder = Finder::new(&delimiter).into_owned();
        // The first boundary may stand at the very start, as if a line end came before it.
        Ok(Self {
            delimiter,
            finder,
            matched: 2,
            borrowed: true,
            state: State::Preamble,
            parts: 0,
        })
    }

    /// Takes the next bytes of the body.
    pub(crate) fn push(
        &mut self,
        mut input: &[u8],
        on: &mut impl FnMut(Event<'_>) -> Outcome<()>,
    ) -> Outcome<()> {
        while !input.is_empty() {
            match &mut self.state {
                State::Preamble | State::Data => input = self.content(input, on)?,
                State::Boundary(line) => {
                    let (byte, rest) = (input[0], &input[1..]);
                    input = rest;
                    line.push(byte);
                    if line == b"--" {
                        self.state = State::Epilogue;
                    } else if byte == b'\n' {
                        if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
                            return Err(Fail::invalid("a multipart boundary line is malformed"));
                        }
                        self.parts += 1;
                        if self.parts > MAX_PARTS {
                            return Err(Fail::new(Kind::TooMuch, "the body has too many parts"));
                        }
                        // A part without headers is one line end.
                        self.state = State::Head(b"\r\n".to_vec());
                    } else if line.len() > MAX_BOUNDARY {
                        return Err(Fail::invalid("a multipart boundary line is malformed"));
                    }
                }
                State::Head(head) => {
                    let (byte, rest) = (input[0], &input[1..]);
                    input = rest;
                    head.push(byte);
                    if head.len() > MAX_HEAD {
                        return Err(Fail::new(
                            Kind::TooMuch,
                            "the headers of a part are too long",
                        ));
                    }
                    if head.ends_with(b"\r\n\r\n") {
                        on(Event::Part(parse_head(head)))?;
                        self.state = State::Data;
                        // The blank line may at once be the line end before an empty part's boundary.
                        self.matched = 2;
                        self.borrowed = true;
                    }
                }
                State::Epilogue => return Ok(()),
            }
        }
        Ok(())
    }

    /// The body is over.
    pub(crate) fn finish(&self) -> Outcome<()> {
        match self.state {
            State::Epilogue => Ok(()),
            _ => Err(Fail::invalid(
                "the multipart body ended before its last boundary",
            )),
        }
    }

    /// Content up to a delimiter; the rest of the input is given back.
    fn content<'i>(
        &mut self,
        input: &'i [u8],
        on: &mut impl FnMut(Event<'_>) -> Outcome<()>,
    ) -> Outcome<&'i [u8]> {
        let in_part = matches!(self.state, State::Data);
        let mut data = |bytes: &[u8]| {
            if in_part && !bytes.is_empty() {
                on(Event::Data(bytes))
            } else {
                Ok(())
            }
        };
        if self.matched > 0 {
            let want = &self.delimiter[self.matched..];
            let same = want.iter().zip(input).take_while(|(a, b)| a == b).count();
            if same < want.len() && same < input.len() {
                // It was content after all.
                let from = if self.borrowed { 2 } else { 0 };
                data(&self.delimiter[from..self.matched + same])?;
                (self.matched, self.borrowed) = (0, false);
                return Ok(&input[same..]);
            }
            self.matched += same;
            if same < want.len() {
                return Ok(&[]);
            }
            return self.delimited(in_part, &input[same..], on);
        }
        if let Some(at) = self.finder.find(input) {
            data(&input[..at])?;
            return self.delimited(in_part, &input[at + self.delimiter.len()..], on);
        }
        let tail = input.len().saturating_sub(self.delimiter.len() - 1);
        let partial = memchr::memchr_iter(b'\r', &input[tail..])
            .map(|at| tail + at)
            .find(|at| self.delimiter.starts_with(&input[*at..]));
        let end = partial.unwrap_or(input.len());
        data(&input[..end])?;
        self.matched = input.len() - end;
        Ok(&[])
    }

    fn delimited<'i>(
        &mut self,
        in_part: bool,
        rest: &'i [u8],
        on: &mut impl FnMut(Event<'_>) -> Outcome<()>,
    ) -> Outcome<&'i [u8]> {
        (self.matched, self.borrowed) = (0, false);
        self.state = State::Boundary(Vec::new());
        if in_part {
            on(Event::End)?;
        }
        Ok(rest)
    }
}

fn parse_head(head: &[u8]) -> Head {
    let disposition = head.split(|byte| *byte == b'\n').find_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        name.trim_ascii()
            .eq_ignore_ascii_case(b"content-disposition")
            .then(|| value.trim_ascii())
    });
    let Some(disposition) = disposition else {
        return Head::default();
    };
    let extended = parameter(disposition, b"filename*").and_then(|value| {
        let rest = value.splitn(3, |byte| *byte == b'\'').nth(2)?;
        Some(super::query::percent_decode(rest))
    });
    Head {
        name: parameter(disposition, b"name"),
        filename: extended.or_else(|| parameter(disposition, b"filename")),
    }
}

/// A parameter of a header value: `; name=token` or `; name="quoted"`.
fn parameter(value: &[u8], want: &[u8]) -> Option<Vec<u8>> {
    let mut rest = &value[memchr::memchr(b';', value)? + 1..];
    loop {
        rest = rest.trim_ascii_start();
        let equals = memchr::memchr(b'=', rest)?;
        let name = rest[..equals].trim_ascii();
        let (found, after) = parameter_value(rest[equals + 1..].trim_ascii_start());
        if name.eq_ignore_ascii_case(want) {
            return Some(found);
        }
        rest = &after[memchr::memchr(b';', after)? + 1..];
    }
}

fn parameter_value(rest: &[u8]) -> (Vec<u8>, &[u8]) {
    let Some(quoted) = rest.strip_prefix(b"\"") else {
        let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
        return (rest[..end].trim_ascii().to_vec(), &rest[end..]);
    };
    let (mut value, mut at) = (Vec::new(), 0);
    while let Some(byte) = quoted.get(at).copied() {
        match (byte, quoted.get(at + 1).copied()) {
            (b'"', _) => return (value, &quoted[at + 1..]),
            // Only what must be escaped is an escape; names with backslashes come unescaped.
            (b'\\', Some(next @ (b'"' | b'\\'))) => {
                value.push(next);
                at += 2;
            }
            _ => {
                value.push(byte);
                at += 1;
            }
        }
    }
    (value, &[])
}
