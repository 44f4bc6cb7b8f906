//! gzip around sources and sinks, streamed.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, MultiGzDecoder};

use super::fail::{Fail, Outcome};
use super::sink::Sink;
use super::source::{CHUNK, Source};

/// A source whose bytes leave compressed.
#[derive(Debug)]
pub(crate) struct Compressed<S> {
    inner: S,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<S: Source> Compressed<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self {
            inner,
            encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())),
        }
    }
}

impl<S: Source> Source for Compressed<S> {
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        let Some(encoder) = &mut self.encoder else {
            return Ok(None);
        };
        while encoder.get_ref().len() < CHUNK / 4 {
            match self.inner.next()? {
                Some(chunk) => encoder.write_all(&chunk)?,
                None => {
                    let last = self.encoder.take().map(GzEncoder::finish).transpose()?;
                    return Ok(last.map(Bytes::from));
                }
            }
        }
        Ok(Some(std::mem::take(encoder.get_mut()).into()))
    }
}

/// A sink that is given compressed bytes. However much they grow to, they pass through a small buffer.
#[derive(Debug)]
pub(crate) struct Decompressed<S: Sink> {
    decoder: MultiGzDecoder<Inner<S>>,
}

#[derive(Debug)]
struct Inner<S> {
    sink: S,
    fail: Option<Fail>,
}

impl<S: Sink> Decompressed<S> {
    pub(crate) fn new(sink: S) -> Self {
        Self {
            decoder: MultiGzDecoder::new(Inner { sink, fail: None }),
        }
    }

    /// The sink, once the stream is complete.
    pub(crate) fn finish(mut self) -> Outcome<S> {
        let ended = self.decoder.try_finish();
        self.outcome(ended)?;
        match self.decoder.finish() {
            Ok(inner) => Ok(inner.sink),
            Err(error) => Err(malformed(&error)),
        }
    }

    fn outcome<T>(&mut self, result: io::Result<T>) -> Outcome<T> {
        result.map_err(|error| {
            let own = self.decoder.get_mut().fail.take();
            own.unwrap_or_else(|| malformed(&error))
        })
    }
}

impl<S: Sink> Sink for Decompressed<S> {
    fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        let written = self.decoder.write_all(bytes);
        self.outcome(written)
    }
}

fn malformed(error: &io::Error) -> Fail {
    Fail::invalid(format!("the body is not a complete gzip stream: {error}"))
}

impl<S: Sink> Write for Inner<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.sink.write(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(fail) => {
                let error = io::Error::other(fail.message.clone());
                self.fail = Some(fail);
                Err(error)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
