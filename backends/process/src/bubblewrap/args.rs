//! The words of a `bwrap` command line and the descriptors they name.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::data::data;

/// Options, in order, with what they refer to.
#[derive(Debug, Default)]
pub(crate) struct Args {
    words: Vec<OsString>,
    fds: Vec<OwnedFd>,
}

impl Args {
    pub(crate) fn words<W: AsRef<OsStr>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.words
            .extend(words.into_iter().map(|word| word.as_ref().to_owned()));
    }

    /// Adds words that name no descriptor.
    pub(crate) fn append(&mut self, other: &Self) {
        self.words.extend_from_slice(&other.words);
    }

    pub(crate) fn read_only(&mut self, from: &Path, to: &Path) {
        self.words([OsStr::new("--ro-bind"), from.as_ref(), to.as_ref()]);
    }

    pub(crate) fn symlink(&mut self, target: impl AsRef<Path>, at: impl AsRef<Path>) {
        self.words([
            OsStr::new("--symlink"),
            target.as_ref().as_ref(),
            at.as_ref().as_ref(),
        ]);
    }

    /// A file with these bytes, readable and nothing else.
    pub(crate) fn file(&mut self, bytes: &[u8], at: &str) -> io::Result<()> {
        self.words(["--perms", "0444"]);
        self.with_fd("--file", data(bytes)?);
        self.words([at]);
        Ok(())
    }

    /// A private file system in memory, of at most `size` bytes where `bwrap` can limit it.
    pub(crate) fn tmpfs(&mut self, at: &str, mode: &str, size: Option<u64>) {
        self.words(["--perms", mode]);
        if let Some(size) = size {
            self.words(["--size", &size.to_string()]);
        }
        self.words(["--tmpfs", at]);
    }

    /// `option FD`.
    pub(crate) fn with_fd(&mut self, option: &str, fd: OwnedFd) {
        self.words([option, &fd.as_raw_fd().to_string()]);
        self.fds.push(fd);
    }

    /// The descriptors to inherit, and one more from which `bwrap --args` reads every word: a
    /// command line has limits that a file has not.
    pub(crate) fn finish(mut self) -> io::Result<(OwnedFd, Vec<OwnedFd>)> {
        let mut bytes = Vec::new();
        for word in &self.words {
            bytes.extend_from_slice(word.as_bytes());
            bytes.push(0);
        }
        let words = data(&bytes)?;
        Ok((words, std::mem::take(&mut self.fds)))
    }
}
