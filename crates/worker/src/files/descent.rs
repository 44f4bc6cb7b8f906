//! Walks down a directory tree with one open descriptor, however deep the tree is.
//!
//! Going back up is `..`, checked against the directory that was left: a directory moved away in the meantime ends the
//! walk instead of leading it elsewhere.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Where the walk is.
#[derive(Debug)]
pub(crate) struct Descent {
    here: OwnedFd,
    id: (u64, u64),
    above: Vec<(u64, u64)>,
}

impl Descent {
    pub(crate) fn new(top: OwnedFd) -> rustix::io::Result<Self> {
        let id = identity(top.as_fd())?;
        Ok(Self {
            here: top,
            id,
            above: Vec::new(),
        })
    }

    /// The directory the walk is in.
    pub(crate) fn here(&self) -> BorrowedFd<'_> {
        self.here.as_fd()
    }

    /// Enters a directory, never through a link.
    pub(crate) fn down(&mut self, name: &CStr) -> rustix::io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = rustix::fs::openat(&self.here, name, flags, Mode::empty())?;
        let id = identity(next.as_fd())?;
        self.above.push(self.id);
        (self.here, self.id) = (next, id);
        Ok(())
    }

    /// Goes back to the directory above; `false` at the top.
    ///
    /// # Errors
    /// `ESTALE` when the directory above is no longer the one that was left.
    pub(crate) fn up(&mut self) -> rustix::io::Result<bool> {
        let Some(want) = self.above.pop() else {
            return Ok(false);
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let parent = rustix::fs::openat(&self.here, c"..", flags, Mode::empty())?;
        if identity(parent.as_fd())? != want {
            return Err(Errno::STALE);
        }
        (self.here, self.id) = (parent, want);
        Ok(true)
    }
}

/// The names in a directory, sorted by bytes, with the type the directory itself tells.
pub(crate) fn names(dir: BorrowedFd<'_>) -> rustix::io::Result<Vec<(CString, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            found.push((name.to_owned(), entry.file_type()));
        }
    }
    found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

fn identity(dir: BorrowedFd<'_>) -> rustix::io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(dir)?;
    Ok((stat.st_dev, stat.st_ino))
}
