//! The roots that file calls may touch, held open, and the one way a path becomes a place below them.
//!
//! Text only chooses the root to start from. From there `openat2(RESOLVE_BENEATH)` or a walk that opens one
//! component at a time without following links decides, so neither `..`, nor a link, nor a rename in the middle
//! leads out. Absolute links are followed when they lead back into a root of the same right.

mod root;
mod walk;

#[cfg(test)]
mod tests;

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use self::root::Root;
use super::fail::{Fail, Outcome};

/// The longest path taken, in bytes: the kernel's own limit.
pub(crate) const PATH_MAX: usize = 4096;

/// What the caller wants of a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    /// Look at it.
    Read,
    /// Create, change or remove it.
    Write,
}

/// Whether a link at the end of the path is followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Last {
    /// The place is what the link leads to.
    Follow,
    /// The place is the link.
    Keep,
}

/// What happens to missing directories on the way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Parents {
    /// The path is not found.
    Required,
    /// They are made, mode 0755.
    Made,
}

/// The directories that calls may touch.
#[derive(Debug)]
pub(crate) struct Jail {
    roots: Vec<Root>,
}

/// A place below a root: an open directory and one name in it, which may be absent.
///
/// The name was no link when it was looked at (unless [`Last::Keep`]); calls still never follow it.
#[derive(Debug)]
pub(crate) struct Place {
    dir: OwnedFd,
    name: CString,
}

impl Jail {
    /// Opens every root. Without any root the whole file system is open for reading and writing.
    ///
    /// # Errors
    /// A root that is no directory or cannot be opened.
    pub(crate) fn open<'a>(
        readable: impl IntoIterator<Item = &'a std::path::Path>,
        writable: impl IntoIterator<Item = &'a std::path::Path>,
    ) -> std::io::Result<Self> {
        let mut roots = Vec::new();
        for path in writable {
            roots.push(Root::open(path, true)?);
        }
        for path in readable {
            roots.push(Root::open(path, false)?);
        }
        if roots.is_empty() {
            roots.push(Root::open(std::path::Path::new("/"), true)?);
        }
        Ok(Self { roots })
    }

    /// A jail of one open directory, known by its absolute path.
    pub(crate) fn of(dir: OwnedFd, path: Vec<u8>) -> Self {
        Self {
            roots: vec![Root::held(dir, path)],
        }
    }

    /// Finds the place a path names.
    ///
    /// # Errors
    /// `Refused` when it leaves the roots, `NotFound` when a directory on the way is missing.
    pub(crate) fn place(
        &self,
        path: &[u8],
        access: Access,
        last: Last,
        parents: Parents,
    ) -> Outcome<Place> {
        check_text(path)?;
        match self.quick(path, access, last) {
            Some(place) => Ok(place),
            None => self
                .walk(path, access, last, parents)
                .map(|found| found.place),
        }
    }

    /// The same, with no creation and links followed.
    pub(crate) fn existing(&self, path: &[u8], access: Access) -> Outcome<Place> {
        self.place(path, access, Last::Follow, Parents::Required)
    }

    /// The path with every link on the way resolved, and the place it is.
    pub(crate) fn resolved(&self, path: &[u8]) -> Outcome<(Vec<u8>, Place)> {
        check_text(path)?;
        let found = self.walk(path, Access::Read, Last::Follow, Parents::Required)?;
        Ok((found.path, found.place))
    }
}

/// No path holds a NUL, is empty, relative or longer than the kernel takes.
fn check_text(path: &[u8]) -> Outcome<()> {
    if path.contains(&0) {
        return Err(Fail::invalid("the path contains a NUL byte"));
    }
    if path.len() >= PATH_MAX {
        return Err(Fail::invalid(format!(
            "the path is longer than {} bytes",
            PATH_MAX - 1
        )));
    }
    if path.first() != Some(&b'/') {
        return Err(Fail::invalid("the path is not absolute"));
    }
    Ok(())
}

impl Place {
    /// The directory that holds the name.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The name; `.` where the path names a root or a directory by `..`.
    pub(crate) fn name(&self) -> &CString {
        &self.name
    }

    /// Whether it is the directory itself rather than a name in it.
    pub(crate) fn is_dot(&self) -> bool {
        self.name.as_bytes() == b"."
    }

    /// What is there; links are not followed.
    pub(crate) fn stat(&self) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Opens what is there, without following a link and without ever blocking.
    pub(crate) fn open(&self, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let always = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        rustix::fs::openat(&self.dir, &self.name, flags | always, mode)
    }

    /// Opens it as a directory to list.
    pub(crate) fn open_dir(&self) -> rustix::io::Result<OwnedFd> {
        self.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    /// Opens a regular file to read. Devices and pipes are refused before they are opened.
    pub(crate) fn open_file(&self) -> rustix::io::Result<(OwnedFd, Stat)> {
        regular(&self.stat()?)?;
        let fd = self.open(OFlags::RDONLY, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        regular(&stat)?;
        Ok((fd, stat))
    }

    /// Opens a regular file to write from its start, creating it; says whether it was created.
    pub(crate) fn create_file(&self) -> rustix::io::Result<(OwnedFd, bool)> {
        let mode = Mode::from_raw_mode(0o644);
        match self.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode) {
            Ok(fd) => return Ok((fd, true)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        regular(&self.stat()?)?;
        let fd = self.open(OFlags::WRONLY, Mode::empty())?;
        regular(&rustix::fs::fstat(&fd)?)?;
        rustix::fs::ftruncate(&fd, 0)?;
        Ok((fd, false))
    }
}

fn regular(stat: &Stat) -> rustix::io::Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Errno::ISDIR),
        FileType::Symlink => Err(Errno::LOOP),
        _ => Err(Errno::NXIO),
    }
}
