//! The kernel's side of a watch: one instance, a number for each directory, raw events.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// The most directories of one watch.
const MAX_DIRECTORIES: usize = 1 << 16;
/// The most bytes that the paths of the directories of one watch take.
const MAX_PATHS: usize = 8 << 20;
/// How many events are taken before they are told.
const BATCH: usize = 256;

/// An event as the kernel tells it.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) wd: i32,
    pub(super) flags: ReadFlags,
    /// Empty when it is about the directory itself.
    pub(super) name: Vec<u8>,
}

pub(super) fn open() -> rustix::io::Result<OwnedFd> {
    inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
}

/// The next events.
pub(super) fn read(fd: &OwnedFd) -> rustix::io::Result<Vec<Raw>> {
    let mut buffer = [MaybeUninit::uninit(); 8 << 10];
    let mut reader = inotify::Reader::new(fd, &mut buffer);
    let mut batch = Vec::new();
    // What is in the buffer must be taken, for it is no longer in the kernel.
    while batch.len() < BATCH || !reader.is_buffer_empty() {
        match reader.next() {
            Ok(event) => batch.push(Raw {
                wd: event.wd(),
                flags: event.events(),
                name: event
                    .file_name()
                    .map_or(Vec::new(), |name| name.to_bytes().to_vec()),
            }),
            Err(Errno::AGAIN) if !batch.is_empty() => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(batch)
}

/// The watched directories, by path below the top and by number.
#[derive(Debug, Default)]
pub(super) struct Tree {
    paths: HashMap<i32, Vec<u8>>,
    numbers: HashMap<Vec<u8>, i32>,
    /// Bytes of all paths.
    held: usize,
}

impl Tree {
    /// Watches an open directory.
    pub(super) fn add(
        &mut self,
        fd: &OwnedFd,
        dir: BorrowedFd<'_>,
        path: &[u8],
    ) -> rustix::io::Result<()> {
        if self.paths.len() >= MAX_DIRECTORIES || self.held + path.len() > MAX_PATHS {
            return Err(Errno::NOMEM);
        }
        // By descriptor: there is no other call for it, and a name might lead elsewhere by now.
        let name = format!("/proc/self/fd/{}", dir.as_raw_fd());
        let flags = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR;
        let wd = inotify::add_watch(fd, name, flags).map_err(|errno| match errno {
            // The user's limit of watches, not the disk.
            Errno::NOSPC => Errno::NOMEM,
            // Without procfs there is no way to name an open directory.
            Errno::NOENT => Errno::OPNOTSUPP,
            other => other,
        })?;
        self.forget(wd);
        self.held += path.len();
        self.paths.insert(wd, path.to_vec());
        self.numbers.insert(path.to_vec(), wd);
        Ok(())
    }

    pub(super) fn path(&self, wd: i32) -> Option<&[u8]> {
        self.paths.get(&wd).map(Vec::as_slice)
    }

    pub(super) fn wd(&self, path: &[u8]) -> Option<i32> {
        self.numbers.get(path).copied()
    }

    /// The kernel stopped watching it.
    pub(super) fn forget(&mut self, wd: i32) {
        let Some(path) = self.paths.remove(&wd) else {
            return;
        };
        self.held -= path.len();
        if self.numbers.get(&path) == Some(&wd) {
            self.numbers.remove(&path);
        }
    }

    /// Stops watching a directory that was moved away, and all below it.
    pub(super) fn drop_below(&mut self, fd: &OwnedFd, path: &[u8]) {
        let gone: Vec<i32> = self
            .paths
            .iter()
            .filter(|(_, watched)| {
                watched
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            })
            .map(|(wd, _)| *wd)
            .collect();
        for wd in gone {
            // It may be gone already, which is as good.
            let _ = inotify::remove_watch(fd, wd);
            self.forget(wd);
        }
    }
}
