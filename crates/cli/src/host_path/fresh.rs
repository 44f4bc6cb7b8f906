//! A file that takes its name when it is whole.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// Names that are tried: somebody who shares the directory may take some of them.
const TRIES: usize = 64;

/// A new file under a name of its own, removed unless it is [named](Self::name).
///
/// What was cut never looks complete, and nothing that was there is ever written through.
#[derive(Debug)]
pub(crate) struct Fresh {
    file: File,
    parent: OwnedFd,
    /// Until it is named.
    temporary: Option<OsString>,
}

impl Fresh {
    /// Makes one in `parent`, with `mode` less the umask.
    ///
    /// # Errors
    ///
    /// Those of `openat`.
    pub(crate) fn new(parent: OwnedFd, mode: u32) -> Result<Self, Errno> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o777);
        let mut failed = Errno::EXIST;
        for _ in 0..TRIES {
            let random = RandomState::new().hash_one(std::process::id());
            let name = OsString::from(format!(".namzu-{random:016x}"));
            match rustix::fs::openat(&parent, &name, flags, mode) {
                Ok(file) => {
                    return Ok(Self {
                        file: file.into(),
                        parent,
                        temporary: Some(name),
                    });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => {
                    failed = errno;
                    break;
                }
            }
        }
        Err(failed)
    }

    /// The file itself.
    pub(crate) const fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives it its name; a file, link or pipe of that name is replaced.
    ///
    /// # Errors
    ///
    /// Those of `renameat`; the file is then gone.
    pub(crate) fn name(mut self, name: &OsStr) -> Result<(), Errno> {
        if let Some(temporary) = &self.temporary {
            rustix::fs::renameat(&self.parent, temporary, &self.parent, name)?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Already gone, or it stays: there is nobody to tell.
            let _ = rustix::fs::unlinkat(&self.parent, temporary, AtFlags::empty());
        }
    }
}
