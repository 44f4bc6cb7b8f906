//! A body from one connection to the other, in constant memory: what the one cannot take is not read from
//! the other.

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::body::{Body, Next};
use super::client::ROOM;
use super::write;
use crate::Reason;
use crate::broker::ScrubBody;
use crate::place::Flow;

/// What is read at once of a body that comes fast.
const ROOM_FAST: usize = 64 * 1024;
/// What is gathered before it is written.
const GATHERED: usize = 32 * 1024;
/// From this size on a piece is written from where it lies.
const DIRECT: usize = 16 * 1024;

/// Why a body did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Who sends it is gone.
    From,
    /// It is not framed as its head said.
    Malformed,
    /// Who receives it is gone.
    To,
    /// It had to.
    Over(Reason),
}

/// The way of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
}

/// A body on its way.
pub(super) struct Pump<'a> {
    pub(super) flow: &'a Flow,
    pub(super) way: Way,
    pub(super) body: Body,
    /// It goes on in chunks.
    pub(super) chunked: bool,
    pub(super) scrub: Option<ScrubBody>,
    scrubbed: Vec<u8>,
}

impl<'a> Pump<'a> {
    pub(super) const fn new(flow: &'a Flow, way: Way, body: Body, chunked: bool) -> Self {
        Self {
            flow,
            way,
            body,
            chunked,
            scrub: None,
            scrubbed: Vec::new(),
        }
    }

    /// Moves what was read already, as far as it is to be gathered, into `out`. Says whether that was all.
    pub(super) fn gather(
        &mut self,
        buffer: &mut BytesMut,
        out: &mut BytesMut,
    ) -> Result<bool, Stop> {
        while out.len() < GATHERED {
            match self.body.next(buffer).map_err(|_| Stop::Malformed)? {
                Next::Data(length) => {
                    self.append(&buffer[..length], out);
                    buffer.advance(length);
                }
                Next::More => return Ok(false),
                Next::End => {
                    self.end(out);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Moves the body, behind what `out` holds already, until it ends. It has not ended yet.
    pub(super) async fn run(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        buffer: &mut BytesMut,
        to: &mut (impl AsyncWrite + Unpin),
        out: &mut BytesMut,
    ) -> Result<(), Stop> {
        let mut fast = false;
        loop {
            match self.body.next(buffer).map_err(|_| Stop::Malformed)? {
                Next::Data(length) if length >= DIRECT && !self.chunked && self.scrub.is_none() => {
                    self.flush(to, out).await?;
                    self.count(length)?;
                    to.write_all(&buffer[..length])
                        .await
                        .map_err(|_| Stop::To)?;
                    buffer.advance(length);
                }
                Next::Data(length) => {
                    self.append(&buffer[..length], out);
                    buffer.advance(length);
                    if out.len() >= GATHERED {
                        self.flush(to, out).await?;
                    }
                }
                Next::More => {
                    self.flush(to, out).await?;
                    to.flush().await.map_err(|_| Stop::To)?;
                    let room = if fast { ROOM_FAST } else { ROOM };
                    buffer.reserve(room);
                    let read = from.read_buf(buffer).await.map_err(|_| Stop::From)?;
                    fast = read >= ROOM;
                    if read == 0 {
                        self.body.closed().map_err(|_| Stop::From)?;
                    }
                }
                Next::End => {
                    self.end(out);
                    self.flush(to, out).await?;
                    return to.flush().await.map_err(|_| Stop::To);
                }
            }
        }
    }

    /// Writes what was gathered.
    pub(super) async fn flush(
        &self,
        to: &mut (impl AsyncWrite + Unpin),
        out: &mut BytesMut,
    ) -> Result<(), Stop> {
        if out.is_empty() {
            return Ok(());
        }
        self.count(out.len())?;
        to.write_all(out).await.map_err(|_| Stop::To)?;
        out.clear();
        Ok(())
    }

    fn count(&self, bytes: usize) -> Result<(), Stop> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        match self.way {
            Way::Up => self.flow.up(bytes),
            Way::Down => self.flow.down(bytes),
        }
        .map_err(Stop::Over)
    }

    fn append(&mut self, piece: &[u8], out: &mut BytesMut) {
        match &mut self.scrub {
            None => write::piece(out, piece, self.chunked),
            Some(scrub) => {
                scrub.feed(piece, &mut self.scrubbed);
                write::piece(out, &self.scrubbed, self.chunked);
                self.scrubbed.clear();
            }
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        if let Some(mut scrub) = self.scrub.take() {
            scrub.finish(&mut self.scrubbed);
            write::piece(out, &self.scrubbed, self.chunked);
            self.scrubbed.clear();
        }
        if self.chunked {
            write::last(out);
        }
    }
}
