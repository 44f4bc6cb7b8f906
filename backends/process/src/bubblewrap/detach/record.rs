//! What is written down of a sandbox that may outlive its maker.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use namzu_core::owner::ProcessName;
use namzu_types::Controls;
use serde::{Deserialize, Serialize};

const FILE: &str = "sandbox.json";

/// The largest that is written, or read.
const MAX: usize = 256 << 10;

/// `sandbox.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// PID 1 of the sandbox; its maker while it is being made.
    pub(super) process: ProcessName,
    pub(super) made: bool,
    pub(super) created_unix_ms: u64,
    pub(super) expires_unix_ms: Option<u64>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) egress: Option<String>,
    pub(super) controls: Controls,
    pub(super) cgroups: Vec<PathBuf>,
}

/// What is found under a name.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    /// A directory without a record that can be read. One that is being made never looks like this:
    /// it gets its name when it is complete.
    Rubbish,
    Record(Box<Record>),
}

impl Record {
    /// Reads that of the directory `dir`.
    pub(super) fn read(dir: &Path) -> io::Result<Found> {
        match read_capped(&dir.join(FILE)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).map_or(Found::Rubbish, Found::Record)),
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                Ok(match fs::symlink_metadata(dir) {
                    Ok(_) => Found::Rubbish,
                    Err(_) => Found::Nothing,
                })
            }
            // Something else by either name.
            Err(err)
                if matches!(
                    err.kind(),
                    io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(Found::Rubbish)
            }
            Err(err) => Err(err),
        }
    }

    /// Writes it in place of what is there.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self)?;
        if bytes.len() > MAX {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "its labels are too long",
            ));
        }
        let temporary = dir.join("sandbox.json.new");
        match fs::remove_file(&temporary) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
            _ => {}
        }
        write_new(&temporary, &bytes)?;
        fs::rename(temporary, dir.join(FILE))
    }
}

pub(super) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .write_all(bytes)
}

pub(super) fn read_capped(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn unix_ms(time: SystemTime) -> u64 {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn from_unix_ms(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_millis(ms))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
