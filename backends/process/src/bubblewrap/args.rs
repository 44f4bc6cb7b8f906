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
    program: Vec<OsString>,
    fds: Vec<OwnedFd>,
}

impl Args {
    pub(crate) fn words<W: AsRef<OsStr>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.words
            .extend(words.into_iter().map(|word| word.as_ref().to_owned()));
    }

    /// Words of the program to run inside and its arguments.
    pub(crate) fn program<W: AsRef<OsStr>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.program
            .extend(words.into_iter().map(|word| word.as_ref().to_owned()));
    }

    /// `option FD` of the program.
    pub(crate) fn program_fd(&mut self, option: &str, fd: OwnedFd) {
        self.program([option, &fd.as_raw_fd().to_string()]);
        self.fds.push(fd);
    }

    /// Has the program inherit a descriptor that was named already.
    pub(crate) fn inherit(&mut self, fd: OwnedFd) {
        self.fds.push(fd);
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

    /// The same, over a file that is there.
    pub(crate) fn file_over(&mut self, bytes: &[u8], at: &Path) -> io::Result<()> {
        self.words(["--perms", "0444"]);
        self.with_fd("--ro-bind-data", data(bytes)?);
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

    /// The words of the command line proper, and the descriptors to inherit. Options go through one
    /// of these, for `bwrap --args`: a command line has limits that a file has not.
    pub(crate) fn finish(self) -> io::Result<(Vec<OsString>, Vec<OsString>, Vec<OwnedFd>)> {
        let Self {
            words,
            program,
            mut fds,
        } = self;
        let mut bytes = Vec::new();
        for word in &words {
            bytes.extend_from_slice(word.as_bytes());
            bytes.push(0);
        }
        let list = data(&bytes)?;
        let options = vec![
            "--args".into(),
            list.as_raw_fd().to_string().into(),
            "--".into(),
        ];
        fds.push(list);
        Ok((options, program, fds))
    }
}
