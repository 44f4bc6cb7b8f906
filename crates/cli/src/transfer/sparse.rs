//! Writes a new file and leaves holes where there are long runs of zeros.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// Shortest run that becomes a hole.
const HOLE: usize = 64 << 10;

/// Bytes that are looked at as one.
const BLOCK: usize = 4 << 10;

static ZEROS: [u8; HOLE] = [0; HOLE];

/// An empty file while it is written. Without [`Self::finish`] zeros at its end are missing.
#[derive(Debug)]
pub(super) struct Sparse<'a> {
    file: &'a mut File,
    /// Zeros that are still to come before the next byte.
    zeros: u64,
}

impl<'a> Sparse<'a> {
    /// `file` must be empty: what is skipped is taken to be zero.
    pub(super) const fn new(file: &'a mut File) -> Self {
        Self { file, zeros: 0 }
    }

    /// Appends `bytes`.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let zero = is_zero(&bytes[..bytes.len().min(BLOCK)]);
            let len = bytes
                .chunks(BLOCK)
                .take_while(|block| is_zero(block) == zero)
                .map(<[u8]>::len)
                .sum();
            let (run, rest) = bytes.split_at(len);
            if zero {
                self.zeros += len as u64;
            } else {
                self.skip()?;
                self.file.write_all(run)?;
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Ends the file where its last byte is.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let hole = self.zeros >= HOLE as u64;
        self.skip()?;
        if hole {
            let end = self.file.stream_position()?;
            self.file.set_len(end)?;
        }
        Ok(())
    }

    fn skip(&mut self) -> io::Result<()> {
        let zeros = std::mem::take(&mut self.zeros);
        match usize::try_from(zeros) {
            Ok(short) if short < HOLE => self.file.write_all(&ZEROS[..short]),
            _ => {
                let zeros = i64::try_from(zeros).map_err(|_| io::ErrorKind::FileTooLarge)?;
                self.file.seek(SeekFrom::Current(zeros)).map(drop)
            }
        }
    }
}

fn is_zero(block: &[u8]) -> bool {
    block == &ZEROS[..block.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;

    fn written(data: &[u8], piece: usize) -> (Vec<u8>, u64) {
        let mut file = tempfile::tempfile().unwrap();
        let mut sparse = Sparse::new(&mut file);
        for piece in data.chunks(piece) {
            sparse.write(piece).unwrap();
        }
        sparse.finish().unwrap();
        let mut back = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut back).unwrap();
        (back, file.metadata().unwrap().blocks() * 512)
    }

    #[test]
    fn what_is_read_back_is_what_was_written() {
        for piece in [1000, BLOCK, 100_001, 1 << 20] {
            for zeros in [0, 1, BLOCK, HOLE - 1, HOLE, 300_000] {
                let mut data = vec![7; 5000];
                data.resize(5000 + zeros, 0);
                data.extend_from_slice(b"between");
                data.resize(data.len() + zeros, 0);
                assert!(written(&data, piece).0 == data, "{piece} {zeros}");
            }
        }
    }

    #[test]
    fn long_runs_of_zeros_take_no_room() {
        let mut data = vec![0; 8 << 20];
        data.push(1);
        data.resize(16 << 20, 0);
        let (back, used) = written(&data, 128 << 10);
        assert!(back == data);
        assert!(used < 1 << 20, "{used}");
    }
}
