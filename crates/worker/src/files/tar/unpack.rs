//! A tar stream as a tree.

use std::ffi::CString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::format::{Header, Type};
use super::parse::{Event, Parser};
use crate::files::fail::{Fail, Kind, Outcome, show};
use crate::files::jail::{Access, Jail, Last, Parents, Place};
use crate::files::sink::Sink;

/// The most directories whose mode has to wait until everything is in them.
const MAX_CLOSED: usize = 1 << 16;
const SET_ID: u32 = 0o6000;

/// Unpacks below one directory, which is a jail of its own.
///
/// Files replace files; nothing is written through a link at the end of a name, and links on the way are followed only
/// as far as they stay below. Absolute names, `..`, devices, pipes, and set-user or set-group bits are refused. Files
/// belong to the worker's user; modes and the files' times are kept.
#[derive(Debug)]
pub(crate) struct Unpack {
    parser: Parser,
    below: Below,
}

#[derive(Debug)]
struct Below {
    jail: Jail,
    /// Where the directory really is.
    top: Vec<u8>,
    file: Option<Writing>,
    /// Directories that their owner may not write, and their modes.
    closed: Vec<(Vec<u8>, u32)>,
}

#[derive(Debug)]
struct Writing {
    file: File,
    path: Vec<u8>,
    mode: u32,
    mtime: i64,
}

impl Unpack {
    /// Unpacks below an open directory, which really is at `top`.
    pub(crate) fn below(dir: OwnedFd, top: Vec<u8>) -> Self {
        let jail = Jail::of(dir, top.clone());
        let below = Below {
            jail,
            top,
            file: None,
            closed: Vec::new(),
        };
        Self {
            parser: Parser::default(),
            below,
        }
    }

    /// The stream is over: checks that it was complete and closes the directories.
    pub(crate) fn finish(mut self) -> Outcome<()> {
        self.parser.finish()?;
        while let Some((path, mode)) = self.below.closed.pop() {
            let failed = |errno| Fail::errno("unpack", &path, errno);
            let place =
                self.below
                    .jail
                    .place(&path, Access::Write, Last::Keep, Parents::Required)?;
            let dir = place.open_dir().map_err(failed)?;
            rustix::fs::fchmod(&dir, Mode::from_raw_mode(mode)).map_err(failed)?;
        }
        Ok(())
    }
}

impl Sink for Unpack {
    fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        let below = &mut self.below;
        self.parser.push(bytes, &mut |event| match event {
            Event::Entry(header) => below.entry(&header),
            Event::Data(data) => below.data(data),
            Event::End => below.end(),
        })
    }
}

impl Below {
    fn entry(&mut self, header: &Header) -> Outcome<()> {
        let path = self.inside(&header.name)?;
        if let Type::Other(kind) = header.kind {
            let what = match kind {
                b'3' | b'4' => "devices are not unpacked",
                b'6' => "pipes are not unpacked",
                b'S' => "sparse tar entries are not unpacked",
                _ => "this kind of tar entry is not unpacked",
            };
            return Err(Fail::invalid(format!("'{}': {what}", show(&header.name))));
        }
        if matches!(header.kind, Type::File | Type::Directory) && header.mode & SET_ID != 0 {
            let name = show(&header.name);
            return Err(Fail::invalid(format!(
                "'{name}': set-user and set-group bits are not unpacked"
            )));
        }
        if path.len() == self.top.len() {
            // The directory itself keeps what it has.
            return match header.kind {
                Type::Directory => Ok(()),
                _ => Err(Fail::invalid("a tar entry has no name")),
            };
        }
        let place = self
            .jail
            .place(&path, Access::Write, Last::Keep, Parents::Made)?;
        let failed = |errno| Fail::errno("unpack", &header.name, errno);
        match header.kind {
            Type::Directory => self.directory(&place, path, header.mode).map_err(failed),
            Type::Symlink => replace(&place, || {
                rustix::fs::symlinkat(c_text(&header.link)?.as_c_str(), place.dir(), place.name())
            })
            .map_err(failed),
            Type::HardLink => {
                let first = self.inside(&header.link)?;
                let first =
                    self.jail
                        .place(&first, Access::Write, Last::Keep, Parents::Required)?;
                hard_link(&first, &place).map_err(failed)
            }
            _ => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
                let fd = replace(&place, || place.open(flags, Mode::from_raw_mode(0o600)));
                self.file = Some(Writing {
                    file: File::from(fd.map_err(failed)?),
                    path,
                    mode: header.mode,
                    mtime: header.mtime,
                });
                Ok(())
            }
        }
    }

    /// The absolute path that a name of the stream means.
    fn inside(&self, name: &[u8]) -> Outcome<Vec<u8>> {
        let bad = |why: &str| Err(Fail::refused(name, why));
        if name.first() == Some(&b'/') {
            return bad("is absolute");
        }
        let mut path = self.top.clone();
        for component in name.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => return bad("leaves the directory"),
                _ => {
                    path.push(b'/');
                    path.extend_from_slice(component);
                }
            }
        }
        Ok(path)
    }

    fn directory(&mut self, place: &Place, path: Vec<u8>, mode: u32) -> rustix::io::Result<()> {
        let made = rustix::fs::mkdirat(place.dir(), place.name(), Mode::RWXU);
        match made {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                let stat = place.stat()?;
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => {}
                    // A link to a directory stays what it is; whether it may be used is asked of each entry.
                    FileType::Symlink => return Ok(()),
                    _ => return Err(Errno::EXIST),
                }
            }
            Err(errno) => return Err(errno),
        }
        if mode & 0o300 == 0o300 {
            return rustix::fs::fchmod(place.open_dir()?, Mode::from_raw_mode(mode));
        }
        if self.closed.len() >= MAX_CLOSED {
            return Err(Errno::NOMEM);
        }
        self.closed.push((path, mode));
        Ok(())
    }

    fn data(&mut self, data: &[u8]) -> Outcome<()> {
        let Some(writing) = &mut self.file else {
            return Err(Fail::new(Kind::Internal, "content without a file"));
        };
        let written = writing.file.write_all(data);
        written.map_err(|error| crate::files::fail::io("write", &writing.path, &error))
    }

    fn end(&mut self) -> Outcome<()> {
        let Some(writing) = self.file.take() else {
            return Ok(());
        };
        let failed = |errno| Fail::errno("unpack", &writing.path, errno);
        rustix::fs::fchmod(&writing.file, Mode::from_raw_mode(writing.mode)).map_err(failed)?;
        let time = Timespec {
            tv_sec: writing.mtime,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        rustix::fs::futimens(&writing.file, &times).map_err(failed)
    }
}

/// Makes something under a name; what is there and no directory gives way.
fn replace<T>(place: &Place, make: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    match make() {
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(place.dir(), place.name(), AtFlags::empty())?;
            make()
        }
        other => other,
    }
}

/// A second name for a regular file that is below already.
fn hard_link(first: &Place, second: &Place) -> rustix::io::Result<()> {
    let one = first.stat()?;
    if FileType::from_raw_mode(one.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    if second
        .stat()
        .is_ok_and(|two| (two.st_dev, two.st_ino) == (one.st_dev, one.st_ino))
    {
        return Ok(());
    }
    replace(second, || {
        rustix::fs::linkat(
            first.dir(),
            first.name(),
            second.dir(),
            second.name(),
            AtFlags::empty(),
        )
    })
}

fn c_text(text: &[u8]) -> rustix::io::Result<CString> {
    CString::new(text).map_err(|_| Errno::INVAL)
}
