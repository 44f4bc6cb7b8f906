//! Unpacks a hostile tar stream below a directory of the host.
//!
//! The stream comes from a sandbox, and the sandbox may hold the very directory that is written
//! to. So nothing is resolved by path: every component is opened below the one before without
//! following links, every file is made anew, and whatever could reach outside is refused.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use namzu_sandbox::{Error, ErrorCode};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use tar::{Archive, EntryType, PaxExtensions};

use super::depth::{MAX_DEPTH, too_deep};
use super::sparse::Sparse;
use crate::failure::local;
use crate::host_path::Fresh;

/// Longest extended header: names and links fit many times.
const MAX_EXTENDED: u64 = 64 << 10;

/// Longest path; the kernel's own limit.
const MAX_PATH: usize = 4096;

/// Refusals that are named; the rest is counted.
const MAX_NAMED: usize = 20;

/// The key of a record in which the worker names what it left out.
const SKIPPED: &[u8] = b"NAMZU.skipped";

/// Entries of one stream: each costs the host an inode.
const MAX_ENTRIES: u64 = 4 << 20;

/// Bytes copied at a time.
const CHUNK: usize = 256 << 10;

/// What a stream may do at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of all files together.
    pub(crate) bytes: u64,
}

/// What was done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Bytes of all files together.
    pub(crate) bytes: u64,
    /// Entries that were not made.
    pub(crate) refused: u64,
    /// The first of them, with the reason.
    pub(crate) reasons: Vec<String>,
}

impl Unpacked {
    fn refuse(&mut self, name: &[u8], why: &str) {
        self.refused += 1;
        if self.reasons.len() < MAX_NAMED {
            let name = String::from_utf8_lossy(&name[..name.len().min(256)]).into_owned();
            self.reasons.push(format!("`{name}`: {why}"));
        }
    }
}

/// Why one entry was not made.
enum Refusal {
    /// It reaches outside, or is something that has no place on the host.
    Entry(String),
    /// The host cannot go on.
    Stop(Error),
}

impl From<Error> for Refusal {
    fn from(err: Error) -> Self {
        Self::Stop(err)
    }
}

type Outcome<T = ()> = Result<T, Refusal>;

/// Unpacks `source` below `root`, a directory.
///
/// # Errors
///
/// `protocol_violation` for a broken stream, `disk_full`, `invalid_argument` past `limits`.
/// Entries that are refused are no error: see [`Unpacked::refused`].
pub(crate) fn unpack(
    source: impl Read,
    root: BorrowedFd<'_>,
    limits: Limits,
) -> Result<Unpacked, Error> {
    let mut archive = Archive::new(source);
    let mut done = Unpacked::default();
    let mut next = Extended::default();
    let mut chunk = vec![0; CHUNK];
    // Raw: the extended headers are read here, because their length needs a cap.
    for (count, entry) in archive.entries().map_err(broken)?.raw(true).enumerate() {
        if count as u64 >= MAX_ENTRIES {
            return Err(Error::new(
                ErrorCode::InvalidArgument,
                format!("unpacking: more than {MAX_ENTRIES} entries"),
            ));
        }
        let mut entry = entry.map_err(broken)?;
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            left_out(&capped(&mut entry)?, &mut done)?;
            continue;
        }
        if next.read(kind, &mut entry)? {
            continue;
        }
        let extended = std::mem::take(&mut next);
        let name = extended
            .name
            .unwrap_or_else(|| entry.path_bytes().into_owned());
        let link = extended
            .link
            .or_else(|| entry.link_name_bytes().map(std::borrow::Cow::into_owned));
        let size = entry.size();
        if extended.size.is_some_and(|stated| stated != size) {
            return Err(violation("an entry states two sizes"));
        }
        let mode = entry.header().mode().map_err(broken)?;
        let made = Entry {
            root,
            name: &name,
            mode,
        }
        .make(kind, link.as_deref(), |file| {
            if size > limits.bytes.saturating_sub(done.bytes) {
                return Err(too_much(limits.bytes));
            }
            copy(&mut entry, file, &mut chunk)?;
            done.bytes += size;
            Ok(())
        });
        match made {
            Ok(()) => {}
            Err(Refusal::Stop(err)) => return Err(err),
            Err(Refusal::Entry(why)) => {
                done.refuse(&name, &why);
            }
        }
    }
    Ok(done)
}

/// Takes from a global header what the worker left out; nothing else in one matters here.
fn left_out(records: &[u8], done: &mut Unpacked) -> Result<(), Error> {
    for record in PaxExtensions::new(records) {
        let record = record.map_err(broken)?;
        if record.key_bytes() == SKIPPED {
            done.refuse(record.value_bytes(), "it is a pipe, a socket or a device");
        }
    }
    Ok(())
}

/// What extended headers say about the entry after them.
#[derive(Default)]
struct Extended {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Extended {
    /// Takes in `entry` if it is an extended header, and says whether it was.
    fn read(
        &mut self,
        kind: EntryType,
        entry: &mut tar::Entry<'_, impl Read>,
    ) -> Result<bool, Error> {
        match kind {
            EntryType::GNULongName => self.name = Some(without_nul(capped(entry)?)),
            EntryType::GNULongLink => self.link = Some(without_nul(capped(entry)?)),
            EntryType::XHeader => {
                let bytes = capped(entry)?;
                for record in PaxExtensions::new(&bytes) {
                    let record = record.map_err(broken)?;
                    match record.key_bytes() {
                        b"path" => self.name = Some(record.value_bytes().to_vec()),
                        b"linkpath" => self.link = Some(record.value_bytes().to_vec()),
                        b"size" => {
                            let size = record.value().ok().and_then(|text| text.parse().ok());
                            self.size = Some(size.ok_or_else(|| violation("a size is no number"))?);
                        }
                        key if key.starts_with(b"GNU.sparse.") => {
                            return Err(violation("an entry is sparse"));
                        }
                        _ => {}
                    }
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// One entry on its way to the host.
struct Entry<'a> {
    root: BorrowedFd<'a>,
    name: &'a [u8],
    mode: u32,
}

impl Entry<'_> {
    fn make(
        &self,
        kind: EntryType,
        link: Option<&[u8]>,
        fill: impl FnOnce(&mut File) -> Result<(), Error>,
    ) -> Outcome {
        let mut parts = components(self.name)?;
        if parts.len() > MAX_DEPTH + 1 {
            return Err(too_deep("unpacking", self.name).into());
        }
        match kind {
            EntryType::Directory => self.directory(parts),
            EntryType::Regular | EntryType::Continuous => {
                if self.mode & 0o6000 != 0 {
                    return refuse("it is set-user-id or set-group-id");
                }
                let name = last(&mut parts)?;
                let parent = self.open(&parts)?;
                self.file(parent, name, fill)
            }
            EntryType::Symlink => {
                let name = last(&mut parts)?;
                let target = link.unwrap_or_default();
                check_target(target, parts.len())?;
                let parent = self.open(&parts)?;
                clear(parent.as_fd(), name)?;
                rustix::fs::symlinkat(OsStr::from_bytes(target), &parent, OsStr::from_bytes(name))
                    .map_err(|errno| host("making a symlink", errno))
            }
            EntryType::Link => {
                let name = last(&mut parts)?;
                let mut target = components(link.unwrap_or_default())?;
                let target_name = last(&mut target)?;
                self.hard_link(&parts, name, &target, target_name)
            }
            EntryType::Block | EntryType::Char => refuse("it is a device"),
            EntryType::Fifo => refuse("it is a named pipe"),
            _ => refuse("it is of an unknown kind"),
        }
    }

    fn directory(&self, mut parts: VecDeque<&[u8]>) -> Outcome {
        // `.` is the root itself.
        if parts.is_empty() {
            return Ok(());
        }
        let name = last(&mut parts)?;
        let parent = self.open(&parts)?;
        // The owner keeps every right, so that what follows can be written and all of it removed.
        // Set-group-id on a directory hands its group on, so it has no place here either.
        let mode = Mode::from_raw_mode((self.mode & 0o777) | 0o700);
        match rustix::fs::mkdirat(&parent, OsStr::from_bytes(name), mode) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => step(parent.as_fd(), name).map(drop).map_err(in_the_way),
            Err(errno) => Err(host("making a directory", errno)),
        }
    }

    /// Makes a file that takes its name when it is whole.
    fn file(
        &self,
        parent: OwnedFd,
        name: &[u8],
        fill: impl FnOnce(&mut File) -> Result<(), Error>,
    ) -> Outcome {
        let mut file =
            Fresh::new(parent, self.mode).map_err(|errno| host("making a file", errno))?;
        fill(file.file())?;
        match file.name(OsStr::from_bytes(name)) {
            Err(Errno::ISDIR) => refuse("a directory is in the way"),
            named => named.map_err(|errno| host("naming a file", errno)),
        }
    }

    fn hard_link(
        &self,
        parts: &VecDeque<&[u8]>,
        name: &[u8],
        target: &VecDeque<&[u8]>,
        target_name: &[u8],
    ) -> Outcome {
        let from = self.open(target)?;
        let parent = self.open(parts)?;
        let target_name = OsStr::from_bytes(target_name);
        let stat = rustix::fs::statat(&from, target_name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| host("looking at the target of a hard link", errno))?;
        // A symlink that moves up by a link of its own name would lead out.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return refuse("it is a hard link to something other than a file");
        }
        clear(parent.as_fd(), name)?;
        rustix::fs::linkat(
            &from,
            target_name,
            &parent,
            OsStr::from_bytes(name),
            AtFlags::empty(),
        )
        .map_err(|errno| host("making a hard link", errno))
    }

    /// Opens a directory below the root, making what is missing, through real directories only.
    fn open(&self, parts: &VecDeque<&[u8]>) -> Outcome<OwnedFd> {
        let mut here = self
            .root
            .try_clone_to_owned()
            .map_err(|err| local("unpacking", err))?;
        for name in parts {
            let below = match step(here.as_fd(), name) {
                Err(Errno::NOENT) => {
                    let mode = Mode::from_raw_mode(0o755);
                    match rustix::fs::mkdirat(&here, OsStr::from_bytes(name), mode) {
                        Ok(()) | Err(Errno::EXIST) => step(here.as_fd(), name),
                        Err(errno) => return Err(host("making a directory", errno)),
                    }
                }
                opened => opened,
            };
            here = below.map_err(in_the_way)?;
        }
        Ok(here)
    }
}

/// Opens the directory `name` in `parent`; a symlink is not followed.
fn step(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, OsStr::from_bytes(name), flags, Mode::empty())
}

fn in_the_way(errno: Errno) -> Refusal {
    match errno {
        Errno::LOOP | Errno::NOTDIR => {
            Refusal::Entry("something other than a directory is in the way".to_owned())
        }
        errno => host("opening a directory", errno),
    }
}

/// Removes what is called `name`, unless it is a directory.
fn clear(parent: BorrowedFd<'_>, name: &[u8]) -> Outcome {
    match rustix::fs::unlinkat(parent, OsStr::from_bytes(name), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => refuse("a directory is in the way"),
        Err(errno) => Err(host("replacing a file", errno)),
    }
}

/// The components of a path that stays where it is unpacked.
fn components(path: &[u8]) -> Outcome<VecDeque<&[u8]>> {
    if path.len() > MAX_PATH {
        return refuse("its path is too long");
    }
    if path.starts_with(b"/") {
        return refuse("its path is absolute");
    }
    let mut parts = VecDeque::new();
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return refuse("its path has `..`"),
            _ if part.contains(&0) => return refuse("its path has a NUL"),
            _ => parts.push_back(part),
        }
    }
    Ok(parts)
}

fn last<'a>(parts: &mut VecDeque<&'a [u8]>) -> Outcome<&'a [u8]> {
    parts
        .pop_back()
        .ok_or_else(|| Refusal::Entry("it has no name".to_owned()))
}

/// Refuses a symlink, `depth` directories below the root, that leads out.
fn check_target(target: &[u8], depth: usize) -> Outcome {
    if target.is_empty() || target.len() > MAX_PATH || target.contains(&0) {
        return refuse("it is a symlink without a usable target");
    }
    if target.starts_with(b"/") {
        return refuse("it is a symlink to an absolute path");
    }
    let (mut up, mut down) = (0, false);
    for part in target.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            // After a name, `..` leaves from wherever that name leads: another symlink can make
            // that a higher place than it looks.
            b".." if down => return refuse("it is a symlink that goes down and up again"),
            b".." => up += 1,
            _ => down = true,
        }
    }
    if up > depth {
        return refuse("it is a symlink that leads out");
    }
    Ok(())
}

/// Reads an extended header, if it is of a sane length.
fn capped(entry: &mut tar::Entry<'_, impl Read>) -> Result<Vec<u8>, Error> {
    if entry.size() > MAX_EXTENDED {
        return Err(violation("an extended header is too long"));
    }
    let mut bytes = Vec::new();
    entry
        .take(MAX_EXTENDED)
        .read_to_end(&mut bytes)
        .map_err(broken)?;
    Ok(bytes)
}

fn without_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|b| *b == 0) {
        bytes.truncate(end);
    }
    bytes
}

/// Copies the rest of `entry` to `file`, telling a broken stream from a full disk.
fn copy(
    entry: &mut tar::Entry<'_, impl Read>,
    file: &mut File,
    chunk: &mut [u8],
) -> Result<(), Error> {
    let size = entry.size();
    let failed = |err| local("writing a file", err);
    let mut sparse = Sparse::new(file);
    let mut copied = 0;
    loop {
        match entry.read(chunk) {
            Ok(0) if copied < size => return Err(violation("the stream ends in a file")),
            Ok(0) => return sparse.finish().map_err(failed),
            Ok(len) => {
                sparse.write(&chunk[..len]).map_err(failed)?;
                copied += len as u64;
            }
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(broken(err)),
        }
    }
}

fn refuse<T>(why: &str) -> Outcome<T> {
    Err(Refusal::Entry(why.to_owned()))
}

/// What the host said: about this entry, or about everything that is to come.
fn host(what: &str, errno: Errno) -> Refusal {
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::IO | Errno::MFILE | Errno::NFILE => {
            Refusal::Stop(local(what, errno))
        }
        _ => Refusal::Entry(format!("{what}: {}", io::Error::from(errno))),
    }
}

/// The sandbox's own failure where there is one, a stream that is none otherwise.
fn broken(err: io::Error) -> Error {
    match err.downcast::<Error>() {
        Ok(err) => err,
        Err(err) => violation("reading a tar stream").with_source(err),
    }
}

fn violation(what: &str) -> Error {
    Error::new(ErrorCode::ProtocolViolation, format!("unpacking: {what}"))
}

fn too_much(limit: u64) -> Error {
    Error::new(
        ErrorCode::InvalidArgument,
        format!("unpacking: more than {limit} bytes"),
    )
    .with_hint("--max-size allows more")
}

#[cfg(test)]
mod tests;
