//! Whole trees: listing and removing them.

use std::ffi::{CStr, CString};

use namzu_protocol::MAX_LIST_ITEMS;
use namzu_protocol::filesystem::EntryInfo;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::descent::{Descent, names};
use super::entry;
use super::fail::{Fail, Kind, Outcome};
use super::jail::{Jail, Place};
use super::stop::Stop;
use super::users::Names;

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
    let mut levels = vec![names(descent.here()).map_err(failed)?.into_iter()];
    let mut prefix = path.to_vec();
    if prefix != b"/" {
        prefix.push(b'/');
    }
    let mut prefixes = vec![prefix.len()];
    let (mut entries, mut users) = (Vec::new(), Names::default());
    while let Some(level) = levels.last_mut() {
        stop.check()?;
        let Some((name, _)) = level.next() else {
            levels.pop();
            prefixes.pop();
            prefix.truncate(prefixes.last().copied().unwrap_or(0));
            descent.up().map_err(failed)?;
            continue;
        };
        if entries.len() >= MAX_LIST_ITEMS {
            let message =
                format!("the tree has more than {MAX_LIST_ITEMS} entries; list it with less depth");
            return Err(Fail::new(Kind::TooMuch, message));
        }
        let full = [&prefix[..], name.as_bytes()].concat();
        match entry::describe(jail, descent.here(), &name, &full, &mut users) {
            Ok(entry) => entries.push(entry),
            // It went away in between.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(Fail::errno("list", &full, errno)),
        }
        let deeper = u32::try_from(levels.len()).unwrap_or(u32::MAX) < depth;
        if deeper && kind(&descent, &name) == Some(FileType::Directory) {
            match descent.down(&name) {
                Ok(()) => {}
                // It went away, or became something else; or it may not be read, which its entry shows.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => continue,
                Err(errno) => return Err(Fail::errno("list", &full, errno)),
            }
            let below = match names(descent.here()) {
                Ok(below) => below,
                Err(Errno::NOENT) => Vec::new(),
                Err(errno) => return Err(Fail::errno("list", &full, errno)),
            };
            levels.push(below.into_iter());
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
    let mut levels = vec![still_in(&descent)?.into_iter()];
    let mut entered = Vec::new();
    while let Some(level) = levels.last_mut() {
        stop.check().map_err(Hindered::Stopped)?;
        let Some((name, _)) = level.next() else {
            // Others may have added to it meanwhile.
            let again = still_in(&descent)?;
            if !again.is_empty() {
                *level = again.into_iter();
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
                    levels.push(still_in(&descent)?.into_iter());
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

fn still_in(descent: &Descent) -> rustix::io::Result<Vec<(CString, FileType)>> {
    match names(descent.here()) {
        Err(Errno::NOENT) => Ok(Vec::new()),
        other => other,
    }
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
