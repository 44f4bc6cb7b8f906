//! What file calls give back.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use namzu_protocol::Timestamp;
use namzu_protocol::filesystem::{EntryInfo, EventType, FileType, FilesystemEvent};
use namzu_protocol::path_text::{self, InvalidPathText};

/// What a directory entry is. A symlink is what it leads to, with [`FileInfo::link`] set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink that leads nowhere.
    Symlink,
    /// A device, socket or pipe.
    Other,
}

/// One directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Absolute path inside.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner's name or number.
    pub owner: String,
    /// Group's name or number.
    pub group: String,
    /// Last change of its content.
    pub modified: Option<SystemTime>,
    /// Where it leads, for a symlink.
    pub link: Option<PathBuf>,
}

/// What happened to a watched file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchKind {
    /// Made.
    Create,
    /// Written to.
    Write,
    /// Removed.
    Remove,
    /// Renamed.
    Rename,
    /// Its mode changed.
    Chmod,
}

/// One change below a watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// Path relative to the watched directory.
    pub path: PathBuf,
    /// What happened.
    pub kind: WatchKind,
}

impl FileInfo {
    pub(super) fn from_wire(entry: EntryInfo) -> Result<Self, InvalidPathText> {
        Ok(Self {
            kind: match FileType::try_from(entry.r#type) {
                Ok(FileType::File) => FileKind::File,
                Ok(FileType::Directory) => FileKind::Directory,
                Ok(FileType::Symlink) => FileKind::Symlink,
                Ok(FileType::Unspecified) | Err(_) => FileKind::Other,
            },
            path: path(&entry.path)?,
            size: u64::try_from(entry.size).unwrap_or(0),
            mode: entry.mode & 0o7777,
            owner: entry.owner,
            group: entry.group,
            modified: entry.modified_time.and_then(time),
            link: entry.symlink_target.as_deref().map(path).transpose()?,
        })
    }
}

/// A path off the wire, whatever bytes it is made of.
fn path(text: &str) -> Result<PathBuf, InvalidPathText> {
    let bytes = path_text::decode(text.as_bytes())?;
    Ok(OsString::from_vec(bytes).into())
}

/// A moment that this host's clock can hold.
fn time(stamp: Timestamp) -> Option<SystemTime> {
    let nanos = Duration::from_nanos(u64::try_from(stamp.nanos).ok()?);
    let whole = Duration::from_secs(stamp.seconds.unsigned_abs());
    let base = if stamp.seconds < 0 {
        UNIX_EPOCH.checked_sub(whole)?
    } else {
        UNIX_EPOCH.checked_add(whole)?
    };
    base.checked_add(nanos)
}

impl WatchEvent {
    /// `None` for a kind of change that we do not know.
    pub(super) fn from_wire(event: &FilesystemEvent) -> Result<Option<Self>, InvalidPathText> {
        let kind = match EventType::try_from(event.r#type) {
            Ok(EventType::Create) => WatchKind::Create,
            Ok(EventType::Write) => WatchKind::Write,
            Ok(EventType::Remove) => WatchKind::Remove,
            Ok(EventType::Rename) => WatchKind::Rename,
            Ok(EventType::Chmod) => WatchKind::Chmod,
            Ok(EventType::Unspecified) | Err(_) => return Ok(None),
        };
        Ok(Some(Self {
            path: path(&event.name)?,
            kind,
        }))
    }
}
