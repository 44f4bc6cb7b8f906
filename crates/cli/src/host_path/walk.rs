//! Finds the directory that the last name of a path lies in, each step from the one before.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use namzu_sandbox::Error;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::failure::local;

/// Most links on one way; the kernel's own limit.
const MAX_LINKS: usize = 40;

/// Directories that links are followed in, whoever asks: no sandbox shares one of them.
const SYSTEM: [&str; 3] = ["/", "/usr", "/var"];

/// Whether links in a directory are followed.
pub(super) type Trust<'a> = &'a dyn Fn(BorrowedFd<'_>) -> Result<bool, Errno>;

/// Where a path leads: a directory, held open, and a name in it that was no link. The name is `.`
/// where the path means the directory itself.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) parent: OwnedFd,
    pub(super) name: OsString,
}

/// Whether only the host's root can have put a link into `dir`.
///
/// What a sandbox makes that root started belongs to root as well. So root trusts only the
/// directories that no sandbox shares; anybody else trusts those that root alone may write to.
pub(super) fn is_trusted(dir: BorrowedFd<'_>) -> Result<bool, Errno> {
    let stat = rustix::fs::fstat(dir)?;
    if stat.st_mode & 0o022 != 0 {
        return Ok(false);
    }
    if stat.st_uid == 0 && !rustix::process::geteuid().is_root() {
        return Ok(true);
    }
    Ok(SYSTEM.iter().any(|system| {
        rustix::fs::lstat(*system)
            .is_ok_and(|known| (known.st_dev, known.st_ino) == (stat.st_dev, stat.st_ino))
    }))
}

/// Walks along `path` and stops at its last name.
///
/// A link is followed, the last name too, if `trusts` says so of the directory that it is in.
///
/// # Errors
///
/// `path_refused` with any other link; those of opening a directory on the way.
pub(super) fn walk(path: &Path, trusts: Trust<'_>) -> Result<Found, Error> {
    let failed = |shown: &Path, errno| local(format!("opening `{}`", shown.display()), errno);
    let mut todo = parts(path);
    if todo.is_empty() && !path.has_root() && path.as_os_str().is_empty() {
        return Err(failed(path, Errno::NOENT));
    }
    let mut here = PathBuf::from(if path.has_root() { "/" } else { "." });
    if !path.has_root() && todo.iter().any(|name| name == "..") {
        // From where it is now: a directory that a sandbox moves about must not lead elsewhere.
        let cwd = std::env::current_dir().map_err(|err| local("finding this directory", err))?;
        for name in parts(&cwd).into_iter().rev() {
            todo.push_front(name);
        }
        here = PathBuf::from("/");
    }
    // Every directory on the way, so that `..` leads back and never to where one was moved.
    let mut way = Way::new(&here).map_err(|errno| failed(&here, errno))?;
    let mut shown = if here.has_root() {
        here
    } else {
        PathBuf::new()
    };
    let mut links = 0;
    while let Some(name) = todo.pop_front() {
        if name == ".." {
            way.up().map_err(|errno| failed(&shown, errno))?;
            shown.pop();
            continue;
        }
        let last = todo.is_empty();
        shown.push(&name);
        match step(way.here(), &name).map_err(|errno| failed(&shown, errno))? {
            Step::Directory(dir) if !last => way.stack.push(dir),
            Step::Directory(_) | Step::Other | Step::Nothing if last => {
                return Ok(Found {
                    parent: way.end(),
                    name,
                });
            }
            Step::Nothing => return Err(failed(&shown, Errno::NOENT)),
            Step::Link(target) => {
                if !trusts(way.here()).map_err(|errno| failed(&shown, errno))? {
                    return Err(super::link(&shown));
                }
                links += 1;
                if links > MAX_LINKS {
                    return Err(failed(&shown, Errno::LOOP));
                }
                shown.pop();
                let target = Path::new(&target);
                if target.has_root() {
                    shown = PathBuf::from("/");
                    way = Way::new(&shown).map_err(|errno| failed(&shown, errno))?;
                }
                for name in parts(target).into_iter().rev() {
                    todo.push_front(name);
                }
            }
            Step::Directory(_) | Step::Other => return Err(failed(&shown, Errno::NOTDIR)),
        }
    }
    Ok(Found {
        parent: way.end(),
        name: OsString::from("."),
    })
}

/// The directories from the start to where the walk is.
struct Way {
    first: OwnedFd,
    stack: Vec<OwnedFd>,
}

impl Way {
    fn new(start: &Path) -> Result<Self, Errno> {
        Ok(Self {
            first: directory(CWD, start.as_os_str())?,
            stack: Vec::new(),
        })
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.stack.last().unwrap_or(&self.first).as_fd()
    }

    fn up(&mut self) -> Result<(), Errno> {
        if self.stack.pop().is_none() {
            self.first = directory(self.first.as_fd(), OsStr::new(".."))?;
        }
        Ok(())
    }

    fn end(mut self) -> OwnedFd {
        self.stack.pop().unwrap_or(self.first)
    }
}

enum Step {
    Directory(OwnedFd),
    Link(OsString),
    /// A file, pipe, socket or device.
    Other,
    Nothing,
}

fn step(here: BorrowedFd<'_>, name: &OsStr) -> Result<Step, Errno> {
    match directory(here, name) {
        Ok(dir) => return Ok(Step::Directory(dir)),
        Err(Errno::NOENT) => return Ok(Step::Nothing),
        Err(Errno::NOTDIR | Errno::LOOP) => {}
        Err(errno) => return Err(errno),
    }
    match rustix::fs::readlinkat(here, name, Vec::new()) {
        Ok(target) => Ok(Step::Link(OsStr::from_bytes(target.to_bytes()).to_owned())),
        Err(Errno::INVAL) => Ok(Step::Other),
        Err(Errno::NOENT) => Ok(Step::Nothing),
        Err(errno) => Err(errno),
    }
}

/// Opens a directory to go on from; one that may not be listed too.
pub(super) fn directory(at: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}

#[cfg(test)]
mod tests;
