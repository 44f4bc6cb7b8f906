//! From a path to a place: the kernel's confined lookup, and the walk for what that lookup cannot say.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::root::{Root, components};
use super::{Access, Jail, Last, Parents, Place};
use crate::files::fail::{Fail, Outcome};

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;
/// How often `..` may send the walk back to its root.
const MAX_RESTARTS: usize = 256;
/// How often a component that changes under the walk is looked at again.
const MAX_RETRIES: usize = 16;
const PROC_SUPER_MAGIC: u64 = 0x9fa0;

/// Where a walk ended.
pub(super) struct Found {
    pub(super) place: Place,
    /// The path, all links resolved.
    pub(super) path: Vec<u8>,
}

impl Jail {
    /// One `openat2` for the directory, none of it trusted to text. `None`: the walk has to say.
    pub(super) fn quick(&self, path: &[u8], access: Access, last: Last) -> Option<Place> {
        let (root, rest) = self.enter(path, access)?;
        let mut parts = components(rest);
        let name = parts
            .next_back()
            .filter(|name| *name != b".." && *name != b".")?;
        let mut parent = parts.collect::<Vec<_>>().join(&b'/');
        if parent.is_empty() {
            parent.push(b'.');
        }
        let dir = rustix::fs::openat2(
            &root.fd,
            CString::new(parent).ok()?,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        )
        .ok()?;
        let place = Place {
            dir,
            name: CString::new(name).ok()?,
        };
        if last == Last::Follow {
            let is_link =
                |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
            match place.stat() {
                Ok(stat) if is_link(stat) => return None,
                Ok(_) | Err(Errno::NOENT) => {}
                Err(_) => return None,
            }
        }
        Some(place)
    }

    /// The root with the longest name that `path` begins with, and the rest of the path.
    fn enter<'p>(&self, path: &'p [u8], access: Access) -> Option<(&Root, &'p [u8])> {
        self.roots
            .iter()
            .filter(|root| root.writable || access == Access::Read)
            .filter_map(|root| root.strip(path).map(|(rest, used)| (root, rest, used)))
            .max_by_key(|(_, _, used)| *used)
            .map(|(root, rest, _)| (root, rest))
    }

    /// Opens component after component, following links in the open.
    pub(super) fn walk(
        &self,
        path: &[u8],
        access: Access,
        last: Last,
        parents: Parents,
    ) -> Outcome<Found> {
        let (mut links, mut restarts) = (0, 0);
        let mut text = path.to_vec();
        loop {
            let mut walk = Walk::start(self, path, &text, access)?;
            match walk.run(last, parents)? {
                Step::Done(name) => return walk.finish(&name),
                Step::Link(next) => {
                    links += 1;
                    text = next;
                }
                Step::Up(next) => {
                    restarts += 1;
                    text = next;
                }
            }
            // A link's text may be as long as a path, and so may what follows it.
            if links > MAX_LINKS || restarts > MAX_RESTARTS || text.len() > 4 * super::PATH_MAX {
                return Err(Fail::errno("resolve", path, Errno::LOOP));
            }
        }
    }
}

enum Step {
    /// The place is this name in the current directory.
    Done(Vec<u8>),
    /// A link: go on with this absolute path.
    Link(Vec<u8>),
    /// `..`: go on with this absolute path.
    Up(Vec<u8>),
}

struct Walk<'w> {
    /// As the caller said it, for messages.
    said: &'w [u8],
    root: &'w Root,
    dir: Option<OwnedFd>,
    /// Components below the root that were opened so far.
    names: Vec<&'w [u8]>,
    /// Components still to come, the next one last.
    pending: Vec<&'w [u8]>,
}

impl<'w> Walk<'w> {
    fn start(jail: &'w Jail, said: &'w [u8], text: &'w [u8], access: Access) -> Outcome<Self> {
        let Some((root, rest)) = jail.enter(text, access) else {
            let what = match access {
                Access::Read => "is outside the roots that may be read",
                Access::Write => "is outside the roots that may be written",
            };
            return Err(Fail::refused(said, what));
        };
        let pending = components(rest)
            .filter(|name| *name != b".")
            .rev()
            .collect();
        Ok(Self {
            said,
            root,
            dir: None,
            names: Vec::new(),
            pending,
        })
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.dir
            .as_ref()
            .map_or_else(|| self.root.fd.as_fd(), OwnedFd::as_fd)
    }

    fn run(&mut self, last: Last, parents: Parents) -> Outcome<Step> {
        let mut retries = 0;
        while let Some(name) = self.pending.pop() {
            if name == b".." {
                return Ok(Step::Up(self.parent()));
            }
            let is_last = self.pending.is_empty();
            if is_last && last == Last::Keep {
                return Ok(Step::Done(name.to_vec()));
            }
            let c_name =
                CString::new(name).map_err(|_| Fail::invalid("the path contains a NUL byte"))?;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = match rustix::fs::openat(self.here(), &c_name, flags, Mode::empty()) {
                Ok(fd) => fd,
                Err(Errno::NOENT) if is_last => return Ok(Step::Done(name.to_vec())),
                Err(Errno::NOENT) => {
                    if parents == Parents::Required {
                        return Err(Fail::errno("resolve", self.said, Errno::NOENT));
                    }
                    // Another caller may make or remove it in between: look again, but not for ever.
                    retries += 1;
                    if retries > MAX_RETRIES + self.names.len() + self.pending.len() {
                        return Err(Fail::errno("create parents of", self.said, Errno::NOENT));
                    }
                    match rustix::fs::mkdirat(self.here(), &c_name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => {
                            return Err(Fail::errno("create parents of", self.said, errno));
                        }
                    }
                    self.pending.push(name);
                    continue;
                }
                Err(errno) => return Err(Fail::errno("resolve", self.said, errno)),
            };
            let stat =
                rustix::fs::fstat(&fd).map_err(|errno| Fail::errno("resolve", self.said, errno))?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink => return self.link(&fd).map(Step::Link),
                _ if is_last => return Ok(Step::Done(name.to_vec())),
                FileType::Directory => {
                    self.dir = Some(fd);
                    self.names.push(name);
                }
                _ => return Err(Fail::errno("resolve", self.said, Errno::NOTDIR)),
            }
        }
        Ok(Step::Done(b".".to_vec()))
    }

    /// The absolute path that a link at the current component leads to, the rest appended.
    fn link(&self, fd: &OwnedFd) -> Outcome<Vec<u8>> {
        let failed = |errno| Fail::errno("resolve", self.said, errno);
        let target = rustix::fs::readlinkat(fd, c"", Vec::new())
            .map_err(failed)?
            .into_bytes();
        let on_proc = rustix::fs::fstatfs(fd)
            .map(|fs| u64::try_from(fs.f_type).is_ok_and(|kind| kind == PROC_SUPER_MAGIC))
            .map_err(failed)?;
        // procfs' magic links lead where no text says; its ordinary ones are relative and plain.
        if on_proc && (target.starts_with(b"/") || target.contains(&b':')) {
            return Err(failed(Errno::LOOP));
        }
        let mut next = if target.starts_with(b"/") {
            Vec::new()
        } else {
            self.so_far(self.names.len())
        };
        next.push(b'/');
        next.extend_from_slice(&target);
        self.append_pending(&mut next);
        Ok(next)
    }

    /// The absolute path after `..`: one up, the rest appended. Above a root it is the root's own parent,
    /// which is refused unless it is, or leads back into, a root.
    fn parent(&self) -> Vec<u8> {
        let mut next = match self.names.len().checked_sub(1) {
            Some(depth) => self.so_far(depth),
            None => {
                let canonical = &self.root.canonical;
                let cut = canonical
                    .iter()
                    .rposition(|byte| *byte == b'/')
                    .unwrap_or(0);
                canonical.get(..cut).unwrap_or_default().to_vec()
            }
        };
        if next.is_empty() {
            next.push(b'/');
        }
        self.append_pending(&mut next);
        next
    }

    fn append_pending(&self, next: &mut Vec<u8>) {
        for name in self.pending.iter().rev() {
            next.push(b'/');
            next.extend_from_slice(name);
        }
    }

    fn so_far(&self, depth: usize) -> Vec<u8> {
        let mut path = self.root.canonical.clone();
        if path == b"/" {
            path.clear();
        }
        for name in self.names.iter().take(depth) {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        path
    }

    fn finish(self, name: &[u8]) -> Outcome<Found> {
        let mut path = self.so_far(self.names.len());
        if name != b"." {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        let said = self.said;
        let dir = match self.dir {
            Some(dir) => dir,
            None => rustix::io::fcntl_dupfd_cloexec(&self.root.fd, 0)
                .map_err(|errno| Fail::errno("resolve", said, errno))?,
        };
        let name = CString::new(name).map_err(|_| Fail::invalid("the path contains a NUL byte"))?;
        Ok(Found {
            place: Place { dir, name },
            path,
        })
    }
}
