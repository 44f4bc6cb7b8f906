//! Opens a directory by its path, through no symlink but those that its caller trusts.
//!
//! Name by name and by descriptor, so that nobody can put a link in the place of what was looked
//! at already.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open, openat, readlink, readlinkat};

/// As many as the kernel follows.
const MAX_LINKS: u32 = 40;

/// A symlink on the way.
#[derive(Debug)]
pub(crate) struct Link<'a> {
    /// Where it lies, free of symlinks.
    pub(crate) dir: &'a Path,
    pub(crate) dir_stat: Stat,
    pub(crate) stat: Stat,
}

#[derive(Debug)]
pub(crate) enum Obstacle {
    /// A link that is not trusted.
    Link(PathBuf),
    Io(io::Error),
}

impl<E: Into<io::Error>> From<E> for Obstacle {
    fn from(err: E) -> Self {
        Self::Io(err.into())
    }
}

/// Opens the directory at the absolute `path`, to be referred to and not to be read.
pub(crate) fn walk(path: &Path, trusts: impl Fn(&Link<'_>) -> bool) -> Result<OwnedFd, Obstacle> {
    let mut at = top()?;
    let mut left = names(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        let next = openat(&at, &name, flags(), Mode::empty())?;
        let stat = fstat(&next)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            at = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        let dir = path_of(&at)?;
        let link = Link {
            dir: &dir,
            dir_stat: fstat(&at)?,
            stat,
        };
        if !trusts(&link) {
            return Err(Obstacle::Link(dir.join(name)));
        }
        let target = readlinkat(&next, "", Vec::new())?.into_bytes();
        let target = PathBuf::from(OsString::from_vec(target));
        if target.is_absolute() {
            at = top()?;
        }
        left.extend(names(&target));
    }
    if FileType::from_raw_mode(fstat(&at)?.st_mode) != FileType::Directory {
        return Err(rustix::io::Errno::NOTDIR.into());
    }
    Ok(at)
}

/// Where an open directory is now.
pub(crate) fn path_of(dir: impl AsFd) -> io::Result<PathBuf> {
    let name = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
    let path = readlink(name, Vec::new())?.into_bytes();
    Ok(PathBuf::from(OsString::from_vec(path)))
}

fn flags() -> OFlags {
    OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn top() -> io::Result<OwnedFd> {
    Ok(open("/", flags(), Mode::empty())?)
}

/// The names in a path, the first one last.
fn names(path: &Path) -> Vec<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_lead_where_the_kernel_says_or_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(real.join("a/b")).unwrap();
        fs::write(real.join("a/file"), "").unwrap();
        symlink("a/b", real.join("relative")).unwrap();
        symlink(real.join("relative"), real.join("absolute")).unwrap();
        symlink("loop", real.join("loop")).unwrap();
        for path in ["a/b", "relative", "absolute", "a/../relative/../b"] {
            let path = real.join(path);
            let found = walk(&path, |_| true).unwrap();
            assert_eq!(path_of(&found).unwrap(), fs::canonicalize(&path).unwrap());
        }
        for path in ["loop", "a/file", "a/file/x", "none"] {
            let refused = walk(&real.join(path), |_| true);
            assert!(matches!(refused, Err(Obstacle::Io(_))), "{path}");
        }
        for path in ["relative", "absolute", "a/../relative/../b"] {
            match walk(&real.join(path), |_| false) {
                Err(Obstacle::Link(link)) => assert!(link.starts_with(&real), "{link:?}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
