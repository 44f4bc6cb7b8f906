//! Paths of the host that a sandbox may have had its hands on.
//!
//! A sandbox that shares a directory may have put a symlink where a file is expected, or a pipe
//! that holds up whoever opens it.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use namzu_sandbox::{Error, ErrorCode, Phase};
use rustix::fs::Access;

use crate::failure::local;

/// `path` without what makes the kernel look through a link in the last place: `link/` and
/// `link/.` are `link`.
pub(crate) fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

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

/// Refuses a [`plain`] path that leads through a link which a sandbox may have put there: one in
/// the last place, or one in a directory that this user may write to.
///
/// # Errors
///
/// `path_refused` with the link; those of looking.
pub(crate) fn refuse_links(path: &Path) -> Result<(), Error> {
    let mut upto = PathBuf::new();
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let parent = upto.clone();
        upto.push(part);
        let is_link = match upto.symlink_metadata() {
            Ok(meta) => meta.is_symlink(),
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(err) => return Err(local(format!("looking at `{}`", upto.display()), err)),
        };
        if is_link && (parts.peek().is_none() || is_writable(&parent)) {
            return Err(link(&upto));
        }
    }
    Ok(())
}

fn is_writable(dir: &Path) -> bool {
    let dir = match dir.as_os_str().is_empty() {
        true => Path::new("."),
        false => dir,
    };
    rustix::fs::access(dir, Access::WRITE_OK).is_ok()
}

/// `path` is a link.
pub(crate) fn link(path: &Path) -> Error {
    Error::new(
        ErrorCode::PathRefused,
        format!("`{}` is a symlink", path.display()),
    )
    .during(Phase::Files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_is_seen_whatever_follows_its_name() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/etc", dir.path().join("link")).unwrap();
        for typed in [
            "link",
            "link/",
            "link/.",
            "link//.//",
            "link/passwd",
            "link/..",
            "link/new",
        ] {
            let path = plain(&dir.path().join(typed));
            let err = refuse_links(&path).unwrap_err();
            assert_eq!(err.code(), ErrorCode::PathRefused, "{typed}");
            assert!(err.to_string().contains("link` is a symlink"), "{err}");
        }
        for fine in ["", "new", "new/deep", "./.", ".."] {
            refuse_links(&plain(&dir.path().join(fine))).unwrap();
        }
        refuse_links(Path::new(".")).unwrap();
        refuse_links(Path::new("/")).unwrap();
    }

    #[test]
    fn a_directory_is_told_by_its_end() {
        for typed in ["x/", "x/.", "/", "./"] {
            assert!(is_typed_as_directory(Path::new(typed)), "{typed}");
        }
        for typed in ["x", "x/..", ".", "x/.y"] {
            assert!(!is_typed_as_directory(Path::new(typed)), "{typed}");
        }
    }

    #[test]
    fn only_the_hosts_own_devices_are_devices() {
        for path in ["/dev/null", "/dev/fd/3"] {
            assert!(is_device(Path::new(path)), "{path}");
        }
        for path in ["/dev/shm/link", "/dev/../tmp/pipe", "dev/null", "/devices"] {
            assert!(!is_device(Path::new(path)), "{path}");
        }
    }
}
