//! Sandboxes that outlive their maker: where they are written down and how they are reached.
//!
//! Each has a directory: `sandbox.json` (what it is), `token` and `socket`. The worker is handed
//! the listening socket, so nothing of this is visible inside.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use namzu_core::janitor::{InCare, Janitor};
use namzu_core::{Channel, DuplexChannel, Launched, Phase, Teardown};
use namzu_types::{Controls, SandboxId, SandboxInfo, SandboxSpec, Secret, Tier};
use rustix::process::{Pid, geteuid};
use serde::{Deserialize, Serialize};

use super::running::{Init, positive};
use super::view::WORKSPACE;
use crate::cgroup::{Group, ProcessName, remove};
use crate::config::NAME;
use crate::error::Error;

/// The largest `sandbox.json` that is read.
const MAX_RECORD: u64 = 256 << 10;

/// `sandbox.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    /// PID 1 of the sandbox; its maker while it is being made.
    process: ProcessName,
    made: bool,
    created_unix_ms: u64,
    expires_unix_ms: Option<u64>,
    labels: BTreeMap<String, String>,
    controls: Controls,
    cgroups: Vec<PathBuf>,
}

/// The directory of directories.
#[derive(Debug)]
pub(crate) struct StateDir(PathBuf);

/// A sandbox that is being made. Dropping it removes its directory.
#[derive(Debug)]
pub(crate) struct Entry {
    path: PathBuf,
    record: Record,
    token: String,
    listener: Option<OwnedFd>,
    care: Option<InCare>,
}

/// The directory of a sandbox that runs.
#[derive(Debug)]
pub(crate) struct Kept(PathBuf);

impl Kept {
    pub(crate) fn remove(self) -> io::Result<()> {
        remove_dir(&self.0)
    }
}

fn remove_dir(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Where it should be: gone with the session or the boot, where the system has such a place.
fn place() -> PathBuf {
    let uid = geteuid();
    let ours = |dir: &PathBuf| {
        fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir() && found.uid() == uid.as_raw())
    };
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let usual = PathBuf::from(format!("/run/user/{}", uid.as_raw()));
    let run = uid.is_root().then(|| PathBuf::from("/run"));
    [given.filter(|dir| dir.is_absolute()), Some(usual), run]
        .into_iter()
        .flatten()
        .find(ours)
        .map_or_else(
            || PathBuf::from(format!("/tmp/namzu-sandbox-{}", uid.as_raw())),
            |dir| dir.join("namzu-sandbox"),
        )
}

impl StateDir {
    /// Opens it, or makes it. Refuses one that somebody else made or can write to: in `/tmp`
    /// anybody may have been first.
    pub(crate) fn open() -> Result<Self, Error> {
        Self::at(place())
    }

    fn at(path: PathBuf) -> Result<Self, Error> {
        let failed = |source| Error::State {
            path: path.clone(),
            source,
        };
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(failed(err)),
            _ => {}
        }
        let found = fs::symlink_metadata(&path).map_err(failed)?;
        if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
            return Err(failed(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is not a directory of ours alone",
            )));
        }
        Ok(Self(path))
    }

    fn failed(&self) -> impl Fn(io::Error) -> Error + use<> {
        let path = self.0.clone();
        move |source| Error::State {
            path: path.clone(),
            source,
        }
    }

    /// Reserves the name of a sandbox that is about to be made.
    pub(crate) async fn add(
        &self,
        id: &SandboxId,
        spec: &SandboxSpec,
        controls: &Controls,
        group: Option<&Group>,
        janitor: &Arc<Janitor>,
    ) -> Result<Entry, Error> {
        let failed = self.failed();
        let path = self.0.join(id.as_str());
        if self.read(id)?.is_some_and(|found| found.process.is_dead()) {
            self.sweep(id).await?;
        }
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|err| match err.kind() {
                io::ErrorKind::AlreadyExists => Error::Exists(id.clone()),
                _ => failed(err),
            })?;
        let now = SystemTime::now();
        let record = Record {
            process: ProcessName::own().ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))?,
            made: false,
            created_unix_ms: unix_ms(now),
            expires_unix_ms: spec.limits.lifetime.map(|lifetime| {
                unix_ms(now).saturating_add(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX))
            }),
            labels: spec.labels.clone(),
            controls: controls.clone(),
            cgroups: group
                .map(|group| group.paths().to_vec())
                .unwrap_or_default(),
        };
        // From here on, dropping it removes the directory.
        let mut entry = Entry {
            path,
            record,
            token: String::new(),
            listener: None,
            care: None,
        };
        entry.prepare(janitor).map_err(failed)?;
        Ok(entry)
    }

    fn read(&self, id: &SandboxId) -> Result<Option<Record>, Error> {
        let path = self.0.join(id.as_str()).join("sandbox.json");
        match read_capped(&path) {
            // Cut off by a crash: nobody can be attached to that.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(err) => Err(self.failed()(err)),
        }
    }

    /// Removes what a sandbox that has ended left.
    async fn sweep(&self, id: &SandboxId) -> Result<(), Error> {
        if let Some(record) = self.read(id)? {
            for cgroup in &record.cgroups {
                remove(cgroup).await.map_err(Error::Destroy)?;
            }
        }
        remove_dir(&self.0.join(id.as_str())).map_err(Error::Destroy)
    }

    pub(crate) async fn list(&self) -> Result<Vec<SandboxInfo>, Error> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(self.failed())?.flatten() {
            let name = entry.file_name();
            let Some(id) = name
                .to_str()
                .and_then(|name| name.parse::<SandboxId>().ok())
            else {
                continue;
            };
            match self.read(&id)? {
                Some(record) if record.process.is_dead() => self.sweep(&id).await?,
                Some(record) if record.made => found.push(SandboxInfo {
                    id,
                    tier: Tier::Process,
                    backend: NAME.to_owned(),
                    created: from_unix_ms(record.created_unix_ms),
                    expires: record.expires_unix_ms.map(from_unix_ms),
                    labels: record.labels,
                }),
                // Being made, or a crash away from having been.
                _ => {}
            }
        }
        Ok(found)
    }

    /// The record of a running sandbox.
    async fn running(&self, id: &SandboxId) -> Result<Record, Error> {
        match self.read(id)? {
            Some(record) if record.process.is_dead() => {
                self.sweep(id).await?;
                Err(Error::NotFound(id.clone()))
            }
            Some(record) if record.made => Ok(record),
            _ => Err(Error::NotFound(id.clone())),
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
            id: id.clone(),
            channel: Channel::Duplex(channel),
            teardown: Box::new(Attached {
                state: self,
                id: id.clone(),
                process: record.process,
            }),
            controls: record.controls,
            workspace: WORKSPACE.to_owned(),
        })
    }

    /// Success as well when there is none of that name.
    pub(crate) async fn destroy(&self, id: &SandboxId) -> Result<(), Error> {
        let Some(record) = self.read(id)? else {
            return Ok(());
        };
        // The maker of one that is being made would be killed in its place.
        if record.made
            && let Some(pid) = positive(record.process.pid.cast_signed())
            && let Ok(init) = Init::open(pid)
            // Asked after it was opened: the number cannot have gone to another since.
            && !record.process.is_dead()
        {
            init.kill();
            init.ended().await.map_err(Error::Destroy)?;
        }
        self.sweep(id).await
    }
}

impl Entry {
    fn prepare(&mut self, janitor: &Arc<Janitor>) -> io::Result<()> {
        self.care = Some(janitor.guard(&self.path)?);
        let mut bytes = [0; 32];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        self.token = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        write_new(&self.path.join("token"), self.token.as_bytes())?;
        let dir = File::open(&self.path)?;
        // By descriptor: a path may be longer than an address has room for.
        let listener = UnixListener::bind(format!("/proc/self/fd/{}/socket", dir.as_raw_fd()))?;
        self.listener = Some(listener.into());
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let bytes = serde_json::to_vec(&self.record)?;
        let temporary = self.path.join("sandbox.json.new");
        match fs::remove_file(&temporary) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
            _ => {}
        }
        write_new(&temporary, &bytes)?;
        fs::rename(temporary, self.path.join("sandbox.json"))
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
        let failed = |source| Error::State {
            path: self.path.clone(),
            source,
        };
        self.record.process =
            ProcessName::of(number).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        self.record.made = true;
        self.write().map_err(failed)
    }

    pub(crate) async fn connect(&self) -> Result<DuplexChannel, Error> {
        connect(&self.path, self.token.clone())
            .await
            .map_err(|source| Error::State {
                path: self.path.clone(),
                source,
            })
    }

    /// Lets it outlive this process.
    pub(crate) fn keep(mut self) -> Kept {
        if let Some(care) = self.care.take() {
            care.release();
        }
        Kept(std::mem::take(&mut self.path))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            // What cannot be removed is in the janitor's care.
            if remove_dir(&self.path).is_ok()
                && let Some(care) = self.care.take()
            {
                care.release();
            }
        }
    }
}

async fn connect(dir: &Path, token: String) -> io::Result<DuplexChannel> {
    let held = File::open(dir)?;
    let address = format!("/proc/self/fd/{}/socket", held.as_raw_fd());
    let stream = tokio::net::UnixStream::connect(address).await?;
    let mut channel = DuplexChannel::private(stream);
    channel.token = Some(Secret::new(token));
    Ok(channel)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .write_all(bytes)
}

fn read_capped(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_RECORD).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn from_unix_ms(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_millis(ms))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

/// A sandbox that another process made, or this one earlier.
#[derive(Debug)]
struct Attached {
    state: StateDir,
    id: SandboxId,
    process: ProcessName,
}

#[async_trait]
impl Teardown for Attached {
    async fn destroy(&mut self) -> namzu_core::Result<()> {
        let destroyed = self.state.destroy(&self.id).await;
        destroyed.map_err(|err| err.during(Phase::Destroy))
    }

    /// It lives on: it outlives whoever is attached.
    fn kill(&mut self) {}

    fn obituary(&self) -> Option<namzu_core::Error> {
        self.process
            .is_dead()
            .then(|| Error::Lost("it is no longer running".to_owned()).during(Phase::Exec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_somebody_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(StateDir::at(open).is_err());
        let link = dir.path().join("link");
        let target = dir.path().join("target");
        fs::DirBuilder::new().mode(0o700).create(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(StateDir::at(link).is_err());
        StateDir::at(target).unwrap();
        StateDir::at(dir.path().join("new")).unwrap();
    }
}
