//! One root: the open directory, and the names it is known by.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// A directory that calls may enter.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) fd: OwnedFd,
    pub(super) writable: bool,
    /// Where it really is.
    pub(super) canonical: Vec<u8>,
    /// As it was given, absolute.
    alias: Vec<u8>,
}

impl Root {
    pub(super) fn open(path: &Path, writable: bool) -> io::Result<Self> {
        let named = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("open root '{}': {error}", path.display()),
            )
        };
        let canonical = std::fs::canonicalize(path).map_err(named)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&canonical, flags, Mode::empty())
            .map_err(|errno| named(errno.into()))?;
        let alias = std::path::absolute(path).map_err(named)?;
        Ok(Self {
            fd,
            writable,
            canonical: canonical.as_os_str().as_bytes().to_vec(),
            alias: alias.as_os_str().as_bytes().to_vec(),
        })
    }

    /// A directory that is open already.
    pub(super) fn held(fd: OwnedFd, path: Vec<u8>) -> Self {
        Self {
            fd,
            writable: true,
            alias: path.clone(),
            canonical: path,
        }
    }

    /// What is left of `path` below this root, and how much of it was used.
    pub(super) fn strip<'p>(&self, path: &'p [u8]) -> Option<(&'p [u8], usize)> {
        [&self.canonical, &self.alias]
            .into_iter()
            .filter_map(|root| below(root, path).map(|rest| (rest, root.len())))
            .max_by_key(|(_, used)| *used)
    }
}

/// The part of `path` below `root`, both absolute; repeated and `.` components are overlooked.
fn below<'p>(root: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let mut rest = path;
    for want in components(root) {
        loop {
            let trimmed = rest.iter().position(|byte| *byte != b'/')?;
            rest = rest.get(trimmed..)?;
            let end = rest
                .iter()
                .position(|byte| *byte == b'/')
                .unwrap_or(rest.len());
            let (component, tail) = rest.split_at(end);
            rest = tail;
            if component == b"." {
                continue;
            }
            if component != want {
                return None;
            }
            break;
        }
    }
    Some(rest)
}

/// The components of a path, without the empty ones.
pub(super) fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|component| !component.is_empty())
}
