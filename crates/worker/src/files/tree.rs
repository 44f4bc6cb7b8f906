//! Whole trees: listing and removing them.

use std::ffi::CStr;

use namzu_protocol::MAX_LIST_ITEMS;
use namzu_protocol::filesystem::EntryInfo;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::descent::{Descent, Levels};
use super::entry;
use super::fail::{Fail, Outcome};
use super::jail::{Jail, PATH_MAX, Place};
use super::stop::Stop;
use super::users::Names;

/// The most memory that the entries of one listing take, in bytes.
const MAX_WEIGHT: usize = 32 << 20;

/// The entries of a directory and, down to `depth` levels, of those in it; each directory before its entries, in the
/// order of their names. Links are listed and never entered.
pub(crate) fn list(
    jail: &Jail,
    place: &Place,
    path: &[u8],
    depth: u32,
    stop: &Stop,
) -> Outcome<Vec<EntryInfo>> {
    let failed = |errno| Fail::errno("list", path, errno);
    let mut descent = Descent::new(place.open_dir().map_err(failed)?).map_err(failed)?;
    let mut levels = Levels::default();
    levels.push(descent.here()).map_err(failed)?;
    let mut prefix = path.to_vec();
    if prefix != b"/" {
        prefix.push(b'/');
    }
    let mut prefixes = vec![prefix.len()];
    let (mut entries, mut weight, mut users) = (Vec::new(), 0, Names::default());
    while let Some(next) = levels.next() {
        stop.check()?;
        let Some((name, _)) = next else {
            levels.pop();
            prefixes.pop();
            prefix.truncate(prefixes.last().copied().unwrap_or(0));
            descent.up().map_err(failed)?;
            continue;
        };
        if entries.len() >= MAX_LIST_ITEMS || weight > MAX_WEIGHT {
            let message =
                "the tree has more entries than one answer holds; list it with less depth";
            return Err(Fail::invalid(message));
        }
        let full = [&prefix[..], name.as_bytes()].concat();
        match entry::describe(jail, descent.here(), &name, &full, &mut users) {
            Ok(entry) => {
                weight += entry::weight(&entry);
                entries.push(entry);
            }
            // It went away in between.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(Fail::errno("list", &full, errno)),
        }
        // What lies deeper than a path reaches could not be named in any call.
        let deeper =
            u32::try_from(levels.len()).unwrap_or(u32::MAX) < depth && full.len() < PATH_MAX;
        if deeper && kind(&descent, &name) == Some(FileType::Directory) {
            match descent.down(&name) {
                Ok(()) => {}
                // It went away, or became something else; or it may not be read, which its entry shows.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => continue,
                Err(errno) => return Err(Fail::errno("list", &full, errno)),
            }
            levels
                .push(descent.here())
                .map_err(|errno| Fail::errno("list", &full, errno))?;
            prefix = [&full[..], b"/"].concat();
            prefixes.push(prefix.len());
        }
    }
    Ok(entries)
}

fn kind(descent: &Descent, name: &CStr) -> Option<FileType> {
    let stat = rustix::fs::statat(descent.here(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

/// Removes a place and all below it. What is not there is removed already.
pub(crate) fn remove(place: &Place, path: &[u8], stop: &Stop) -> Outcome<()> {
    if place.is_dot() {
        return Err(Fail::invalid(format!(
            "'{}' is a root and stays",
            super::fail::show(path)
        )));
    }
    let failed = |errno| Fail::errno("remove", path, errno);
    match rustix::fs::unlinkat(place.dir(), place.name(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(failed(errno)),
    }
    match rustix::fs::unlinkat(place.dir(), place.name(), AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        // A file that may not be removed.
        Err(Errno::NOTDIR) => return Err(failed(Errno::PERM)),
        Err(errno) => return Err(failed(errno)),
    }
    let top = place.open_dir().map_err(failed)?;
    empty(Descent::new(top).map_err(failed)?, stop)
        .map_err(|error| error.unwrap_or_else(failed))?;
    match rustix::fs::unlinkat(place.dir(), place.name(), AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(errno)),
    }
}

/// Why a directory could not be emptied.
enum Hindered {
    Errno(Errno),
    Stopped(Fail),
}

impl Hindered {
    fn unwrap_or_else(self, failed: impl FnOnce(Errno) -> Fail) -> Fail {
        match self {
            Self::Errno(errno) => failed(errno),
            Self::Stopped(fail) => fail,
        }
    }
}

impl From<Errno> for Hindered {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

fn empty(mut descent: Descent, stop: &Stop) -> Result<(), Hindered> {
    let mut levels = Levels::default();
    levels.push_some(descent.here())?;
    let mut entered = Vec::new();
    while let Some(next) = levels.next() {
        stop.check().map_err(Hindered::Stopped)?;
        let Some((name, _)) = next else {
            levels.pop();
            // There may be more than was taken at once, and others may have added to it.
            if levels.push_some(descent.here())? {
                continue;
            }
            levels.pop();
            descent.up()?;
            if let Some(name) = entered.pop() {
                match rustix::fs::unlinkat(descent.here(), &name, AtFlags::REMOVEDIR) {
                    // What was added since is found when this directory is read again.
                    Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {
                    }
                    Err(errno) => return Err(errno.into()),
                }
            }
            continue;
        };
        match unlink(&descent, &name) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => match descent.down(&name) {
                Ok(()) => {
                    levels.push_some(descent.here())?;
                    entered.push(name);
                }
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(errno.into()),
            },
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn unlink(descent: &Descent, name: &CStr) -> rustix::io::Result<()> {
    let first = rustix::fs::unlinkat(descent.here(), name, AtFlags::empty());
    if !matches!(first, Err(Errno::ISDIR | Errno::PERM)) {
        return first;
    }
    match rustix::fs::unlinkat(descent.here(), name, AtFlags::REMOVEDIR) {
        // A file that may not be removed.
        Err(Errno::NOTDIR) => first,
        other => other,
    }
}
