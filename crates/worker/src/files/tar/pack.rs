//! A tree as a tar stream.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::format::{BLOCK, Header, Type, pad, padding, record};
use crate::files::descent::{Descent, Levels};
use crate::files::fail::{Fail, Outcome, show};
use crate::files::jail::{PATH_MAX, Place};
use crate::files::source::{CHUNK, Source};

/// The most bytes of names by which files with several of them are remembered; further ones are
/// sent once a name.
const MAX_LINKS: usize = 4 << 20;
/// The key of the record that names what was left out; other readers of tar pass over it.
const SKIPPED: &str = "NAMZU.skipped";
/// What a remembered name takes beside its bytes.
const LINK_COST: usize = 64;

/// The stream of one directory's content (names relative to it), or of one file.
///
/// Links are kept as links and second names of a file as hard links. Sockets, pipes and devices are left out, each
/// named by a record of a global extended header; so is, without one, what vanishes before its turn. A file that shrinks
/// while it is read ends the stream with an error.
#[derive(Debug)]
pub(crate) struct Pack {
    walk: Option<Walk>,
    file: Option<Reading>,
    links: HashMap<(u64, u64), Vec<u8>>,
    links_cost: usize,
    out: Vec<u8>,
    over: bool,
}

#[derive(Debug)]
struct Walk {
    descent: Descent,
    levels: Levels,
    prefix: Vec<u8>,
}

#[derive(Debug)]
struct Reading {
    file: File,
    left: u64,
    padding: usize,
}

impl Pack {
    /// Opens what a path names.
    pub(crate) fn open(place: &Place, path: &[u8]) -> Outcome<Self> {
        let failed = |errno| Fail::errno("pack", path, errno);
        let mut pack = Self {
            walk: None,
            file: None,
            links: HashMap::new(),
            links_cost: 0,
            out: Vec::new(),
            over: false,
        };
        let stat = place.stat().map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let descent = Descent::new(place.open_dir().map_err(failed)?).map_err(failed)?;
            let mut levels = Levels::default();
            levels.push(descent.here()).map_err(failed)?;
            pack.walk = Some(Walk {
                descent,
                levels,
                prefix: Vec::new(),
            });
        } else {
            let (fd, stat) = place.open_file().map_err(failed)?;
            pack.begin(fd, &stat, place.name().as_bytes().to_vec());
        }
        Ok(pack)
    }

    fn begin(&mut self, fd: OwnedFd, stat: &Stat, name: Vec<u8>) {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        header(stat, name, Vec::new(), Type::File, size).encode(&mut self.out);
        self.file = Some(Reading {
            file: File::from(fd),
            left: size,
            padding: padding(size),
        });
    }

    /// Appends the next piece to `out`; `false` at the end.
    fn step(&mut self) -> io::Result<bool> {
        if let Some(reading) = &mut self.file {
            let free = CHUNK.saturating_sub(self.out.len()).max(BLOCK);
            let want = usize::try_from(reading.left)
                .unwrap_or(usize::MAX)
                .min(free);
            if want == 0 {
                self.out.resize(self.out.len() + reading.padding, 0);
                self.file = None;
                return Ok(true);
            }
            let at = self.out.len();
            self.out.resize(at + want, 0);
            let read = rustix::io::read(&reading.file, &mut self.out[at..])?;
            self.out.truncate(at + read);
            if read == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "a file shrank while it was packed",
                ));
            }
            reading.left -= read as u64;
            return Ok(true);
        }
        let Some(walk) = &mut self.walk else {
            return Ok(false);
        };
        let Some(next) = walk.levels.next() else {
            return Ok(false);
        };
        let Some((name, _)) = next else {
            walk.levels.pop();
            let cut = walk
                .prefix
                .iter()
                .rev()
                .skip(1)
                .position(|byte| *byte == b'/');
            let keep = cut.map_or(0, |from_end| walk.prefix.len() - 1 - from_end);
            walk.prefix.truncate(keep);
            return Ok(walk.descent.up()?);
        };
        match self.entry(&name) {
            // It went away, or became something else, between being listed and being opened.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NOTDIR) => Ok(true),
            other => other.map(|()| true).map_err(Into::into),
        }
    }

    fn entry(&mut self, name: &CString) -> rustix::io::Result<()> {
        let Some(walk) = &mut self.walk else {
            return Ok(());
        };
        let path = [&walk.prefix, name.as_bytes()].concat();
        if path.len() >= PATH_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        let stat = rustix::fs::statat(walk.descent.here(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                walk.descent.down(name)?;
                walk.levels.push(walk.descent.here())?;
                walk.prefix = [&path[..], b"/"].concat();
                header(&stat, walk.prefix.clone(), Vec::new(), Type::Directory, 0)
                    .encode(&mut self.out);
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(walk.descent.here(), name, Vec::new())?;
                header(&stat, path, target.into_bytes(), Type::Symlink, 0).encode(&mut self.out);
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY
                    | OFlags::NOFOLLOW
                    | OFlags::NONBLOCK
                    | OFlags::NOCTTY
                    | OFlags::CLOEXEC;
                let fd = rustix::fs::openat(walk.descent.here(), name, flags, Mode::empty())?;
                let stat = rustix::fs::fstat(&fd)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    self.skip(&path, &stat);
                    return Ok(());
                }
                if stat.st_nlink > 1 {
                    let id = (stat.st_dev, stat.st_ino);
                    if let Some(first) = self.links.get(&id) {
                        let first = first.clone();
                        header(&stat, path, first, Type::HardLink, 0).encode(&mut self.out);
                        return Ok(());
                    }
                    if self.links_cost < MAX_LINKS {
                        self.links_cost += path.len() + LINK_COST;
                        self.links.insert(id, path.clone());
                    }
                }
                self.begin(fd, &stat, path);
            }
            _ => self.skip(&path, &stat),
        }
        Ok(())
    }

    /// Names what has no content to send.
    fn skip(&mut self, path: &[u8], stat: &Stat) {
        // Some readers take a newline for the end of the record.
        let record = record(SKIPPED, &show(path).replace('\n', "\\n"));
        let size = record.len() as u64;
        let name = b"pax_global_header".to_vec();
        header(stat, name, Vec::new(), Type::PaxGlobal, size).encode(&mut self.out);
        self.out.extend_from_slice(record.as_bytes());
        pad(&mut self.out, size);
    }
}

impl Source for Pack {
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.over && self.out.len() < CHUNK {
            if !self.step()? {
                self.over = true;
                self.out.resize(self.out.len() + 2 * BLOCK, 0);
            }
        }
        let out = std::mem::take(&mut self.out);
        Ok((!out.is_empty()).then(|| out.into()))
    }
}

fn header(stat: &Stat, name: Vec<u8>, link: Vec<u8>, kind: Type, size: u64) -> Header {
    Header {
        name,
        link,
        kind,
        mode: stat.st_mode & 0o7777,
        size,
        mtime: stat.st_mtime,
    }
}
