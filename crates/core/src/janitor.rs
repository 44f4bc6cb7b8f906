//! Has things removed that this process cannot remove itself, because it was killed.

use std::ffi::OsStr;
use std::io::{self, PipeWriter, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::process::Child;

use crate::spawn::{Setup, command, prepare};

/// A process beside this one that removes every guarded path once this one is gone.
///
/// It ends by itself when the last handle is dropped, or when this process dies.
#[derive(Debug)]
pub struct Janitor {
    records: PipeWriter,
    // Reaped by tokio once it ends.
    _process: Child,
}

/// A path in the janitor's care.
#[derive(Debug)]
pub struct InCare {
    janitor: Arc<Janitor>,
    path: PathBuf,
}

impl Janitor {
    /// Starts `worker`, a file holding the worker, as a janitor.
    ///
    /// # Errors
    ///
    /// Those of `pipe` and of starting a process.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O.
    pub fn start(worker: &OwnedFd) -> io::Result<Arc<Self>> {
        let (input, records) = io::pipe()?;
        let mut janitor = command(format!("/proc/self/fd/{}", worker.as_raw_fd()));
        janitor
            .arg("janitor")
            .current_dir("/")
            .stdin(input)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .kill_on_drop(false);
        prepare(
            &mut janitor,
            Setup {
                session: true,
                ..Setup::default()
            },
        );
        Ok(Arc::new(Self {
            records,
            _process: janitor.spawn()?,
        }))
    }

    /// Has `path` removed after the death of this process, unless [`InCare::release`]d before.
    ///
    /// # Errors
    ///
    /// When the janitor is gone.
    pub fn guard(self: &Arc<Self>, path: impl Into<PathBuf>) -> io::Result<InCare> {
        let path = path.into();
        self.write(b'+', &path)?;
        Ok(InCare {
            janitor: Arc::clone(self),
            path,
        })
    }

    fn write(&self, sign: u8, path: &Path) -> io::Result<()> {
        let path: &OsStr = path.as_os_str();
        // In one piece: other threads write too, and a pipe keeps a short write together.
        let mut record = Vec::with_capacity(path.len() + 2);
        record.push(sign);
        record.extend_from_slice(path.as_bytes());
        record.push(0);
        (&self.records).write_all(&record)
    }
}

impl InCare {
    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has the path removed now, without waiting for it.
    pub fn remove(self) {
        // A janitor that is gone removes nothing; the next sweep does.
        let _ = self.janitor.write(b'!', &self.path);
    }

    /// Takes the path back: it has been removed, or is to stay.
    pub fn release(self) {
        // A janitor that is gone removes nothing either.
        let _ = self.janitor.write(b'-', &self.path);
    }
}
