//! Attacks on the jail, each with a secret outside that must not be reached.

use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::files::fail::Kind;

struct Scene {
    _keep: tempfile::TempDir,
    top: PathBuf,
    jail: Jail,
}

/// `top/in` (read and write), `top/ro` (read), `top/out/secret` (neither).
fn scene() -> Scene {
    let keep = tempfile::tempdir().unwrap();
    let top = keep.path().canonicalize().unwrap();
    for dir in ["in/sub", "ro", "out"] {
        std::fs::create_dir_all(top.join(dir)).unwrap();
    }
    std::fs::write(top.join("out/secret"), "secret").unwrap();
    std::fs::write(top.join("in/file"), "inside").unwrap();
    std::fs::write(top.join("ro/file"), "readable").unwrap();
    let (read, write) = (top.join("ro"), top.join("in"));
    let jail = Jail::open([read.as_path()], [write.as_path()]).unwrap();
    Scene {
        _keep: keep,
        top,
        jail,
    }
}

impl Scene {
    fn bytes(&self, path: &str) -> Vec<u8> {
        self.top.join(path).as_os_str().as_bytes().to_vec()
    }

    /// Through both the kernel's lookup and the walk, which must agree.
    fn read(&self, path: &[u8]) -> Outcome<String> {
        let read = |place: Place| {
            let (fd, _) = place
                .open_file()
                .map_err(|errno| Fail::errno("open", path, errno))?;
            let mut text = String::new();
            std::fs::File::from(fd).read_to_string(&mut text).unwrap();
            Ok(text)
        };
        let either = self.jail.existing(path, Access::Read).and_then(read);
        let walked = self.jail.resolved(path).and_then(|(_, place)| read(place));
        match (&either, &walked) {
            (Ok(a), Ok(b)) => assert_eq!(a, b),
            (Err(a), Err(b)) => assert_eq!(a.kind, b.kind),
            _ => panic!("the two lookups disagree: {either:?} and {walked:?}"),
        }
        either
    }

    fn write(&self, path: &[u8]) -> Outcome<()> {
        let place = self
            .jail
            .place(path, Access::Write, Last::Follow, Parents::Made)?;
        let (fd, _) = place
            .create_file()
            .map_err(|errno| Fail::errno("create", path, errno))?;
        std::fs::File::from(fd).write_all(b"written").unwrap();
        Ok(())
    }

    fn is_refused<T: std::fmt::Debug>(&self, outcome: Outcome<T>) {
        assert_eq!(outcome.unwrap_err().kind, Kind::Refused);
        assert_eq!(
            std::fs::read_to_string(self.top.join("out/secret")).unwrap(),
            "secret"
        );
    }
}

#[test]
fn files_inside_are_read_and_written() {
    let scene = scene();
    assert_eq!(scene.read(&scene.bytes("in/file")).unwrap(), "inside");
    assert_eq!(
        scene.read(&scene.bytes("in/./sub/..//file")).unwrap(),
        "inside"
    );
    assert_eq!(
        scene.read(&scene.bytes("in/../ro/file")).unwrap(),
        "readable"
    );
    scene.write(&scene.bytes("in/new/deep/file")).unwrap();
    assert_eq!(
        scene.read(&scene.bytes("in/new/deep/file")).unwrap(),
        "written"
    );
    assert_eq!(
        scene.read(&scene.bytes("in/none")).unwrap_err().kind,
        Kind::NotFound
    );
}

#[test]
fn dot_dot_does_not_leave() {
    let scene = scene();
    for path in [
        "in/../out/secret",
        "in/sub/../../out/secret",
        "out/secret",
        "in/../../../../../../etc/passwd",
    ] {
        scene.is_refused(scene.read(&scene.bytes(path)));
        scene.is_refused(scene.write(&scene.bytes(path)));
    }
}

#[test]
fn a_name_that_only_begins_like_a_root_is_outside() {
    let scene = scene();
    std::fs::create_dir(scene.top.join("inside")).unwrap();
    scene.is_refused(scene.write(&scene.bytes("inside/x")));
}

#[test]
fn links_that_leave_are_refused() {
    let scene = scene();
    let top = &scene.top;
    symlink(top.join("out"), top.join("in/abs")).unwrap();
    symlink("../out", top.join("in/rel")).unwrap();
    symlink("../../out/secret", top.join("in/sub/file")).unwrap();
    symlink(top.join("out/created"), top.join("in/dangling")).unwrap();
    symlink("abs", top.join("in/chain")).unwrap();
    for path in [
        "in/abs/secret",
        "in/rel/secret",
        "in/sub/file",
        "in/chain/secret",
    ] {
        scene.is_refused(scene.read(&scene.bytes(path)));
        scene.is_refused(scene.write(&scene.bytes(path)));
    }
    scene.is_refused(scene.write(&scene.bytes("in/dangling")));
    assert!(!top.join("out/created").exists());
}

#[test]
fn links_that_stay_are_followed() {
    let scene = scene();
    let top = &scene.top;
    symlink("file", top.join("in/rel")).unwrap();
    symlink(top.join("in/file"), top.join("in/abs")).unwrap();
    symlink(top.join("ro"), top.join("in/other")).unwrap();
    symlink("../file", top.join("in/sub/up")).unwrap();
    symlink("made/later", top.join("in/dangling")).unwrap();
    for path in ["in/rel", "in/abs", "in/sub/up"] {
        assert_eq!(scene.read(&scene.bytes(path)).unwrap(), "inside");
    }
    assert_eq!(
        scene.read(&scene.bytes("in/other/file")).unwrap(),
        "readable"
    );
    scene.write(&scene.bytes("in/dangling")).unwrap();
    assert_eq!(
        std::fs::read_to_string(top.join("in/made/later")).unwrap(),
        "written"
    );
}

#[test]
fn a_read_root_is_not_written_through_a_link_either() {
    let scene = scene();
    symlink(scene.top.join("ro"), scene.top.join("in/other")).unwrap();
    symlink("../ro/file", scene.top.join("in/link")).unwrap();
    for path in [
        "ro/file",
        "ro/new",
        "in/other/file",
        "in/other/new",
        "in/link",
        "in/../ro/new",
    ] {
        scene.is_refused(scene.write(&scene.bytes(path)));
    }
    assert_eq!(
        std::fs::read_to_string(scene.top.join("ro/file")).unwrap(),
        "readable"
    );
    assert!(!scene.top.join("ro/new").exists());
}

#[test]
fn loops_of_links_end() {
    let scene = scene();
    symlink("b", scene.top.join("in/a")).unwrap();
    symlink("a", scene.top.join("in/b")).unwrap();
    symlink("grow/grow/grow", scene.top.join("in/grow")).unwrap();
    for path in ["in/a", "in/a/x", "in/grow", "in/grow/x"] {
        scene.is_refused(scene.read(&scene.bytes(path)));
    }
    let up = "sub/../".repeat(500);
    scene.is_refused(scene.jail.resolved(&scene.bytes(&format!("in/{up}file"))));
}

#[test]
fn magic_links_are_refused_even_without_roots() {
    let open = Jail::open([], []).unwrap();
    let fd = std::fs::File::open("/etc/passwd").unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&fd);
    for path in [
        "/proc/self/root/etc/passwd".to_owned(),
        "/proc/self/cwd/Cargo.toml".to_owned(),
        format!("/proc/self/fd/{number}"),
        "/proc/self/exe".to_owned(),
        "/proc/thread-self/root/etc/passwd".to_owned(),
    ] {
        let outcome = open
            .existing(path.as_bytes(), Access::Read)
            .map(|place| place.open_file());
        assert_eq!(outcome.unwrap_err().kind, Kind::Refused, "{path}");
    }
    let plain = open.existing(b"/proc/self/status", Access::Read).unwrap();
    assert!(plain.open_file().is_ok());
}

#[test]
fn without_roots_every_path_is_open() {
    let scene = scene();
    let open = Jail::open([], []).unwrap();
    symlink(scene.top.join("out/secret"), scene.top.join("in/abs")).unwrap();
    for path in ["out/secret", "in/abs", "in/../out/secret"] {
        let place = open.existing(&scene.bytes(path), Access::Write).unwrap();
        assert!(place.open_file().is_ok(), "{path}");
    }
    assert!(
        open.existing(b"/../../etc/passwd", Access::Read)
            .unwrap()
            .open_file()
            .is_ok()
    );
}

#[test]
fn names_that_are_no_text_work() {
    let scene = scene();
    let mut path = scene.bytes("in/");
    path.extend_from_slice(b"\xff\n\t \xc3(/deep\xfe");
    scene.write(&path).unwrap();
    assert_eq!(scene.read(&path).unwrap(), "written");
}

#[test]
fn malformed_paths_are_invalid() {
    let scene = scene();
    let long = [scene.bytes("in/"), vec![b'a'; PATH_MAX]].concat();
    for path in [&b""[..], b"relative", b"/a\0b", &long] {
        assert_eq!(scene.read(path).unwrap_err().kind, Kind::InvalidArgument);
    }
}

#[test]
fn pipes_and_devices_are_not_opened() {
    let scene = scene();
    let fifo = scene.top.join("in/fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        FileType::Fifo,
        Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    assert_eq!(
        scene.read(&scene.bytes("in/fifo")).unwrap_err().kind,
        Kind::InvalidArgument
    );
    assert_eq!(
        scene.write(&scene.bytes("in/fifo")).unwrap_err().kind,
        Kind::InvalidArgument
    );
}

#[test]
fn a_root_known_by_a_link_is_found_by_both_names() {
    let keep = tempfile::tempdir().unwrap();
    let top = keep.path().canonicalize().unwrap();
    std::fs::create_dir(top.join("real")).unwrap();
    std::fs::write(top.join("real/file"), "x").unwrap();
    symlink(top.join("real"), top.join("alias")).unwrap();
    let root = top.join("alias");
    let jail = Jail::open([], [root.as_path()]).unwrap();
    for name in ["real/file", "alias/file"] {
        let path = top.join(name);
        assert!(
            jail.existing(path.as_os_str().as_bytes(), Access::Read)
                .is_ok()
        );
    }
}

/// A thread swaps a directory for a link to the outside and back while files are written and read below it.
#[test]
fn a_swapped_link_never_leads_out() {
    let scene = scene();
    let top = scene.top.clone();
    let stop = AtomicBool::new(false);
    symlink(top.join("out"), top.join("in/trap")).unwrap();
    std::fs::create_dir(top.join("in/honest")).unwrap();
    std::fs::write(top.join("in/honest/secret"), "honest").unwrap();
    std::fs::rename(top.join("in/honest"), top.join("in/dir")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| swap_until(&stop, &top.join("in/dir"), &top.join("in/trap")));
        let path = scene.bytes("in/dir/secret");
        let planted = scene.bytes("in/dir/planted");
        for _ in 0..3000 {
            if let Ok(place) = scene.jail.existing(&path, Access::Read)
                && let Ok((fd, _)) = place.open_file()
            {
                let mut text = String::new();
                std::fs::File::from(fd).read_to_string(&mut text).unwrap();
                assert_eq!(text, "honest");
            }
            if let Ok(place) =
                scene
                    .jail
                    .place(&planted, Access::Write, Last::Follow, Parents::Made)
            {
                let _ = place.create_file();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(!top.join("out/planted").exists());
    assert_eq!(
        std::fs::read_to_string(top.join("out/secret")).unwrap(),
        "secret"
    );
}

fn swap_until(stop: &AtomicBool, one: &Path, two: &Path) {
    while !stop.load(Ordering::Relaxed) {
        rustix::fs::renameat_with(
            rustix::fs::CWD,
            one,
            rustix::fs::CWD,
            two,
            rustix::fs::RenameFlags::EXCHANGE,
        )
        .unwrap();
    }
}
