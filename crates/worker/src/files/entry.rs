//! One entry of the file system, as envd describes it.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd};

use namzu_protocol::filesystem::{EntryInfo, FileType as WireType};
use namzu_protocol::{Timestamp, path_text, permissions};
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::jail::{Jail, Place};
use super::users::Names;

/// Prefix of the extended attributes that hold an upload's metadata.
pub(crate) const METADATA: &[u8] = b"user.e2b.";
/// The most bytes of one entry's metadata that are told.
const MAX_METADATA: usize = 16 << 10;
/// The most bytes of attribute names or of one value that are read.
const MAX_ATTRIBUTES: usize = 64 << 10;

/// Describes a place by the path it was asked for.
pub(crate) fn of_place(jail: &Jail, place: &Place, path: &[u8]) -> rustix::io::Result<EntryInfo> {
    describe(jail, place.dir(), place.name(), path, &mut Names::default())
}

/// Describes a name in an open directory; `path` is its absolute path as the caller knows it.
pub(crate) fn describe(
    jail: &Jail,
    dir: BorrowedFd<'_>,
    name: &CStr,
    path: &[u8],
    names: &mut Names,
) -> rustix::io::Result<EntryInfo> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let last = path
        .rsplit(|byte| *byte == b'/')
        .next()
        .filter(|last| !last.is_empty());
    let is_symlink = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    let mut entry = EntryInfo {
        name: path_text::encode(last.unwrap_or(b"/")),
        r#type: wire_type(&stat).into(),
        path: path_text::encode(path),
        size: stat.st_size,
        mode: stat.st_mode & 0o777,
        permissions: permissions::format(stat.st_mode),
        owner: names.user(stat.st_uid),
        group: names.group(stat.st_gid),
        modified_time: Some(modified(&stat)),
        symlink_target: None,
        metadata: metadata(dir, name),
        is_symlink,
    };
    if is_symlink {
        // What lies outside the roots is told no more than the link itself tells.
        match jail
            .resolved(path)
            .ok()
            .and_then(|(to, place)| Some((to, place.stat().ok()?)))
        {
            Some((to, target)) => {
                entry.r#type = wire_type(&target).into();
                entry.mode = target.st_mode & 0o777;
                entry.symlink_target = Some(path_text::encode(&to));
            }
            None => {
                let text = rustix::fs::readlinkat(dir, name, Vec::new())?;
                entry.symlink_target = Some(path_text::encode(text.as_bytes()));
            }
        }
    }
    Ok(entry)
}

/// About how much memory an entry takes, in bytes.
pub(crate) fn weight(entry: &EntryInfo) -> usize {
    let metadata = entry
        .metadata
        .iter()
        .map(|(key, value)| key.len() + value.len() + 64);
    let target = entry.symlink_target.as_ref().map_or(0, String::len);
    size_of::<EntryInfo>() + entry.name.len() + entry.path.len() + target + metadata.sum::<usize>()
}

fn wire_type(stat: &Stat) -> WireType {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => WireType::File,
        FileType::Directory => WireType::Directory,
        FileType::Symlink => WireType::Symlink,
        _ => WireType::Unspecified,
    }
}

fn modified(stat: &Stat) -> Timestamp {
    Timestamp {
        seconds: stat.st_mtime,
        nanos: i32::try_from(stat.st_mtime_nsec).unwrap_or(0),
    }
    .clamped()
}

/// What was stored with a file. A file system without attributes, or one that hides them, has none.
pub(crate) fn metadata(dir: BorrowedFd<'_>, name: &CStr) -> BTreeMap<String, String> {
    // There is no fd-relative call for attributes; through the descriptor's own name it is one.
    let directory = format!("/proc/self/fd/{}/", dir.as_raw_fd());
    let Ok(path) = CString::new([directory.as_bytes(), name.to_bytes()].concat()) else {
        return BTreeMap::new();
    };
    let read = |attribute: &[u8]| {
        let attribute = CString::new(attribute).ok()?;
        filled(|buffer| rustix::fs::lgetxattr(&path, &attribute, buffer))
    };
    let Some(list) = filled(|buffer| rustix::fs::llistxattr(&path, buffer)) else {
        return BTreeMap::new();
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (mut metadata, mut size) = (BTreeMap::new(), 0);
    for attribute in list.split(|byte| *byte == 0) {
        let Some(key) = attribute.strip_prefix(METADATA) else {
            continue;
        };
        if let Some(value) = read(attribute) {
            size += key.len() + value.len();
            if size > MAX_METADATA {
                break;
            }
            metadata.insert(text(key), text(&value));
        }
    }
    metadata
}

/// What a call puts into a buffer that is made as large as it asks, up to a cap.
fn filled(call: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 256];
    loop {
        match call(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Some(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < MAX_ATTRIBUTES => {
                buffer.resize(buffer.len() * 4, 0);
            }
            Err(_) => return None,
        }
    }
}
