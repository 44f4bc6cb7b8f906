//! Paths of the host that a sandbox may have had its hands on.
//!
//! A sandbox that shares a directory may put a symlink or a pipe where a file is expected, and
//! exchange them at any moment. So a path is resolved once, into a directory that is held open and
//! a name in it, and everything is done below that directory without following links.

mod fresh;
mod walk;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use namzu_sandbox::{Error, ErrorCode, Phase};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

pub(crate) use self::fresh::Fresh;
use crate::failure::local;

/// Whether `path` was typed as a directory: `x/`, `x/.`.
pub(crate) fn is_typed_as_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.")
}

/// Whether `path` is one of the host's own devices, which no sandbox shares.
pub(crate) fn is_device(path: &Path) -> bool {
    path.starts_with("/dev")
        && !path.starts_with("/dev/shm")
        && !path.components().any(|part| part == Component::ParentDir)
}

/// `path` is a link.
fn link(path: &Path) -> Error {
    Error::new(
        ErrorCode::PathRefused,
        format!("`{}` is a symlink", path.display()),
    )
    .during(Phase::Files)
}

/// What lies at `path` has no content to keep, and nobody might ever read what is written to it.
pub(crate) fn no_file(path: &Path) -> Error {
    Error::new(
        ErrorCode::PathRefused,
        format!("`{}` is neither file nor directory", path.display()),
    )
    .during(Phase::Files)
}

/// A name in a directory that is held open.
#[derive(Debug)]
pub(crate) struct Place {
    parent: OwnedFd,
    /// `.` where the directory itself is meant.
    name: OsString,
    /// As it is shown. Opened only where links are to be followed.
    path: PathBuf,
    follow: bool,
}

impl Place {
    /// Resolves `path`. A link is followed only in a directory that no sandbox can write to.
    ///
    /// # Errors
    ///
    /// `path_refused` with any other link; those of opening the directories on the way.
    pub(crate) fn find(path: &Path) -> Result<Self, Error> {
        Self::walk(path, &walk::is_trusted)
    }

    fn walk(path: &Path, trusts: walk::Trust<'_>) -> Result<Self, Error> {
        let found = walk::walk(path, trusts)?;
        Ok(Self {
            parent: found.parent,
            name: found.name,
            // `link/` and `link/.` are `link`.
            path: path.components().collect(),
            follow: false,
        })
    }

    /// Resolves `path`, following every link: whoever asks for it trusts them.
    ///
    /// # Errors
    ///
    /// Those of looking, and of opening the directory.
    pub(crate) fn follow(path: &Path) -> Result<Self, Error> {
        let failed = |err: io::Error| local(format!("opening `{}`", path.display()), err);
        let mut path: PathBuf = path.components().collect();
        match path.metadata() {
            // The link stays, what it leads to is replaced.
            Ok(meta) if meta.is_file() || meta.is_dir() => {
                path = path.canonicalize().map_err(failed)?;
            }
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(failed(err)),
            _ => {}
        }
        let (parent, name) = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) if parent != OsStr::new("") => (parent, name),
            (Some(_), Some(name)) => (Path::new("."), name),
            _ => (path.as_path(), OsStr::new(".")),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(parent, flags, Mode::empty());
        Ok(Self {
            parent: opened.map_err(|errno| failed(errno.into()))?,
            name: name.to_owned(),
            path,
            follow: true,
        })
    }

    /// `name` in here where this is a directory; otherwise this place itself, unless it has to be
    /// one.
    ///
    /// # Errors
    ///
    /// `path_refused` where this or that is a link; those of opening a directory.
    pub(crate) fn within(self, name: &OsStr, has_to: bool) -> Result<Self, Error> {
        let parent = match walk::directory(self.parent.as_fd(), &self.name) {
            Ok(parent) => parent,
            Err(errno) if has_to || !matches!(errno, Errno::NOTDIR | Errno::NOENT) => {
                return Err(self.failed("opening", errno));
            }
            Err(_) => return Ok(self),
        };
        let place = Self {
            parent,
            name: name.to_owned(),
            path: self.path.join(name),
            follow: self.follow,
        };
        if place.follow {
            return Self::follow(&place.path);
        }
        match place.stat()? {
            Some((FileType::Symlink, _)) => Err(link(&place.path)),
            _ => Ok(place),
        }
    }

    /// What lies here, and its mode; `None` for nothing.
    ///
    /// # Errors
    ///
    /// Those of looking.
    pub(crate) fn stat(&self) -> Result<Option<(FileType, u32)>, Error> {
        let stat = if self.follow {
            rustix::fs::stat(&self.path)
        } else {
            rustix::fs::statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW)
        };
        match stat {
            Ok(stat) => Ok(Some((
                FileType::from_raw_mode(stat.st_mode),
                stat.st_mode & 0o777,
            ))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.failed("looking at", errno)),
        }
    }

    /// Opens what lies here for reading. A pipe holds nobody up unless it was followed.
    ///
    /// # Errors
    ///
    /// `path_refused` for a link; those of opening.
    pub(crate) fn read(&self) -> Result<File, Error> {
        let mut flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
        if !self.follow {
            flags |= OFlags::NONBLOCK;
        }
        self.open(flags)
    }

    /// Opens the device that lies here, or a pipe that somebody reads, for writing.
    ///
    /// # Errors
    ///
    /// `path_refused` for a link; those of opening.
    pub(crate) fn write(&self) -> Result<File, Error> {
        // A pipe that nobody reads would hold us up for ever, deaf to signals.
        let file =
            self.open(OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&file, OFlags::empty())
            .map_err(|errno| self.failed("opening", errno))?;
        Ok(file)
    }

    /// Opens the directory here, making it if nothing lies here.
    ///
    /// # Errors
    ///
    /// `path_refused` for a link; those of making and opening.
    pub(crate) fn directory(&self) -> Result<OwnedFd, Error> {
        match rustix::fs::mkdirat(&self.parent, &self.name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(self.failed("making", errno)),
        }
        let file = self.open(OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)?;
        Ok(file.into())
    }

    /// Makes a new file that is to take this place: see [`Self::settle`].
    ///
    /// # Errors
    ///
    /// Those of making it.
    pub(crate) fn fresh(&self, mode: u32) -> Result<Fresh, Error> {
        let parent = self.parent.try_clone();
        parent
            .and_then(|parent| Ok(Fresh::new(parent, mode)?))
            .map_err(|err| local(format!("writing `{}`", self.path.display()), err))
    }

    /// Puts a file of [`Self::fresh`] into this place.
    ///
    /// # Errors
    ///
    /// Those of renaming it.
    pub(crate) fn settle(&self, file: Fresh) -> Result<(), Error> {
        file.name(&self.name)
            .map_err(|errno| self.failed("writing", errno))
    }

    /// The path, to be shown.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, flags: OFlags) -> Result<File, Error> {
        let opened = if self.follow {
            rustix::fs::openat(CWD, &self.path, flags, Mode::empty())
        } else {
            let flags = flags | OFlags::NOFOLLOW;
            rustix::fs::openat(&self.parent, &self.name, flags, Mode::empty())
        };
        opened
            .map(File::from)
            .map_err(|errno| self.failed("opening", errno))
    }

    fn failed(&self, what: &str, errno: Errno) -> Error {
        // Put there since it was looked at.
        let is_link = !self.follow
            && matches!(errno, Errno::LOOP | Errno::NOTDIR)
            && matches!(self.stat(), Ok(Some((FileType::Symlink, _))));
        if is_link || (errno == Errno::LOOP && !self.follow) {
            return link(&self.path);
        }
        local(format!("{what} `{}`", self.path.display()), errno)
    }
}

#[cfg(test)]
mod tests;
