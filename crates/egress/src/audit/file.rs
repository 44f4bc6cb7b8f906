//! Audit lines in a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::AuditSink;
use crate::lock::locked;

/// Appends audit lines to a file, which is made (for its owner only) if there is none. It is not synced: a
/// crash of the machine may lose the last lines, one of this process does not.
#[derive(Debug)]
pub struct AuditFile {
    path: PathBuf,
    file: Mutex<File>,
}

/// More than any line has.
const TAIL: u64 = 1 << 20;

impl AuditFile {
    /// Opens it. One process writes to it at a time.
    ///
    /// # Errors
    ///
    /// Those of the file system; `WouldBlock` when another process has it.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)?;
        // Two chains in one file would be none.
        file.try_lock().map_err(io::Error::from)?;
        Ok(Self {
            path: path.as_ref().to_owned(),
            file: Mutex::new(file),
        })
    }
}

impl AuditSink for AuditFile {
    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut file = locked(&self.file);
        let length = file.metadata()?.len();
        let mut whole = Vec::with_capacity(line.len() + 1);
        whole.extend_from_slice(line);
        whole.push(b'\n');
        file.write_all(&whole).inspect_err(|_| {
            // A full disk takes a part of a line. What cannot be taken back is, when the log is opened again.
            let _ = file.set_len(length);
        })
    }

    fn last(&self) -> io::Result<Option<Vec<u8>>> {
        let mut file = locked(&self.file);
        let length = file.metadata()?.len();
        let from = length.saturating_sub(TAIL);
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        Read::take(&mut *file, TAIL).read_to_end(&mut tail)?;
        let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') else {
            if length == 0 {
                return Ok(None);
            }
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("`{}` is no audit log", self.path.display()),
            ));
        };
        if end + 1 < tail.len() {
            // Cut short by a crash in the middle of a write, so it was never acknowledged.
            tracing::warn!(path = %self.path.display(), "the audit log broke off in a line, which is taken out");
            file.set_len(from + end as u64 + 1)?;
        }
        let start = tail[..end].iter().rposition(|byte| *byte == b'\n');
        Ok(Some(tail[start.map_or(0, |at| at + 1)..end].to_vec()))
    }
}
