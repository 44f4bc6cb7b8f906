//! An audit log in several files: the newest has the name, those before it `.1`, `.2`, and so on.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// When a file is full, and how many full ones are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation {
    pub(super) size: u64,
    pub(super) keep: NonZeroU32,
}

/// The name of the file that was full so many files ago.
pub(super) fn before(path: &Path, age: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{age}"));
    name.into()
}

impl Rotation {
    /// Whether a file of so many bytes takes no line of `more` bytes. An empty one takes any.
    pub(super) const fn is_full(self, bytes: u64, more: u64) -> bool {
        bytes > 0 && bytes.saturating_add(more) > self.size
    }

    /// Makes room for another file at `path`, which becomes `.1`, and gives it. What failed half-way may be
    /// tried again: no file is lost by it.
    pub(super) fn next(self, path: &Path) -> io::Result<File> {
        // Made and locked before it has its name, so that there is never a log that anybody else may open.
        let mut name = OsString::from(path);
        name.push(".new");
        let made = PathBuf::from(name);
        absent(fs::remove_file(&made))?;
        let file = super::options().create_new(true).open(&made)?;
        file.try_lock().map_err(io::Error::from)?;
        let free = self.free(path)?;
        for age in (1..free).rev() {
            absent(fs::rename(before(path, age), before(path, age + 1)))?;
        }
        let last = before(path, 1);
        fs::rename(path, &last)?;
        fs::rename(&made, path).inspect_err(|_| {
            // What is written next looks for the file where it was.
            let _ = fs::rename(&last, path);
        })?;
        Ok(file)
    }

    /// The first age that no file has, so that no more are moved than have to be; or else that of the oldest,
    /// which goes.
    fn free(self, path: &Path) -> io::Result<u32> {
        for age in 1..self.keep.get() {
            if !before(path, age).try_exists()? {
                return Ok(age);
            }
        }
        Ok(self.keep.get())
    }
}

fn absent(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
