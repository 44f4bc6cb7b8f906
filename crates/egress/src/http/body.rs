//! The bytes of a body, whatever its framing: read piece by piece where they lie, never kept.

use bytes::{Buf as _, BytesMut};

use super::fields::Framing;
use super::scan::is_token;

/// The longest line between two chunks, with its extensions.
const LINE_MAX: usize = 1024;
/// The most bytes of extensions in one body; none of them goes on.
const EXTENSIONS_MAX: usize = 16 * 1024;
/// The most bytes of trailers; none of them goes on.
const TRAILERS_MAX: usize = 8 * 1024;

/// A body is not framed as its head said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What comes next of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The buffer begins with so many bytes of it, at least one, which the caller takes from there.
    Data(usize),
    /// More must be read.
    More,
    /// It is over.
    End,
}

/// A body that is being read.
#[derive(Debug)]
pub(crate) struct Body {
    state: State,
    extensions: usize,
    trailers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Length(u64),
    UntilClose,
    /// At the line before a chunk.
    Size,
    Chunk(u64),
    /// At the line end after a chunk.
    ChunkEnd,
    Trailers,
    End,
}

impl Body {
    pub(crate) const fn new(framing: Framing) -> Self {
        Self {
            state: match framing {
                Framing::None | Framing::Length(0) => State::End,
                Framing::Length(length) => State::Length(length),
                Framing::Chunked => State::Size,
                Framing::UntilClose => State::UntilClose,
            },
            extensions: 0,
            trailers: 0,
        }
    }

    /// What the end of the connection means now: the end of the body, or that it is broken off.
    pub(crate) fn closed(&mut self) -> Result<(), Malformed> {
        match self.state {
            State::UntilClose | State::End => {
                self.state = State::End;
                Ok(())
            }
            _ => Err(Malformed),
        }
    }

    /// Looks at what the buffer begins with; takes framing from it, and leaves data in it.
    pub(crate) fn next(&mut self, buffer: &mut BytesMut) -> Result<Next, Malformed> {
        loop {
            match self.state {
                State::End => return Ok(Next::End),
                State::UntilClose => {
                    return Ok(match buffer.len() {
                        0 => Next::More,
                        length => Next::Data(length),
                    });
                }
                State::Length(left) => {
                    return Ok(self.data(left, buffer.len(), State::End, State::Length));
                }
                State::Chunk(left) => {
                    return Ok(self.data(left, buffer.len(), State::ChunkEnd, State::Chunk));
                }
                State::ChunkEnd => match buffer.get(..2) {
                    Some(b"\r\n") => {
                        buffer.advance(2);
                        self.state = State::Size;
                    }
                    Some(_) => return Err(Malformed),
                    None if buffer.first().is_some_and(|byte| *byte != b'\r') => {
                        return Err(Malformed);
                    }
                    None => return Ok(Next::More),
                },
                State::Size => match line(buffer)? {
                    None => return Ok(Next::More),
                    Some(length) => {
                        let size = self.size(&buffer[..length])?;
                        buffer.advance(length + 2);
                        self.state = if size == 0 {
                            State::Trailers
                        } else {
                            State::Chunk(size)
                        };
                    }
                },
                State::Trailers => match line(buffer)? {
                    None => return Ok(Next::More),
                    Some(0) => {
                        buffer.advance(2);
                        self.state = State::End;
                    }
                    Some(length) => {
                        self.trailers += length;
                        if self.trailers > TRAILERS_MAX || !is_field(&buffer[..length]) {
                            return Err(Malformed);
                        }
                        buffer.advance(length + 2);
                    }
                },
            }
        }
    }

    fn data(&mut self, left: u64, there: usize, then: State, more: fn(u64) -> State) -> Next {
        if there == 0 {
            return Next::More;
        }
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(there);
        let left = left - taken as u64;
        self.state = if left == 0 { then } else { more(left) };
        Next::Data(taken)
    }

    /// Reads the line before a chunk: hexadecimal digits, and extensions that are dropped.
    fn size(&mut self, line: &[u8]) -> Result<u64, Malformed> {
        let end = line
            .iter()
            .position(|byte| *byte == b';')
            .unwrap_or(line.len());
        self.extensions += line.len() - end;
        if end == 0 || end > 15 || self.extensions > EXTENSIONS_MAX {
            return Err(Malformed);
        }
        line[..end].iter().try_fold(0, |sum, digit| {
            let digit = char::from(*digit).to_digit(16).ok_or(Malformed)?;
            Ok(sum << 4 | u64::from(digit))
        })
    }
}

/// The length of the line with which a buffer begins; `None` while it is not whole.
fn line(buffer: &[u8]) -> Result<Option<usize>, Malformed> {
    let looked_at = &buffer[..buffer.len().min(LINE_MAX + 2)];
    let end = looked_at
        .iter()
        .position(|byte| matches!(byte, 0..=8 | 10..=31 | 127));
    match end {
        None if looked_at.len() > LINE_MAX => Err(Malformed),
        None => Ok(None),
        Some(end) if buffer[end] != b'\r' => Err(Malformed),
        Some(end) => match buffer.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => Ok(Some(end)),
            Some(_) => Err(Malformed),
        },
    }
}

fn is_field(line: &[u8]) -> bool {
    let name = line.iter().take_while(|byte| is_token(**byte)).count();
    name > 0 && line.get(name) == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All data of a body that comes in pieces of `step` bytes, and what is left after it.
    fn read(framing: Framing, bytes: &[u8], step: usize) -> Result<(Vec<u8>, usize), Malformed> {
        let mut body = Body::new(framing);
        let mut buffer = BytesMut::new();
        let mut data = Vec::new();
        let mut pieces = bytes.chunks(step);
        loop {
            match body.next(&mut buffer)? {
                Next::Data(length) => data.extend_from_slice(&buffer.split_to(length)),
                Next::More => match pieces.next() {
                    Some(piece) => buffer.extend_from_slice(piece),
                    None => return body.closed().map(|()| (data, 0)),
                },
                Next::End => {
                    return Ok((data, buffer.len() + pieces.map(<[u8]>::len).sum::<usize>()));
                }
            }
        }
    }

    #[test]
    fn a_body_is_the_same_however_it_is_cut() {
        let chunked = b"5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nx-trailer: y\r\n\r\nGET";
        for step in 1..chunked.len() {
            assert_eq!(
                read(Framing::Chunked, chunked, step),
                Ok((b"hello world".to_vec(), 3)),
                "{step}"
            );
            assert_eq!(
                read(Framing::Length(5), b"helloGET", step),
                Ok((b"hello".to_vec(), 3))
            );
        }
    }

    #[test]
    fn a_body_that_breaks_off_is_told_from_one_that_ends() {
        assert_eq!(read(Framing::Length(6), b"hello", 9), Err(Malformed));
        assert_eq!(read(Framing::Chunked, b"5\r\nhello\r\n", 9), Err(Malformed));
        assert_eq!(
            read(Framing::Chunked, b"5\r\nhello\r\n0\r\n", 9),
            Err(Malformed)
        );
        assert_eq!(
            read(Framing::UntilClose, b"hello", 9),
            Ok((b"hello".to_vec(), 0))
        );
    }

    #[test]
    fn chunks_are_read_strictly() {
        for bytes in [
            &b"5\nhello\r\n0\r\n\r\n"[..],
            b"5 \r\nhello\r\n0\r\n\r\n",
            b" 5\r\nhello\r\n0\r\n\r\n",
            b"+5\r\nhello\r\n0\r\n\r\n",
            b"-5\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"\r\nhello",
            b";a\r\nhello",
            b"5\r\nhelloX\r\n0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"5;a\nb\r\nhello\r\n0\r\n\r\n",
            b"5;\0\r\nhello\r\n0\r\n\r\n",
            b"ffffffffffffffffff\r\nhello",
            b"0\r\nno field\r\n\r\n",
            b"0\r\n folded: x\r\n\r\n",
            b"0\r\nx: y\n\r\n",
        ] {
            assert_eq!(
                read(Framing::Chunked, bytes, 3),
                Err(Malformed),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn extensions_and_trailers_have_an_end() {
        let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(LINE_MAX));
        assert_eq!(read(Framing::Chunked, long.as_bytes(), 64), Err(Malformed));
        let many = format!("1;{}\r\nx\r\n", "a".repeat(512)).repeat(64);
        assert_eq!(read(Framing::Chunked, many.as_bytes(), 64), Err(Malformed));
        let trailers = format!(
            "0\r\n{}\r\n",
            format!("a: {}\r\n", "b".repeat(512)).repeat(32)
        );
        assert_eq!(
            read(Framing::Chunked, trailers.as_bytes(), 64),
            Err(Malformed)
        );
    }
}
