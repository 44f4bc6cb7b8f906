//! Which links are followed, and to where.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use namzu_sandbox::ErrorCode;
use rustix::fs::fstat;

use super::*;

/// Trusts `dir` alone.
fn only(dir: &Path) -> impl Fn(BorrowedFd<'_>) -> Result<bool, Errno> {
    let known = rustix::fs::stat(dir).unwrap();
    move |dir| fstat(dir).map(|stat| stat.st_ino == known.st_ino && stat.st_dev == known.st_dev)
}

fn place(found: &Found) -> (u64, String) {
    let stat = fstat(&found.parent).unwrap();
    (stat.st_ino, found.name.to_str().unwrap().to_owned())
}

fn inode(path: &Path) -> u64 {
    rustix::fs::stat(path).unwrap().st_ino
}

#[test]
fn a_link_in_a_trusted_directory_is_followed_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("data/home/me")).unwrap();
    symlink("data/home", root.join("home")).unwrap();
    symlink(root.join("data"), root.join("absolute")).unwrap();
    symlink("data/home/../home/./me", root.join("bent")).unwrap();
    symlink("../home", root.join("data/planted")).unwrap();
    let trusts = only(root);
    for (path, parent, name) in [
        ("home/new", "data/home", "new"),
        ("home", "data", "home"),
        ("home/", "data", "home"),
        ("absolute/home/me", "data/home", "me"),
        ("bent/x", "data/home/me", "x"),
        ("home/../x", "data", "x"),
        ("home/me/..", "data/home/me/..", "."),
    ] {
        let found = walk(&root.join(path), &trusts).unwrap();
        let wanted = (inode(&root.join(parent)), name.to_owned());
        assert_eq!(place(&found), wanted, "{path}");
    }
    for path in ["data/planted", "data/planted/me", "absolute/planted/me"] {
        let err = walk(&root.join(path), &trusts).unwrap_err();
        assert_eq!(err.code(), ErrorCode::PathRefused, "{path}");
    }
}

#[test]
fn links_that_never_end_are_given_up() {
    let dir = tempfile::tempdir().unwrap();
    symlink("loop/x", dir.path().join("loop")).unwrap();
    let err = walk(&dir.path().join("loop"), &only(dir.path())).unwrap_err();
    assert_eq!(err.code(), ErrorCode::Internal);
}

#[test]
fn the_root_of_the_host_is_trusted_and_what_others_write_to_is_not() {
    let trusts = |path: &Path| is_trusted(directory(CWD, path.as_os_str()).unwrap().as_fd());
    // A root that is anybody's is no system: nothing is claimed of it.
    if rustix::fs::stat("/").unwrap().st_mode & 0o022 == 0 {
        assert!(trusts(Path::new("/")).unwrap());
    }
    assert!(!trusts(Path::new("/tmp")).unwrap());
    // As root, this is what a sandbox that root started could write to.
    let dir = tempfile::tempdir().unwrap();
    for mode in [0o755, 0o775, 0o700] {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        assert!(!trusts(dir.path()).unwrap(), "{mode:o}");
    }
}
