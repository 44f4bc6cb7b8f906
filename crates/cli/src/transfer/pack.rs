//! Packs a directory of the host into a tar stream.
//!
//! The sandbox may hold the directory too and swap what lies in it. So nothing is resolved by
//! path: every entry is opened below its directory without following links.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use namzu_sandbox::Error;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};

use super::depth::{MAX_DEPTH, too_deep};
use crate::failure::local;

/// What was left out, and how much was packed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Packed {
    /// Sockets, pipes and devices: they have no content to copy.
    pub(crate) skipped: Vec<String>,
}

/// Packs what is in `root` to `out`, names relative to `root`.
///
/// # Errors
///
/// `not_found` and `permission_denied` for an entry that cannot be read, `invalid_argument` for a
/// tree deeper than 200 levels; `internal` when `out` fails.
pub(crate) fn pack(root: BorrowedFd<'_>, out: impl Write) -> Result<Packed, Error> {
    let mut packer = Packer {
        builder: Builder::new(out),
        packed: Packed::default(),
    };
    packer.directory(root, &mut Vec::new(), 0)?;
    packer
        .builder
        .finish()
        .map_err(|err| local("packing", err))?;
    Ok(packer.packed)
}

struct Packer<W: Write> {
    builder: Builder<W>,
    packed: Packed,
}

impl<W: Write> Packer<W> {
    /// Packs the entries of `dir`, whose path below the root is `path`.
    fn directory(
        &mut self,
        dir: BorrowedFd<'_>,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(too_deep("packing", path));
        }
        let failed = |errno: Errno, path: &[u8]| local(format!("reading {}", shown(path)), errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(dir).map_err(|errno| failed(errno, path))? {
            let entry = entry.map_err(|errno| failed(errno, path))?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort();
        for name in names {
            let before = path.len();
            if before > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            let flags = OFlags::RDONLY
                | OFlags::NOFOLLOW
                | OFlags::CLOEXEC
                // A pipe put in a file's place must not hold us up.
                | OFlags::NONBLOCK;
            match rustix::fs::openat(dir, &name, flags, Mode::empty()) {
                Ok(entry) => self.entry(entry, path, depth)?,
                Err(Errno::LOOP) => self.symlink(dir, OsStr::from_bytes(name.to_bytes()), path)?,
                // A socket, or a device without a driver.
                Err(Errno::NXIO | Errno::NODEV) => self.skip(path),
                // Gone since it was listed: as if it had never been there.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno, path)),
            }
            path.truncate(before);
        }
        Ok(())
    }

    fn entry(&mut self, entry: OwnedFd, path: &mut Vec<u8>, depth: usize) -> Result<(), Error> {
        let file = File::from(entry);
        let meta = file
            .metadata()
            .map_err(|err| local(format!("reading {}", shown(path)), err))?;
        if meta.is_dir() {
            self.append(header(EntryType::Directory, &meta, 0), path, io::empty())?;
            self.directory(file.as_fd(), path, depth + 1)
        } else if meta.is_file() {
            let size = meta.len();
            // The header has stated the size: a file that shrinks is filled up, one that grows cut.
            let body = (&file).take(size).chain(io::repeat(0)).take(size);
            self.append(header(EntryType::Regular, &meta, size), path, body)
        } else {
            self.skip(path);
            Ok(())
        }
    }

    fn symlink(&mut self, dir: BorrowedFd<'_>, name: &OsStr, path: &[u8]) -> Result<(), Error> {
        let target = match rustix::fs::readlinkat(dir, name, Vec::new()) {
            Ok(target) => target,
            Err(Errno::NOENT | Errno::INVAL) => return Ok(()),
            Err(errno) => return Err(local(format!("reading {}", shown(path)), errno)),
        };
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        self.builder
            .append_link(
                &mut header,
                OsStr::from_bytes(path),
                OsStr::from_bytes(target.to_bytes()),
            )
            .map_err(|err| local(format!("packing {}", shown(path)), err))
    }

    fn append(&mut self, mut header: Header, path: &[u8], body: impl Read) -> Result<(), Error> {
        self.builder
            .append_data(&mut header, OsStr::from_bytes(path), body)
            .map_err(|err| local(format!("packing {}", shown(path)), err))
    }

    fn skip(&mut self, path: &[u8]) {
        self.packed.skipped.push(shown(path));
    }
}

/// A header without the host's owner or special bits: neither is the sandbox's concern. When a file
/// was last changed is: tools compare it, and some refuse the epoch.
fn header(kind: EntryType, meta: &Metadata, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(meta.mode() & 0o777);
    header.set_size(size);
    // A time before 1970 has no place in a header.
    header.set_mtime(u64::try_from(meta.mtime()).unwrap_or(0));
    header
}

fn shown(path: &[u8]) -> String {
    format!("`{}`", String::from_utf8_lossy(path))
}

#[cfg(test)]
mod tests;
