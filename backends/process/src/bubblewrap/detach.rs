//! Sandboxes that outlive their maker: where they are written down and how they are reached.
//!
//! Each has a directory: `sandbox.json` (what it is), `token` and `socket`. The worker is handed
//! the listening socket, so nothing of this is visible inside. A directory gets the name of its
//! sandbox when it is complete, and names are given and taken under one lock.

mod attached;
mod entry;
mod record;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use namzu_core::janitor::Janitor;
use namzu_core::owner::{Life, ProcessName};
use namzu_core::runtime_dir::{make_private, place};
use namzu_core::{Channel, Launched};
use namzu_types::{Controls, SandboxId, SandboxInfo, SandboxSpec, Tier};
use rustix::fs::{FlockOperation, flock};

use self::attached::Attached;
pub(crate) use self::entry::Entry;
use self::entry::{UNFINISHED, connect};
use self::record::{Found, Record, from_unix_ms, read_capped, unix_ms};
use super::view::WORKSPACE;
use crate::cgroup::{Group, remove};
use crate::config::NAME;
use crate::error::Error;

/// How often to look whether one that is being made is made, and how often at most.
const PAUSE: Duration = Duration::from_millis(10);
const ATTEMPTS: u32 = 1000;

/// The directory of directories.
#[derive(Debug)]
pub(crate) struct StateDir(PathBuf);

/// Held while names are given and taken; this process and all others wait.
#[derive(Debug)]
struct Lock(#[expect(dead_code, reason = "closing it ends the lock")] File);

fn remove_dir(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        // Something that is no directory has taken the name.
        Err(err) if err.kind() == io::ErrorKind::NotADirectory => fs::remove_file(path),
        other => other,
    }
}

impl StateDir {
    /// Opens it, or makes it. Refuses one that somebody else made or can write to: in `/tmp`
    /// anybody may have been first.
    pub(crate) fn open() -> Result<Self, Error> {
        Self::at(place())
    }

    /// Removes what sandboxes that have ended left, where there ever was one. In passing: whatever
    /// stands in the way is left to whoever asks for it.
    pub(crate) async fn tidy() {
        let path = place();
        // Nobody needs it to be made for this.
        if path.exists()
            && let Ok(state) = Self::at(path)
        {
            let _ = state.list().await;
        }
    }

    fn at(path: PathBuf) -> Result<Self, Error> {
        make_private(&path).map_err(|source| Error::State {
            path: path.clone(),
            source,
        })?;
        Ok(Self(path))
    }

    /// Where something is noted down that is no sandbox.
    pub(crate) fn note(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn failed(&self) -> impl Fn(io::Error) -> Error + use<> {
        let path = self.0.clone();
        move |source| Error::State {
            path: path.clone(),
            source,
        }
    }

    async fn lock(&self) -> Result<Lock, Error> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.0.join(".lock"))
            .map_err(self.failed())?;
        let locked = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(_) => {
                let wait = move || flock(&file, FlockOperation::LockExclusive).map(|()| file);
                let waited = tokio::task::spawn_blocking(wait).await;
                waited.map_err(io::Error::from).and_then(|file| Ok(file?))
            }
        };
        locked.map(Lock).map_err(self.failed())
    }

    /// Gives a sandbox that is about to be made its name.
    pub(crate) async fn add(
        &self,
        id: &SandboxId,
        spec: &SandboxSpec,
        controls: &Controls,
        group: Option<&Group>,
        janitor: &Arc<Janitor>,
    ) -> Result<Entry, Error> {
        let failed = self.failed();
        let process =
            ProcessName::own().ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))?;
        let now = SystemTime::now();
        let expires = spec.limits.lifetime.map(|lifetime| {
            unix_ms(now).saturating_add(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX))
        });
        let record = Record {
            process,
            made: false,
            created_unix_ms: unix_ms(now),
            expires_unix_ms: expires,
            labels: spec.labels.clone(),
            egress: Some(spec.egress_on(Tier::Process).kind().to_owned()),
            controls: controls.clone(),
            cgroups: group
                .map(|group| group.paths().to_vec())
                .unwrap_or_default(),
        };
        let lock = self.lock().await?;
        self.sweep(id, &lock).await?;
        Entry::make(&self.0, id.as_str(), record, janitor).map_err(|err| match err.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists(id.clone()),
            _ => failed(err),
        })
    }

    fn read(&self, id: &SandboxId) -> Result<Found, Error> {
        Record::read(&self.0.join(id.as_str())).map_err(self.failed())
    }

    /// Removes what a sandbox that has ended left; leaves every other.
    async fn sweep(&self, id: &SandboxId, _: &Lock) -> Result<(), Error> {
        match self.read(id)? {
            Found::Record(record) if record.process.is_dead() => {
                for cgroup in &record.cgroups {
                    remove(cgroup).await.map_err(Error::Destroy)?;
                }
            }
            Found::Rubbish => {}
            Found::Nothing | Found::Record(_) => return Ok(()),
        }
        remove_dir(&self.0.join(id.as_str())).map_err(Error::Destroy)
    }

    async fn sweep_alone(&self, id: &SandboxId) -> Result<(), Error> {
        self.sweep(id, &self.lock().await?).await
    }

    pub(crate) async fn list(&self) -> Result<Vec<SandboxInfo>, Error> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(self.failed())?.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                continue;
            };
            if let Some(label) = name.strip_prefix(UNFINISHED) {
                // Its maker died together with its janitor.
                if ProcessName::parse(label).is_some_and(|(maker, _)| maker.is_dead()) {
                    remove_dir(&entry.path()).map_err(self.failed())?;
                }
                continue;
            }
            let Ok(id) = name.parse::<SandboxId>() else {
                continue;
            };
            match self.read(&id)? {
                Found::Nothing => {}
                Found::Rubbish => self.sweep_alone(&id).await?,
                Found::Record(record) if record.process.is_dead() => self.sweep_alone(&id).await?,
                Found::Record(record) if record.made => found.push(SandboxInfo {
                    id,
                    tier: Tier::Process,
                    backend: NAME.to_owned(),
                    created: from_unix_ms(record.created_unix_ms),
                    expires: record.expires_unix_ms.map(from_unix_ms),
                    labels: record.labels,
                }),
                // Being made.
                Found::Record(_) => {}
            }
        }
        Ok(found)
    }

    /// The record of a running sandbox.
    async fn running(&self, id: &SandboxId) -> Result<Record, Error> {
        match self.read(id)? {
            Found::Record(record) if record.made && !record.process.is_dead() => Ok(*record),
            _ => {
                self.sweep_alone(id).await?;
                Err(Error::NotFound(id.clone()))
            }
        }
    }

    pub(crate) async fn attach(self, id: &SandboxId) -> Result<Launched, Error> {
        let record = self.running(id).await?;
        let failed = self.failed();
        let dir = self.0.join(id.as_str());
        let token = read_capped(&dir.join("token")).map_err(&failed)?;
        let token = String::from_utf8_lossy(&token).into_owned();
        let channel = connect(&dir, token).await.map_err(&failed)?;
        Ok(Launched {
            gate: None,
            id: id.clone(),
            channel: Channel::Duplex(channel),
            teardown: Box::new(Attached::new(self, id.clone(), &record)),
            controls: record.controls,
            workspace: WORKSPACE.to_owned(),
            egress: record.egress,
            labels: record.labels,
        })
    }

    /// Takes down the one of that name, or only `which` of that name. Success as well when there is
    /// none.
    pub(crate) async fn destroy(
        &self,
        id: &SandboxId,
        which: Option<ProcessName>,
    ) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let record = match self.read(id)? {
                Found::Nothing => return Ok(()),
                Found::Rubbish => return self.sweep_alone(id).await,
                Found::Record(record) => record,
            };
            if which.is_some_and(|which| which != record.process) {
                return Ok(());
            }
            match record.process.life() {
                Life::Foreign => return Err(Error::Foreign(id.clone())),
                Life::Dead => return self.sweep_alone(id).await,
                // Its maker would be killed in its place.
                Life::Alive if !record.made => tokio::time::sleep(PAUSE).await,
                Life::Alive => {
                    if let Some(init) = attached::open(record.process) {
                        init.kill();
                        init.ended().await.map_err(Error::Destroy)?;
                    }
                    // Gone, unless its maker reaps nothing.
                }
            }
        }
        Err(Error::Destroy(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests;
