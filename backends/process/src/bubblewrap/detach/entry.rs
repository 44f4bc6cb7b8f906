//! The directory of a sandbox that this process makes.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namzu_core::DuplexChannel;
use namzu_core::janitor::{InCare, Janitor};
use namzu_core::owner::ProcessName;
use namzu_types::Secret;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::Pid;
use rustix::rand::{GetRandomFlags, getrandom};

use super::record::{Record, write_new};
use super::remove_dir;
use crate::error::Error;

/// What a directory is called while it is filled, before the label of its maker. No id of a sandbox
/// begins with a dot.
pub(super) const UNFINISHED: &str = ".new-";

/// The directory of a sandbox. Dropping it removes it, unless it was [released](Entry::release).
#[derive(Debug)]
pub(crate) struct Entry {
    path: PathBuf,
    /// Device and inode: another may have the name by now.
    identity: (u64, u64),
    record: Record,
    token: String,
    listener: Option<OwnedFd>,
    care: Option<InCare>,
    goes_with_us: bool,
}

impl Entry {
    /// Makes `state`/`name` with everything in it, all at once.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when the name is taken.
    pub(super) fn make(
        state: &Path,
        name: &str,
        record: Record,
        janitor: &Arc<Janitor>,
    ) -> io::Result<Self> {
        let mut random = [0; 32];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let unfinished = format!("{UNFINISHED}{}-{name}", record.process.label());
        let path = state.join(unfinished);
        let care = janitor.guard(&path)?;
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        // From here on, dropping it removes the directory.
        let mut entry = Self {
            path,
            identity: (0, 0),
            record,
            token,
            listener: None,
            care: Some(care),
            goes_with_us: true,
        };
        let dir = File::open(&entry.path)?;
        let found = dir.metadata()?;
        entry.identity = (found.dev(), found.ino());
        write_new(&entry.path.join("token"), entry.token.as_bytes())?;
        // By descriptor: a path may be longer than an address has room for.
        let socket = format!("/proc/self/fd/{}/socket", dir.as_raw_fd());
        entry.listener = Some(UnixListener::bind(socket)?.into());
        entry.record.write(&entry.path)?;

        let finished = state.join(name);
        renameat_with(CWD, &entry.path, CWD, &finished, RenameFlags::NOREPLACE)?;
        entry.path.clone_from(&finished);
        // Not before it has the name, or another of that name would be removed. A kill in between
        // leaves a directory whose record names a dead maker.
        if let Some(care) = entry.care.replace(janitor.guard(finished)?) {
            care.release();
        }
        Ok(entry)
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The socket, for the worker.
    pub(crate) fn listener(&mut self) -> io::Result<OwnedFd> {
        self.listener
            .take()
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Writes down that it is made and runs as `pid`.
    pub(crate) fn runs(&mut self, pid: Pid) -> Result<(), Error> {
        let number = pid.as_raw_nonzero().get().cast_unsigned();
        let process = ProcessName::of(number).ok_or(io::ErrorKind::NotFound);
        process
            .map_err(io::Error::from)
            .and_then(|process| {
                self.record.process = process;
                self.record.made = true;
                self.record.write(&self.path)
            })
            .map_err(|source| self.failed(source))?;
        // Should we be killed now, it can be found by this, and be taken down.
        if let Some(care) = self.care.take() {
            care.release();
        }
        Ok(())
    }

    pub(crate) async fn connect(&self) -> Result<DuplexChannel, Error> {
        connect(&self.path, self.token.clone())
            .await
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::State {
            path: self.path.clone(),
            source,
        }
    }

    /// Lets it outlive this process.
    pub(crate) const fn release(&mut self) {
        self.goes_with_us = false;
    }

    pub(crate) fn remove(mut self) -> io::Result<()> {
        self.goes_with_us = false;
        self.clear()
    }

    /// Has dropping it remove it after all.
    pub(crate) const fn reclaim(&mut self) {
        self.goes_with_us = true;
    }

    fn clear(&mut self) -> io::Result<()> {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| self.identity == (found.dev(), found.ino()));
        if is_ours {
            remove_dir(&self.path)?;
        }
        if let Some(care) = self.care.take() {
            care.release();
        }
        Ok(())
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.goes_with_us {
            // What cannot be removed is the next sweep's.
            let _ = self.clear();
        }
    }
}

/// Connects to the worker of the sandbox with the directory `dir`.
pub(super) async fn connect(dir: &Path, token: String) -> io::Result<DuplexChannel> {
    let held = File::open(dir)?;
    let address = format!("/proc/self/fd/{}/socket", held.as_raw_fd());
    let stream = tokio::net::UnixStream::connect(address).await?;
    let mut channel = DuplexChannel::private(stream);
    channel.token = Some(Secret::new(token));
    Ok(channel)
}
