//! Files inside a sandbox.

use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use namzu_core::{Duplex, Result};
use tokio::io::{AsyncRead, ReadBuf};

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

/// Changes below a directory, until dropped.
#[derive(Debug)]
pub struct Watch {
    _private: (),
}

impl Watch {
    /// The next change; `None` when the worker ended the watch.
    ///
    /// # Errors
    ///
    /// `sandbox_lost`, `protocol_violation`.
    ///
    /// # Cancel safety
    ///
    /// Safe: no event is lost.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>> {
        todo!()
    }
}

/// Bytes of a file or a tar stream, as they come.
pub struct FileReader {
    io: Box<dyn Duplex>,
    len: Option<u64>,
}

impl FileReader {
    /// How many bytes there will be, where the worker said so.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a length announced, not one held"
    )]
    pub const fn len(&self) -> Option<u64> {
        self.len
    }
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl AsyncRead for FileReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

/// File calls of one sandbox. Paths are absolute, or relative to the workspace.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    _worker: PhantomData<&'a ()>,
}

impl Files<'_> {
    /// Reads a whole file of at most `cap` bytes.
    ///
    /// # Errors
    ///
    /// `invalid_argument` when it is longer than `cap` or a directory, `not_found`,
    /// `path_refused`, `permission_denied`.
    pub async fn read(&self, path: impl AsRef<Path>, cap: usize) -> Result<Vec<u8>> {
        let _ = (path.as_ref(), cap);
        todo!()
    }

    /// Reads the bytes `range` of a file; fewer where it ends earlier.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub async fn read_range(&self, path: impl AsRef<Path>, range: Range<u64>) -> Result<Vec<u8>> {
        let _ = (path.as_ref(), range);
        todo!()
    }

    /// Opens a file for reading piece by piece.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub async fn reader(&self, path: impl AsRef<Path>) -> Result<FileReader> {
        let _ = path.as_ref();
        todo!()
    }

    /// Writes a file, made with its parents if absent, cut to the new content otherwise.
    ///
    /// # Errors
    ///
    /// `disk_full`, `path_refused`, `permission_denied`, `invalid_argument` for a directory.
    pub async fn write(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<()> {
        let _ = (path.as_ref(), bytes.as_ref());
        todo!()
    }

    /// Writes a file from a stream and gives back how many bytes it was.
    ///
    /// # Errors
    ///
    /// As [`Self::write`]; `internal` with the cause when `source` fails.
    ///
    /// # Cancel safety
    ///
    /// A part may have been written.
    pub async fn write_from(
        &self,
        path: impl AsRef<Path>,
        source: impl AsyncRead + Send + Unpin,
    ) -> Result<u64> {
        let _ = (path.as_ref(), source);
        todo!()
    }

    /// Describes one entry.
    ///
    /// # Errors
    ///
    /// `not_found`, `path_refused`.
    pub async fn stat(&self, path: impl AsRef<Path>) -> Result<FileInfo> {
        let _ = path.as_ref();
        todo!()
    }

    /// Lists a directory, `depth` levels deep (1: its own entries).
    ///
    /// # Errors
    ///
    /// `not_found`, `invalid_argument` for a file, `path_refused`.
    pub async fn list(&self, path: impl AsRef<Path>, depth: u32) -> Result<Vec<FileInfo>> {
        let _ = (path.as_ref(), depth);
        todo!()
    }

    /// Makes a directory with its parents.
    ///
    /// # Errors
    ///
    /// `already_exists`, `path_refused`.
    pub async fn make_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let _ = path.as_ref();
        todo!()
    }

    /// Moves an entry; parents of the new place are made.
    ///
    /// # Errors
    ///
    /// `not_found`, `path_refused`.
    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let _ = (from.as_ref(), to.as_ref());
        todo!()
    }

    /// Removes an entry with everything below it. Idempotent.
    ///
    /// # Errors
    ///
    /// `path_refused`, `permission_denied`.
    pub async fn remove(&self, path: impl AsRef<Path>) -> Result<()> {
        let _ = path.as_ref();
        todo!()
    }

    /// Watches a directory; returns once changes are seen.
    ///
    /// # Errors
    ///
    /// `not_found`, `invalid_argument` for a file.
    pub async fn watch(&self, path: impl AsRef<Path>, recursive: bool) -> Result<Watch> {
        let _ = (path.as_ref(), recursive);
        todo!()
    }

    /// A file or directory as a tar stream.
    ///
    /// # Errors
    ///
    /// `not_found`, `path_refused`.
    pub async fn tar_out(&self, path: impl AsRef<Path>) -> Result<FileReader> {
        let _ = path.as_ref();
        todo!()
    }

    /// Unpacks a tar stream below a directory and gives back how many bytes the stream was.
    ///
    /// # Errors
    ///
    /// `invalid_argument` for a broken stream, `path_refused` for an entry that leaves `path`,
    /// `disk_full`.
    pub async fn tar_in(
        &self,
        path: impl AsRef<Path>,
        source: impl AsyncRead + Send + Unpin,
    ) -> Result<u64> {
        let _ = (path.as_ref(), source);
        todo!()
    }
}
