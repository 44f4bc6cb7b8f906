//! Watching directories: the kernel's events as envd's, for streams and for pollers.

mod inotify;
mod poll;
mod stream;

use std::collections::{HashSet, VecDeque};
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use namzu_protocol::filesystem::{EventType, FilesystemEvent};
use namzu_protocol::path_text;
use rustix::fs::inotify::ReadFlags;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use self::inotify::{Raw, Tree};
use super::descent::{Descent, Levels};
use super::entry;
use super::fail::{Fail, Kind, Outcome};
use super::jail::{Access, Jail, Last, PATH_MAX, Parents, Place};

pub(crate) use poll::Watchers;
pub(crate) use stream::WatchStream;

/// What to watch.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// Absolute.
    pub(crate) path: Vec<u8>,
    pub(crate) recursive: bool,
    pub(crate) include_entry: bool,
    pub(crate) allow_network_mounts: bool,
}

/// A set watch: from its opening on, nothing is missed without being told.
#[derive(Debug)]
pub(crate) struct Watch {
    jail: Arc<Jail>,
    wish: Wish,
    fd: AsyncFd<OwnedFd>,
    tree: Tree,
    /// Told already from a look into a new directory; the kernel's own word for it is still to come.
    foretold: HashSet<(i32, Vec<u8>)>,
    ready: VecDeque<FilesystemEvent>,
}

/// The most entries of a new directory that are told at once.
const MAX_FOUND: usize = 4096;

/// File systems whose changes made elsewhere the kernel does not see.
const NETWORK_MAGICS: [u64; 7] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x6573_5546,
    0x0102_1997,
    0x00c3_6400,
];

impl Watch {
    /// Sets a watch. May block; must run within the runtime.
    pub(crate) fn open(jail: Arc<Jail>, wish: Wish) -> Outcome<Self> {
        let failed = |errno| Fail::errno("watch", &wish.path, errno);
        let place = jail.existing(&wish.path, Access::Read)?;
        let top = place.open_dir().map_err(failed)?;
        if !wish.allow_network_mounts {
            let kind = rustix::fs::fstatfs(&top).map_err(failed)?.f_type;
            if u64::try_from(kind).is_ok_and(|kind| NETWORK_MAGICS.contains(&(kind & 0xffff_ffff)))
            {
                let message = "the directory is on a network file system, whose changes are not all seen; \
                               set allowNetworkMounts to watch it anyway";
                return Err(Fail::invalid(message));
            }
        }
        let fd = inotify::open().map_err(failed)?;
        let mut tree = Tree::default();
        tree.add(&fd, top.as_fd(), b"").map_err(failed)?;
        if wish.recursive {
            add_below(&mut tree, &fd, top, b"", |_, _, _| {}).map_err(failed)?;
        }
        let fd = crate::fd::watch(fd, Interest::READABLE)
            .map_err(|error| Fail::new(Kind::Internal, format!("watch a directory: {error}")))?;
        Ok(Self {
            jail,
            wish,
            fd,
            tree,
            foretold: HashSet::new(),
            ready: VecDeque::new(),
        })
    }

    /// The next event.
    ///
    /// # Errors
    /// `TooMuch` when events were lost because nobody took them in time; the watch goes on.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Outcome<FilesystemEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Ok(event));
            }
            let mut guard = match ready!(self.fd.poll_read_ready(cx)) {
                Ok(guard) => guard,
                Err(error) => {
                    let message = format!("read the watch: {error}");
                    return Poll::Ready(Err(Fail::new(Kind::Internal, message)));
                }
            };
            let batch = match inotify::read(guard.get_inner()) {
                Ok(batch) => batch,
                Err(Errno::AGAIN) => {
                    guard.clear_ready();
                    // All that the kernel had to say before the looks has been said.
                    self.foretold.clear();
                    continue;
                }
                Err(errno) => {
                    return Poll::Ready(Err(Fail::errno("watch", &self.wish.path, errno)));
                }
            };
            drop(guard);
            for raw in batch {
                if raw.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                    // New directories may have been among what was lost.
                    if self.wish.recursive
                        && let Err(fail) = self.pick_up(b"", false)
                    {
                        return Poll::Ready(Err(fail));
                    }
                    let message = "events were lost: they came faster than they were taken";
                    return Poll::Ready(Err(Fail::new(Kind::TooMuch, message)));
                }
                if let Err(fail) = self.take(raw) {
                    return Poll::Ready(Err(fail));
                }
            }
        }
    }

    fn take(&mut self, raw: Raw) -> Outcome<()> {
        if raw.flags.contains(ReadFlags::IGNORED) {
            let was_top = self.tree.path(raw.wd) == Some(b"");
            self.tree.forget(raw.wd);
            if was_top {
                // The directory itself is gone: the last event there will be.
                self.tell(b".", EventType::Remove);
            }
            return Ok(());
        }
        let Some(dir) = self.tree.path(raw.wd) else {
            return Ok(());
        };
        let path = join(dir, &raw.name);
        let is_dir = raw.flags.contains(ReadFlags::ISDIR) && !raw.name.is_empty();
        if is_dir && self.wish.recursive && raw.flags.contains(ReadFlags::MOVED_FROM) {
            self.tree.drop_below(self.fd.get_ref(), &path);
        }
        // Changes of the directory itself are its parent's, which is watched as well unless it is the top.
        if raw.name.is_empty() {
            return Ok(());
        }
        if raw.flags.contains(ReadFlags::CREATE) && self.foretold.remove(&(raw.wd, raw.name)) {
            return Ok(());
        }
        for (flag, kind) in [
            (ReadFlags::CREATE | ReadFlags::MOVED_TO, EventType::Create),
            (ReadFlags::MODIFY, EventType::Write),
            (ReadFlags::DELETE, EventType::Remove),
            (ReadFlags::MOVED_FROM, EventType::Rename),
            (ReadFlags::ATTRIB, EventType::Chmod),
        ] {
            if raw.flags.intersects(flag) {
                self.tell(&path, kind);
            }
        }
        let appeared = raw
            .flags
            .intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        if is_dir && self.wish.recursive && appeared {
            self.pick_up(&path, raw.flags.contains(ReadFlags::CREATE))?;
        }
        Ok(())
    }

    /// Watches a new directory and all below it. What is in it already came before the watch and is told now, unless
    /// the directory was moved here with its content.
    fn pick_up(&mut self, path: &[u8], is_new: bool) -> Outcome<()> {
        // The top is not kept open: the kernel tells of its end only when nobody holds it.
        let Ok(top) = self.jail.existing(&self.wish.path, Access::Read) else {
            return Ok(());
        };
        let Self {
            tree, fd, foretold, ..
        } = self;
        let mut found = Vec::new();
        let outcome = below(&top, path).and_then(|dir| {
            tree.add(fd.get_ref(), dir.as_fd(), path)?;
            add_below(tree, fd.get_ref(), dir, path, |wd, path, name| {
                if is_new && found.len() < MAX_FOUND {
                    foretold.insert((wd, name.to_vec()));
                    found.push(path.to_vec());
                }
            })
        });
        let is_too_much = found.len() >= MAX_FOUND;
        for path in found {
            self.tell(&path, EventType::Create);
        }
        if is_too_much {
            let message = "events were lost: a new directory held more than can be told at once";
            return Err(Fail::new(Kind::TooMuch, message));
        }
        match outcome {
            // It went away again.
            Ok(())
            | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::STALE) => {
                Ok(())
            }
            Err(errno) => Err(Fail::errno("watch", &join(&self.wish.path, path), errno)),
        }
    }

    fn tell(&mut self, path: &[u8], kind: EventType) {
        let entry = self.wish.include_entry.then(|| {
            let full = join(&self.wish.path, path);
            let place = self
                .jail
                .place(&full, Access::Read, Last::Keep, Parents::Required);
            entry::of_place(&self.jail, &place.ok()?, &full).ok()
        });
        self.ready.push_back(FilesystemEvent {
            name: path_text::encode(path),
            r#type: kind.into(),
            entry: entry.flatten().map(Box::new),
        });
    }
}

/// Opens a directory below another, through no link.
fn below(top: &Place, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let mut here = top.open_dir()?;
    let parts = path.split(|byte| *byte == b'/');
    for part in parts.filter(|part| !part.is_empty()) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        here = rustix::fs::openat(&here, part, flags, Mode::empty())?;
    }
    Ok(here)
}

/// Watches every directory below one that is watched already; `on` hears of each entry.
fn add_below(
    tree: &mut Tree,
    fd: &OwnedFd,
    top: OwnedFd,
    path: &[u8],
    mut on: impl FnMut(i32, &[u8], &[u8]),
) -> rustix::io::Result<()> {
    let mut descent = Descent::new(top)?;
    let mut prefixes = vec![path.to_vec()];
    let mut levels = Levels::default();
    levels.push(descent.here())?;
    while let (Some(next), Some(prefix)) = (levels.next(), prefixes.last()) {
        let Some((name, kind)) = next else {
            levels.pop();
            prefixes.pop();
            descent.up()?;
            continue;
        };
        let full = join(prefix, name.as_bytes());
        if full.len() >= PATH_MAX {
            continue;
        }
        if let Some(wd) = tree.wd(prefix) {
            on(wd, &full, name.as_bytes());
        }
        if !is_directory(&descent, &name, kind) {
            continue;
        }
        match descent.down(&name) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => continue,
            Err(errno) => return Err(errno),
        }
        tree.add(fd, descent.here(), &full)?;
        levels.push(descent.here())?;
        prefixes.push(full);
    }
    Ok(())
}

fn is_directory(descent: &Descent, name: &CStr, kind: FileType) -> bool {
    if kind != FileType::Unknown {
        return kind == FileType::Directory;
    }
    rustix::fs::statat(descent.here(), name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match (dir, name) {
        (b"", name) => name.to_vec(),
        (dir, b"") => dir.to_vec(),
        (b"/", name) => [b"/", name].concat(),
        (dir, name) => [dir, b"/", name].concat(),
    }
}
