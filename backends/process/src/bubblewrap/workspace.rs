//! Which host directory may become a workspace.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use namzu_types::Access;
use rustix::fs::{Mode, OFlags, open, readlink};

use crate::error::Error;

/// A host directory, held open: what was checked is what is mounted.
#[derive(Debug)]
pub(crate) struct HostWorkspace {
    /// Free of symlinks.
    pub(crate) path: PathBuf,
    pub(crate) dir: OwnedFd,
    pub(crate) access: Access,
}

/// Neither these nor anything below them: the system's own, and where sockets and devices are.
const SYSTEM: [&str; 12] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys",
    "/usr",
];

/// Not these themselves: everybody's files and sockets are in them. What is below them may be.
const SHARED: [&str; 4] = ["/tmp", "/var/tmp", "/var", "/dev/shm"];

impl HostWorkspace {
    /// Opens `path` and refuses what would hand over more than a project.
    pub(crate) fn open(path: &Path, access: Access) -> Result<Self, Error> {
        let refused = |why: &'static str| Error::Workspace {
            path: path.to_owned(),
            why,
            source: None,
        };
        let failed = |why: &'static str, err: std::io::Error| Error::Workspace {
            path: path.to_owned(),
            why,
            source: Some(err),
        };
        if !path.is_absolute() {
            return Err(refused("the path is not absolute"));
        }
        let real = fs::canonicalize(path).map_err(|err| failed("it cannot be reached", err))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = open(&real, flags, Mode::empty())
            .map_err(|err| failed("it is not a directory", err.into()))?;
        // Where it really is, whatever was renamed meanwhile.
        let held = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&dir));
        let held =
            readlink(held, Vec::new()).map_err(|err| failed("it cannot be reached", err.into()))?;
        if held.to_bytes() != real.as_os_str().as_encoded_bytes() {
            return Err(refused("it moved while it was looked at"));
        }
        let home = home();
        if let Some(why) = too_much(&real, home.as_deref()) {
            return Err(refused(why));
        }
        Ok(Self {
            path: real,
            dir,
            access,
        })
    }
}

/// The caller's home, free of symlinks.
pub(crate) fn home() -> Option<PathBuf> {
    let home = std::env::home_dir().filter(|home| home.is_absolute())?;
    fs::canonicalize(home).ok()
}

fn too_much(path: &Path, home: Option<&Path>) -> Option<&'static str> {
    let system = SYSTEM.into_iter().map(Path::new);
    if path == Path::new("/") {
        return Some("it is the root of the host");
    }
    if system.clone().any(|dir| path.starts_with(dir)) {
        return Some("it belongs to the system");
    }
    if system
        .chain(SHARED.map(Path::new))
        .any(|dir| dir.starts_with(path))
    {
        return Some("everybody's files and sockets are in it");
    }
    if home.is_some_and(|home| home.starts_with(path)) {
        return Some("your home, with its keys and credentials, is in it");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_project_is_refused() {
        let home = Some(Path::new("/home/me"));
        for path in [
            "/",
            "/etc",
            "/usr/lib",
            "/run/user/0",
            "/tmp",
            "/var",
            "/home/me",
            "/home",
            "/proc/1/root",
        ] {
            assert!(too_much(Path::new(path), home).is_some(), "{path}");
        }
        for path in [
            "/home/me/project",
            "/home/you",
            "/tmp/x",
            "/var/lib/ci",
            "/srv",
            "/users",
        ] {
            assert_eq!(too_much(Path::new(path), home), None, "{path}");
        }
    }

    #[test]
    fn a_link_to_the_system_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        for path in [
            link.as_path(),
            Path::new("relative"),
            Path::new("/nonexistent"),
            Path::new("/etc/passwd"),
        ] {
            let refused = HostWorkspace::open(path, Access::ReadOnly);
            assert!(matches!(refused, Err(Error::Workspace { .. })), "{path:?}");
        }
        HostWorkspace::open(dir.path(), Access::ReadWrite).unwrap();
    }
}
