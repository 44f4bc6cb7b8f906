//! A tar stream, parsed as it arrives: bytes in, events out. A header's word allocates nothing.

use super::format::{BLOCK, Header, Type, padding};
use crate::files::fail::{Fail, Kind, Outcome};
use crate::files::jail::PATH_MAX;

/// The most bytes of records about one entry.
const MAX_RECORDS: usize = 1 << 20;

/// What a piece of the stream said.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Event<'a> {
    /// An entry begins; its long names are in it.
    Entry(Header),
    /// Bytes of a regular file.
    Data(&'a [u8]),
    /// The entry is complete.
    End,
}

#[derive(Debug)]
enum State {
    Header,
    /// Long names and records, gathered up to their cap.
    Meta {
        kind: Type,
        left: usize,
        text: Vec<u8>,
    },
    Data {
        left: u64,
    },
    /// Content nobody wants.
    Skip {
        left: u64,
    },
    Padding {
        left: usize,
    },
    /// After the end marker; what follows is ignored.
    Over,
}

/// The parser.
#[derive(Debug)]
pub(super) struct Parser {
    state: State,
    block: [u8; BLOCK],
    filled: usize,
    /// What earlier entries say about the next one.
    next: Overrides,
    /// After the padding: an entry ends.
    ends: bool,
    /// Whether the last block was all zeros.
    zero: bool,
}

#[derive(Debug, Default)]
struct Overrides {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    mtime: Option<i64>,
}

impl Default for Parser {
    fn default() -> Self {
        Self {
            state: State::Header,
            block: [0; BLOCK],
            filled: 0,
            next: Overrides::default(),
            ends: false,
            zero: false,
        }
    }
}

impl Parser {
    /// Takes the next bytes of the stream.
    pub(super) fn push(
        &mut self,
        mut input: &[u8],
        on: &mut impl FnMut(Event<'_>) -> Outcome<()>,
    ) -> Outcome<()> {
        while !input.is_empty() {
            match &mut self.state {
                State::Over => return Ok(()),
                State::Header => {
                    let take = input.len().min(BLOCK - self.filled);
                    self.block[self.filled..self.filled + take].copy_from_slice(&input[..take]);
                    self.filled += take;
                    input = &input[take..];
                    if self.filled == BLOCK {
                        self.filled = 0;
                        self.header(on)?;
                    }
                }
                State::Meta { kind, left, text } => {
                    let take = input.len().min(*left);
                    text.extend_from_slice(&input[..take]);
                    *left -= take;
                    input = &input[take..];
                    if *left == 0 {
                        let (kind, text) = (*kind, std::mem::take(text));
                        let size = text.len() as u64;
                        self.next.take(kind, text)?;
                        self.pad(size, on)?;
                    }
                }
                State::Data { left } | State::Skip { left } => {
                    let take = usize::try_from(*left)
                        .unwrap_or(usize::MAX)
                        .min(input.len());
                    *left -= take as u64;
                    let (data, rest) = input.split_at(take);
                    let over = *left == 0;
                    if matches!(self.state, State::Data { .. }) {
                        on(Event::Data(data))?;
                    }
                    input = rest;
                    if over {
                        self.finish_content(on)?;
                    }
                }
                State::Padding { left } => {
                    let take = input.len().min(*left);
                    *left -= take;
                    input = &input[take..];
                    if *left == 0 {
                        self.after_padding(on)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The stream is over. A missing end marker is fine, a torn entry is not.
    pub(super) fn finish(&self) -> Outcome<()> {
        match self.state {
            State::Over => Ok(()),
            State::Header if self.filled == 0 => Ok(()),
            _ => Err(Fail::invalid("the tar stream ended inside an entry")),
        }
    }

    fn header(&mut self, on: &mut impl FnMut(Event<'_>) -> Outcome<()>) -> Outcome<()> {
        if self.block.iter().all(|byte| *byte == 0) {
            if self.zero {
                self.state = State::Over;
            }
            self.zero = true;
            return Ok(());
        }
        self.zero = false;
        let mut header = Header::decode(&self.block)
            .ok_or_else(|| Fail::invalid("a tar header is malformed"))?;
        match header.kind {
            Type::LongName | Type::LongLink | Type::Pax => {
                let cap = if header.kind == Type::Pax {
                    MAX_RECORDS
                } else {
                    PATH_MAX + 1
                };
                let left = usize::try_from(header.size).unwrap_or(usize::MAX);
                if left > cap {
                    return Err(Fail::new(
                        Kind::TooMuch,
                        "the records about a tar entry are too long",
                    ));
                }
                self.state = State::Meta {
                    kind: header.kind,
                    left,
                    text: Vec::new(),
                };
                if left == 0 {
                    self.state = State::Header;
                }
                return Ok(());
            }
            Type::PaxGlobal => {
                self.content(State::Skip { left: header.size }, header.size, on)?;
                return Ok(());
            }
            Type::File | Type::HardLink | Type::Symlink | Type::Directory | Type::Other(_) => {}
        }
        let next = std::mem::take(&mut self.next);
        header.name = next.name.unwrap_or(header.name);
        header.link = next.link.unwrap_or(header.link);
        header.size = next.size.unwrap_or(header.size);
        header.mtime = next.mtime.unwrap_or(header.mtime);
        // Some writers give links and directories a size without content.
        if !matches!(header.kind, Type::File | Type::Other(_)) {
            header.size = 0;
        }
        let (size, kind) = (header.size, header.kind);
        on(Event::Entry(header))?;
        self.ends = true;
        let state = match kind {
            Type::File => State::Data { left: size },
            _ => State::Skip { left: size },
        };
        self.content(state, size, on)
    }

    fn content(
        &mut self,
        state: State,
        size: u64,
        on: &mut impl FnMut(Event<'_>) -> Outcome<()>,
    ) -> Outcome<()> {
        self.state = state;
        self.filled = padding(size);
        if size == 0 {
            self.finish_content(on)
        } else {
            Ok(())
        }
    }

    fn finish_content(&mut self, on: &mut impl FnMut(Event<'_>) -> Outcome<()>) -> Outcome<()> {
        let left = std::mem::take(&mut self.filled);
        self.state = State::Padding { left };
        if left == 0 {
            self.after_padding(on)
        } else {
            Ok(())
        }
    }

    fn pad(&mut self, size: u64, on: &mut impl FnMut(Event<'_>) -> Outcome<()>) -> Outcome<()> {
        self.filled = padding(size);
        self.finish_content(on)
    }

    fn after_padding(&mut self, on: &mut impl FnMut(Event<'_>) -> Outcome<()>) -> Outcome<()> {
        self.state = State::Header;
        if std::mem::take(&mut self.ends) {
            on(Event::End)
        } else {
            Ok(())
        }
    }
}

impl Overrides {
    fn take(&mut self, kind: Type, mut text: Vec<u8>) -> Outcome<()> {
        match kind {
            Type::LongName | Type::LongLink => {
                if let Some(end) = memchr::memchr(0, &text) {
                    text.truncate(end);
                }
                let slot = if kind == Type::LongName {
                    &mut self.name
                } else {
                    &mut self.link
                };
                *slot = Some(text);
                Ok(())
            }
            _ => self
                .records(&text)
                .ok_or_else(|| Fail::invalid("a tar record is malformed"))?,
        }
    }

    /// `LENGTH KEY=VALUE\n`, again and again.
    fn records(&mut self, mut text: &[u8]) -> Option<Outcome<()>> {
        while !text.is_empty() {
            let space = memchr::memchr(b' ', text)?;
            let length: usize = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
            let record = text.get(space + 1..length)?.strip_suffix(b"\n")?;
            text = text.get(length..)?;
            let equals = memchr::memchr(b'=', record)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            let digits = || std::str::from_utf8(value).ok();
            match key {
                b"path" => self.name = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"size" => self.size = Some(digits()?.parse().ok()?),
                b"mtime" => self.mtime = digits()?.split('.').next()?.parse().ok(),
                _ if key.starts_with(b"GNU.sparse.") => {
                    return Some(Err(Fail::invalid("sparse tar entries are not unpacked")));
                }
                _ => {}
            }
        }
        Some(Ok(()))
    }
}
