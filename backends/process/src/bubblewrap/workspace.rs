//! Which host directory may become a workspace.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use namzu_types::Access;
use rustix::fs::fstat;
use rustix::process::{Pid, geteuid};

use super::view::WORKSPACE;
use super::walk::{Link, Obstacle, path_of, walk};
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
const SYSTEM: [&str; 15] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/spool",
];

/// Not these themselves: everybody's files and sockets are in them. What is below them may be.
const SHARED: [&str; 6] = [
    "/tmp",
    "/var/tmp",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
];

/// Below a home, neither these nor anything below them: keys, and what says which program to run.
const CREDENTIALS: [&str; 13] = [
    ".aws",
    ".azure",
    ".config",
    ".docker",
    ".gcloud",
    ".gnupg",
    ".kube",
    ".local/bin",
    ".local/share/keyrings",
    ".mozilla",
    ".password-store",
    ".pki",
    ".ssh",
];

impl HostWorkspace {
    /// Opens `path` and refuses what would hand over more than a project, and what a sandbox may
    /// have planted: a link in a directory that it could write.
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
        let home = home();
        let trusts = |link: &Link<'_>| trusts(link, geteuid().as_raw(), home.as_deref());
        let dir = walk(path, trusts).map_err(|obstacle| match obstacle {
            Obstacle::Io(err) => failed("it cannot be reached as a directory", err),
            Obstacle::Link(link) => Error::WorkspaceLink {
                path: path.to_owned(),
                link,
                real: fs::canonicalize(path).ok(),
            },
        })?;
        // Where it really is, whatever was renamed meanwhile.
        let real = path_of(&dir).map_err(|err| failed("it cannot be reached", err))?;
        let held = fstat(&dir).map_err(|err| failed("it cannot be reached", err.into()))?;
        let found = fs::symlink_metadata(&real)
            .map_err(|err| failed("it moved while it was looked at", err))?;
        if (found.dev(), found.ino()) != (held.st_dev, held.st_ino) {
            return Err(refused("it moved while it was looked at"));
        }
        if let Some(why) = too_much(&real, home.as_deref()) {
            return Err(refused(why));
        }
        Ok(Self {
            path: real,
            dir,
            access,
        })
    }

    /// Whether it is what the sandbox around `worker` has as its workspace.
    pub(crate) fn is_mounted_in(&self, worker: Pid) -> bool {
        let inside = format!("/proc/{}/root{WORKSPACE}", worker.as_raw_nonzero());
        let (Ok(inside), Ok(held)) = (fs::metadata(inside), fstat(&self.dir)) else {
            return false;
        };
        (inside.dev(), inside.ino()) == (held.st_dev, held.st_ino)
    }
}

/// Whether a link was made by somebody who may say where the caller's path leads.
///
/// One in a directory that no sandbox can have been handed, made by the caller or by root. And to an
/// ordinary user, those that root made where only root can: what a sandbox makes is that user's.
fn trusts(link: &Link<'_>, caller: u32, home: Option<&Path>) -> bool {
    let by_root = link.stat.st_uid == 0;
    let never_shared = too_much(link.dir, home).is_some();
    let of_root_alone = link.dir_stat.st_uid == 0 && link.dir_stat.st_mode & 0o022 == 0;
    (never_shared && (by_root || link.stat.st_uid == caller))
        || (caller != 0 && by_root && of_root_alone)
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
    let credentials = |home: &Path| {
        CREDENTIALS.iter().any(|name| {
            let named = home.join(name);
            let real = fs::canonicalize(&named).unwrap_or_else(|_| named.clone());
            path.starts_with(&named) || path.starts_with(&real) || real.starts_with(path)
        })
    };
    if home.is_some_and(credentials) {
        return Some("it is where keys and settings of yours are");
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
            "/home/me/.ssh",
            "/home/me/.config/gcloud",
            "/home/me/.aws",
            "/var/lib",
            "/var/spool/cron",
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
    fn a_directory_of_credentials_is_refused_where_a_link_leads() {
        let dir = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(dir.path()).unwrap();
        for name in ["me", "dotfiles/ssh"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        let me = home.join("me");
        std::os::unix::fs::symlink("../dotfiles/ssh", me.join(".ssh")).unwrap();
        for path in ["dotfiles/ssh", "dotfiles"] {
            assert!(too_much(&home.join(path), Some(&me)).is_some(), "{path}");
        }
    }

    #[test]
    fn a_link_that_a_sandbox_may_have_planted_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(real.join("target")).unwrap();
        fs::create_dir(real.join("target/sub")).unwrap();
        std::os::unix::fs::symlink("target", real.join("link")).unwrap();
        for path in ["link", "link/", "link/sub"] {
            let refused = HostWorkspace::open(&real.join(path), Access::ReadOnly).unwrap_err();
            let Error::WorkspaceLink {
                link, real: led, ..
            } = refused
            else {
                panic!("{refused:?}");
            };
            assert_eq!(link, real.join("link"));
            assert_eq!(led, fs::canonicalize(real.join(path)).ok());
        }
        HostWorkspace::open(&real.join("target"), Access::ReadOnly).unwrap();
    }

    #[test]
    fn links_of_root_and_of_the_caller_are_followed_where_no_sandbox_writes() {
        let stat = |uid, mode| {
            let mut stat = rustix::fs::stat("/").unwrap();
            (stat.st_uid, stat.st_mode) = (uid, mode);
            stat
        };
        let home = Some(Path::new("/home/me"));
        let follows = |dir, owner, mode, by, caller| {
            let link = Link {
                dir: Path::new(dir),
                dir_stat: stat(owner, mode),
                stat: stat(by, 0o777),
            };
            trusts(&link, caller, home)
        };
        assert!(follows("/", 0, 0o755, 0, 0), "/home -> /data/home");
        assert!(follows("/home/me", 1000, 0o755, 1000, 1000));
        assert!(follows("/data", 0, 0o755, 0, 1000));
        assert!(!follows("/data", 0, 0o755, 0, 0), "root's sandbox is root");
        assert!(!follows("/data", 0, 0o775, 0, 1000));
        assert!(!follows("/data", 1000, 0o755, 1000, 1000));
        assert!(!follows("/home/me/project", 1000, 0o755, 1000, 1000));
        assert!(!follows("/tmp", 0, 0o1777, 1001, 1000), "of another user");
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
            assert!(
                matches!(
                    refused,
                    Err(Error::Workspace { .. } | Error::WorkspaceLink { .. })
                ),
                "{path:?}"
            );
        }
        HostWorkspace::open(dir.path(), Access::ReadWrite).unwrap();
    }
}
