//! The directory of this user in which is written down what outlives a process.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Where it should be: gone with the session or the boot, where the system has such a place.
#[must_use]
pub fn place() -> PathBuf {
    let uid = geteuid();
    let ours = |dir: &PathBuf| {
        fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir() && found.uid() == uid.as_raw())
    };
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let usual = PathBuf::from(format!("/run/user/{}", uid.as_raw()));
    let run = uid.is_root().then(|| PathBuf::from("/run"));
    [given.filter(|dir| dir.is_absolute()), Some(usual), run]
        .into_iter()
        .flatten()
        .find(ours)
        .map_or_else(
            || PathBuf::from(format!("/tmp/namzu-sandbox-{}", uid.as_raw())),
            |dir| dir.join("namzu-sandbox"),
        )
}

/// Makes `path`, or finds it made, for this user alone.
///
/// # Errors
///
/// `PermissionDenied` for one that somebody else made or can write to: in `/tmp` anybody may have been
/// first. Else those of the file system.
pub fn make_private(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(err),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is not a directory of ours alone",
        ));
    }
    Ok(())
}
