//! Walks down a directory tree with one open descriptor, however deep the tree is.
//!
//! Going back up is `..`, checked against the directory that was left: a directory moved away in the meantime ends the
//! walk instead of leading it elsewhere.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::vec;

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

/// The names still to be visited in each directory from the top to where a walk is.
///
/// A hostile tree may hold any number of names, so together they have a budget.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    levels: Vec<(vec::IntoIter<Name>, usize)>,
    held: usize,
}

/// A name and the type that the directory itself tells.
pub(crate) type Name = (CString, FileType);

/// The most bytes that the names of one walk may take.
const MAX_HELD: usize = 64 << 20;
/// What a name takes beside its bytes.
const NAME_COST: usize = 48;
/// The most names that are taken of one directory in [`Levels::push_some`].
const SOME: usize = 1024;

impl Levels {
    /// Adds the names of a directory, sorted by bytes. One that was removed has none.
    ///
    /// # Errors
    /// `ENOMEM` when the budget is spent.
    pub(crate) fn push(&mut self, dir: BorrowedFd<'_>) -> rustix::io::Result<()> {
        self.add(dir, usize::MAX)
    }

    /// Adds some names of a directory; says whether there are any.
    pub(crate) fn push_some(&mut self, dir: BorrowedFd<'_>) -> rustix::io::Result<bool> {
        self.add(dir, SOME)?;
        Ok(self.levels.last().is_some_and(|(names, _)| names.len() > 0))
    }

    fn add(&mut self, dir: BorrowedFd<'_>, most: usize) -> rustix::io::Result<()> {
        let (mut found, mut cost) = (Vec::new(), 0);
        for entry in Dir::read_from(dir)? {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(errno),
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            cost += name.to_bytes().len() + NAME_COST;
            if self.held + cost > MAX_HELD {
                return Err(Errno::NOMEM);
            }
            found.push((name.to_owned(), entry.file_type()));
            if found.len() >= most {
                break;
            }
        }
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        self.held += cost;
        self.levels.push((found.into_iter(), cost));
        Ok(())
    }

    /// The next name of the deepest directory: `None` when there is no directory, `Some(None)` when it has no more.
    pub(crate) fn next(&mut self) -> Option<Option<Name>> {
        self.levels.last_mut().map(|(names, _)| names.next())
    }

    /// Leaves the deepest directory.
    pub(crate) fn pop(&mut self) {
        if let Some((_, cost)) = self.levels.pop() {
            self.held -= cost;
        }
    }

    /// How many directories there are.
    pub(crate) fn len(&self) -> usize {
        self.levels.len()
    }
}

fn identity(dir: BorrowedFd<'_>) -> rustix::io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(dir)?;
    Ok((stat.st_dev, stat.st_ino))
}
