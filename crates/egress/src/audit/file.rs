//! Audit lines in a file.

mod rotate;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use self::rotate::{Rotation, before};
use super::AuditSink;
use crate::lock::locked;

/// Appends audit lines to a file, which is made (for its owner only) if there is none. It is not synced: a
/// crash of the machine may lose the last lines, one of this process does not.
#[derive(Debug)]
pub struct AuditFile {
    path: PathBuf,
    file: Mutex<File>,
    rotation: Option<Rotation>,
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
        let path = path.as_ref();
        let file = options().create(true).open(path)?;
        // Two chains in one file would be none.
        file.try_lock().map_err(io::Error::from)?;
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(file),
            rotation: None,
        })
    }

    /// Goes on in another file before this one has more than `size` bytes. It is then called `.1`, the one
    /// before it `.2`, and so on to `.keep`; what was that is deleted. The chain goes on from file to file.
    ///
    /// All files together have at most `size` bytes times one more than `keep`, but that each may have one
    /// line, however long.
    #[must_use]
    pub fn rotate(mut self, size: u64, keep: NonZeroU32) -> Self {
        self.rotation = Some(Rotation { size, keep });
        self
    }

    /// The last line of a file, of which what broke off is taken out.
    fn last_of(path: &Path, file: &mut File) -> io::Result<Option<Vec<u8>>> {
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
                format!("`{}` is no audit log", path.display()),
            ));
        };
        if end + 1 < tail.len() {
            // Cut short by a crash in the middle of a write, so it was never acknowledged.
            tracing::warn!(path = %path.display(), "the audit log broke off in a line, which is taken out");
            file.set_len(from + end as u64 + 1)?;
        }
        let start = tail[..end].iter().rposition(|byte| *byte == b'\n');
        Ok(Some(tail[start.map_or(0, |at| at + 1)..end].to_vec()))
    }
}

impl AuditSink for AuditFile {
    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut file = locked(&self.file);
        let mut length = file.metadata()?.len();
        let mut whole = Vec::with_capacity(line.len() + 1);
        whole.extend_from_slice(line);
        whole.push(b'\n');
        if let Some(rotation) = self.rotation
            && rotation.is_full(length, u64::try_from(whole.len()).unwrap_or(u64::MAX))
        {
            *file = rotation.next(&self.path)?;
            length = 0;
        }
        file.write_all(&whole).inspect_err(|_| {
            // A full disk takes a part of a line. What cannot be taken back is, when the log is opened again.
            let _ = file.set_len(length);
        })
    }

    fn last(&self) -> io::Result<Option<Vec<u8>>> {
        let last = Self::last_of(&self.path, &mut locked(&self.file))?;
        if last.is_some() {
            return Ok(last);
        }
        // It ended when it had begun another file and written nothing to it.
        let full = before(&self.path, 1);
        let mut file = match options().open(&full) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        // Whoever holds it is about to give this one's name to another.
        file.try_lock().map_err(io::Error::from)?;
        Self::last_of(&full, &mut file)
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests;
