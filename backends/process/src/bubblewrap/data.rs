//! Bytes handed to a child as a descriptor.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// A file in memory that reads as `bytes`. Of any length, unlike a pipe.
pub(crate) fn data(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("namzu-data", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// What a child prints, up to a cap: nobody has to read it while the child runs, and however much
/// it prints, no more memory is held.
#[derive(Debug)]
pub(crate) struct LastWords(File);

impl LastWords {
    const CAP: u64 = 1024;

    pub(crate) fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("namzu-stderr", flags)?);
        file.set_len(Self::CAP)?;
        // A write past the end then fails for whoever writes.
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(Self(file))
    }

    pub(crate) fn writer(&self) -> io::Result<OwnedFd> {
        Ok(self.0.try_clone()?.into())
    }

    /// What was printed so far, as printable text.
    pub(crate) fn read(&self) -> String {
        let mut bytes = [0; 1024];
        let length = self.0.read_at(&mut bytes, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..length]);
        let text = text.trim_end_matches('\0').trim();
        text.chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_capped_and_printable() {
        let words = LastWords::new().unwrap();
        let mut writer = File::from(words.writer().unwrap());
        writer.write_all(b"oh no\x1b[2J").unwrap();
        assert_eq!(words.read(), "oh no [2J");
        let flood = vec![b'x'; 1 << 20];
        assert!(writer.write_all(&flood).is_err());
        assert!(words.read().len() <= 1024);
    }
}
