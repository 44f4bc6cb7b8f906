//! What is packed, and what a hostile directory cannot make of it.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;

use super::pack;
use crate::transfer::unpack::{Limits, unpack};

#[test]
fn a_tree_goes_in_and_comes_out() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let deep = from.path().join("d".repeat(120)).join("e".repeat(120));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("f"), "deep").unwrap();
    fs::write(from.path().join("name with\nnewline"), "x").unwrap();
    fs::write(from.path().join("empty"), "").unwrap();
    symlink("empty", from.path().join("link")).unwrap();
    let mut tar = Vec::new();
    let packed = pack(File::open(from.path()).unwrap().as_fd(), &mut tar).unwrap();
    assert!(packed.skipped.is_empty());
    let root = File::open(to.path()).unwrap();
    let done = unpack(tar.as_slice(), root.as_fd(), Limits { bytes: 100 }).unwrap();
    assert_eq!((done.bytes, done.refused), (5, 0));
    let deep = to.path().join("d".repeat(120)).join("e".repeat(120));
    assert_eq!(fs::read_to_string(deep.join("f")).unwrap(), "deep");
    assert_eq!(
        fs::read_to_string(to.path().join("name with\nnewline")).unwrap(),
        "x"
    );
    assert_eq!(
        fs::read_link(to.path().join("link")).unwrap().to_str(),
        Some("empty")
    );
}

#[test]
fn a_planted_symlink_is_copied_and_never_followed() {
    let (outside, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret"), "TOP-SECRET").unwrap();
    symlink(outside.path(), from.path().join("dir")).unwrap();
    symlink(outside.path().join("secret"), from.path().join("file")).unwrap();
    let mut tar = Vec::new();
    pack(File::open(from.path()).unwrap().as_fd(), &mut tar).unwrap();
    assert!(!tar.windows(10).any(|window| window == b"TOP-SECRET"));
}

#[test]
fn a_pipe_and_a_socket_are_left_out_and_hold_nothing_up() {
    let from = tempfile::tempdir().unwrap();
    let dir = File::open(from.path()).unwrap();
    rustix::fs::mkfifoat(&dir, "pipe", rustix::fs::Mode::RUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(from.path().join("socket")).unwrap();
    let mut tar = Vec::new();
    let packed = pack(dir.as_fd(), &mut tar).unwrap();
    assert_eq!(packed.skipped, ["`pipe`", "`socket`"]);
}

#[test]
fn a_file_keeps_the_time_of_its_last_change() {
    use std::time::{Duration, UNIX_EPOCH};
    let from = tempfile::tempdir().unwrap();
    for (name, time) in [
        ("a", UNIX_EPOCH + Duration::from_secs(1_000_000_000)),
        ("b", UNIX_EPOCH - Duration::from_secs(1_000_000_000)),
    ] {
        let file = File::create(from.path().join(name)).unwrap();
        file.set_modified(time).unwrap();
    }
    let mut packed = Vec::new();
    pack(File::open(from.path()).unwrap().as_fd(), &mut packed).unwrap();
    let times: Vec<_> = tar::Archive::new(packed.as_slice())
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().header().mtime().unwrap())
        .collect();
    assert_eq!(times, [1_000_000_000, 0]);
}
