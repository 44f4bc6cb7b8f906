//! Attacks on a path by whoever shares one of its directories.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::RenameFlags;
use tempfile::TempDir;

use super::*;

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
        let err = Place::find(&dir.path().join(typed)).unwrap_err();
        assert_eq!(err.code(), ErrorCode::PathRefused, "{typed}");
        assert!(err.to_string().contains("link` is a symlink"), "{err}");
    }
    for fine in ["", "new", "./.", ".."] {
        Place::find(&dir.path().join(fine)).unwrap();
    }
    Place::find(Path::new(".")).unwrap();
    Place::find(Path::new("/")).unwrap();
    for missing in ["new/deep", "new/.."] {
        let err = Place::find(&dir.path().join(missing)).unwrap_err();
        assert_eq!(err.code(), ErrorCode::NotFound, "{missing}");
    }
    let err = Place::find(Path::new("")).unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
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

/// A shared directory `ws` and a secret beside it. In `ws` are `real`, a directory with `file`,
/// and something that whoever shares it exchanges with what is wanted.
struct Shared {
    outer: TempDir,
}

impl Shared {
    fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir_all(outer.path().join("ws/real")).unwrap();
        fs::write(outer.path().join("ws/real/file"), "fine").unwrap();
        fs::create_dir(outer.path().join("secret")).unwrap();
        fs::write(outer.path().join("secret/file"), "TOP-SECRET").unwrap();
        Self { outer }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.outer.path().join(name)
    }

    /// Calls `attempt` again and again, while `one` and `other` are exchanged at every moment.
    fn exchanging(&self, one: &str, other: &str, mut attempt: impl FnMut()) {
        let (one, other) = (self.path(one), self.path(other));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _ =
                        rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
                }
            });
            // Ends the exchange when an attempt fails the test, too.
            let _end = Defer(|| done.store(true, Ordering::Relaxed));
            for _ in 0..3000 {
                attempt();
            }
        });
    }

    #[track_caller]
    fn is_unharmed(&self) {
        let secret = self.path("secret");
        assert_eq!(fs::read_dir(&secret).unwrap().count(), 1);
        let text = fs::read_to_string(secret.join("file")).unwrap();
        assert_eq!(text, "TOP-SECRET");
    }
}

struct Defer<F: Fn()>(F);

impl<F: Fn()> Drop for Defer<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// Every way to use a place, as often as it is let.
fn use_it(path: &Path, counts: &mut [u32; 3]) {
    let read = Place::find(path).and_then(|place| place.read());
    if let Ok(mut file) = read {
        let mut text = String::new();
        // What lies there may be a pipe, or a directory.
        if file.metadata().unwrap().is_file() {
            file.read_to_string(&mut text).unwrap();
            assert_ne!(text, "TOP-SECRET");
            counts[0] += 1;
        }
    }
    let written = Place::find(path).and_then(|place| {
        let mut file = place.fresh(0o600)?;
        file.file().write_all(b"written").unwrap();
        place.settle(file)
    });
    counts[1] += u32::from(written.is_ok());
    let made = Place::find(path).and_then(|place| place.directory());
    counts[2] += u32::from(made.is_ok());
}

#[test]
fn a_directory_that_is_exchanged_for_a_link_leads_nowhere() {
    let shared = Shared::new();
    symlink(shared.path("secret"), shared.path("ws/out")).unwrap();
    let mut counts = [0; 3];
    shared.exchanging("ws/real", "ws/out", || {
        use_it(&shared.path("ws/real/file"), &mut counts);
        let made = Place::find(&shared.path("ws/real/new")).and_then(|place| place.directory());
        counts[2] += u32::from(made.is_ok());
    });
    // Both were met: it was let through, and was refused.
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    shared.is_unharmed();
}

#[test]
fn a_file_that_is_exchanged_for_a_link_is_not_looked_through() {
    let shared = Shared::new();
    symlink(shared.path("secret/file"), shared.path("ws/out")).unwrap();
    let mut counts = [0; 3];
    shared.exchanging("ws/real/file", "ws/out", || {
        use_it(&shared.path("ws/real/file"), &mut counts);
    });
    assert!(counts[0] > 0 && counts[1] > 0, "{counts:?}");
    shared.is_unharmed();
}

#[test]
fn a_destination_that_is_exchanged_for_a_link_takes_nothing_in() {
    let shared = Shared::new();
    symlink(shared.path("secret"), shared.path("ws/out")).unwrap();
    let mut made = 0;
    shared.exchanging("ws/real", "ws/out", || {
        let place = Place::find(&shared.path("ws/real"))
            .and_then(|place| place.within(OsStr::new("new"), false));
        if place.is_ok_and(|place| place.directory().is_ok()) {
            made += 1;
        }
        let opened = Place::find(&shared.path("ws/real")).and_then(|place| place.directory());
        if let Ok(dir) = opened {
            rustix::fs::mkdirat(&dir, "other", Mode::RWXU).ok();
        }
    });
    assert!(made > 0);
    shared.is_unharmed();
}

#[test]
fn a_file_that_is_exchanged_for_a_pipe_gets_nothing_and_holds_nothing_up() {
    let shared = Shared::new();
    rustix::fs::mkfifoat(CWD, shared.path("ws/out"), Mode::RWXU).unwrap();
    // Somebody who would get what is written.
    let mut reader = File::options()
        .read(true)
        .write(true)
        .open(shared.path("ws/out"))
        .unwrap();
    rustix::io::ioctl_fionbio(&reader, true).unwrap();
    let mut counts = [0; 3];
    shared.exchanging("ws/real/file", "ws/out", || {
        use_it(&shared.path("ws/real/file"), &mut counts);
    });
    assert!(counts[1] > 0, "{counts:?}");
    let err = reader.read(&mut [0]).unwrap_err();
    assert_eq!(err.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_directory_that_is_moved_does_not_change_what_is_above_it() {
    let shared = Shared::new();
    fs::create_dir_all(shared.path("ws/a/b")).unwrap();
    fs::create_dir_all(shared.path("ws/c")).unwrap();
    // Moved up by one, its `..` is one higher than where it was found.
    let path = shared.path("ws/a/b/../../new");
    shared.exchanging("ws/a/b", "ws/c", || {
        if let Ok(file) = Place::find(&path).and_then(|place| Ok((place.fresh(0o600)?, place))) {
            file.1.settle(file.0).unwrap();
        }
    });
    assert!(shared.path("ws/new").exists());
    assert!(!shared.path("new").exists());
}

#[test]
fn what_is_not_finished_is_removed() {
    let shared = Shared::new();
    let place = Place::find(&shared.path("ws/real/new")).unwrap();
    drop(place.fresh(0o600).unwrap());
    // A directory is in the way.
    fs::create_dir(shared.path("ws/real/new")).unwrap();
    place.settle(place.fresh(0o600).unwrap()).unwrap_err();
    let entries = fs::read_dir(shared.path("ws/real")).unwrap();
    assert_eq!(entries.count(), 2);
}
