//! Starts the worker as an ordinary process.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use namzu_core::egress::Wiring;
use namzu_core::janitor::{InCare, Janitor};
use namzu_core::owner::ProcessName;
use namzu_core::spawn::{Line, Setup, command, prepare};
use namzu_core::{Backend, Channel, ErrorCode, Launched, Phase, Result, Teardown};
use namzu_types::{
    Capabilities, ControlReport, Controls, EgressCapabilities, SandboxSpec, Strength, Tier,
    Workspace,
};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::process::Child;

use crate::config::NAME;
use crate::error::Error;

/// How long a worker may take to end its commands before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// The variables of the host that its commands need to find anything.
const INHERITED: [&str; 4] = ["PATH", "HOME", "USER", "LANG"];

/// What the name of a private workspace begins with, before the label of its maker.
const PREFIX: &str = "namzu-passthrough-";

/// Runs workers on the host itself.
#[derive(Debug)]
pub struct PassthroughBackend {
    worker: OwnedFd,
    janitor: Arc<Janitor>,
    swept: Once,
}

impl PassthroughBackend {
    /// Prepares the worker. Starts nothing.
    ///
    /// # Errors
    ///
    /// `backend_failed`.
    pub fn new() -> Result<Self> {
        let worker = namzu_worker_image::memfd()
            .map_err(|err| Error::Start(err).during(Phase::Configure))?;
        let janitor = worker
            .try_clone()
            .map_err(|err| Error::Start(err).during(Phase::Configure))?;
        Ok(Self {
            worker,
            janitor: Janitor::new(janitor),
            swept: Once::new(),
        })
    }

    fn workspace(&self, workspace: &Workspace) -> Result<(PathBuf, Option<Private>), Error> {
        let Workspace::Host { path, access: _ } = workspace else {
            let private = self.private()?;
            return Ok((private.dir.path().to_owned(), Some(private)));
        };
        check_host_workspace(path)?;
        Ok((path.clone(), None))
    }

    fn private(&self) -> Result<Private, Error> {
        let place = std::env::temp_dir();
        // What makers left that died together with their janitor. Once.
        self.swept.call_once(|| sweep(&place));
        let maker =
            ProcessName::own().ok_or(Error::Workspace(io::ErrorKind::Unsupported.into()))?;
        let dir = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", maker.label()))
            .tempdir_in(place)
            .map_err(Error::Workspace)?;
        let care = self.janitor.guard(dir.path()).map_err(Error::Workspace)?;
        Ok(Private { dir, care })
    }
}

/// Removes the private workspaces in `place` whose maker, of this user, is dead.
fn sweep(place: &Path) {
    let us = geteuid().as_raw();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .and_then(ProcessName::parse);
        // Anybody may make such a name in a shared place.
        let ours = || {
            entry
                .metadata()
                .is_ok_and(|found| found.is_dir() && found.uid() == us)
        };
        if maker.is_some_and(|(maker, _)| maker.is_dead()) && ours() {
            // Another process may be sweeping too; what stays is found again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn check_host_workspace(path: &Path) -> Result<(), Error> {
    let refused = |why| Error::HostWorkspace {
        path: path.to_owned(),
        why,
    };
    if !path.is_absolute() {
        return Err(refused("the path is not absolute"));
    }
    if !path.is_dir() {
        return Err(refused("it is not a directory"));
    }
    Ok(())
}

/// Variables of every command: what the host needs to find programs, then the caller's own.
fn environment(spec: &SandboxSpec) -> (BTreeMap<String, String>, String) {
    let host: BTreeMap<_, _> = INHERITED
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
        .collect();
    let mut all = host.clone();
    all.extend(spec.env.clone());
    (host, serde_json::json!(all).to_string())
}

#[async_trait]
impl Backend for PassthroughBackend {
    fn tier(&self) -> Tier {
        Tier::Passthrough
    }

    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lifetime: Strength::BestEffort,
            egress: EgressCapabilities {
                allow_all: true,
                ..Capabilities::NONE.egress
            },
            host_workspace: true,
            tunnels: true,
            ..Capabilities::NONE
        }
    }

    async fn plan(&self, spec: &SandboxSpec) -> Result<Controls> {
        if let Workspace::Host { path, access: _ } = &spec.workspace {
            check_host_workspace(path).map_err(|err| err.during(Phase::Plan))?;
        }
        let wall_clock = match spec.limits.lifetime {
            Some(lifetime) => ControlReport::new(
                Strength::BestEffort,
                "the worker's own timer",
                format!("sandbox {lifetime:?}"),
            ),
            None => ControlReport::unasked(),
        };
        Ok(Controls {
            wall_clock,
            ..Controls::default()
        })
    }

    async fn launch(&self, spec: &SandboxSpec, _: &Wiring) -> Result<Launched> {
        let controls = self.plan(spec).await?;
        let id = spec.id.clone().ok_or_else(|| {
            namzu_core::Error::new(ErrorCode::Internal, "a sandbox was asked for without an id")
        })?;
        let failed = |err: Error| err.during(Phase::Create);
        let (workspace, private) = self.workspace(&spec.workspace).map_err(failed)?;
        let (environment, envs) = environment(spec);
        let start = |err| Error::Start(err).during(Phase::Create);
        let line = Line::open().map_err(start)?;
        let (ready, ready_inside) = tokio::net::unix::pipe::pipe()
            .and_then(|(sender, receiver)| Ok((receiver, sender.into_blocking_fd()?)))
            .map_err(start)?;

        let mut worker = command(format!("/proc/self/fd/{}", self.worker.as_raw_fd()));
        worker
            .arg("--listen")
            .arg(format!("fd:{}", line.stream.as_raw_fd()))
            .arg("--lane")
            .arg(line.lane.as_raw_fd().to_string())
            .arg("--ready")
            .arg(ready_inside.as_raw_fd().to_string())
            // Daemons that commands leave are then its to reap, and end with it.
            .arg("--init")
            .arg("--workspace")
            .arg(&workspace)
            .current_dir(&workspace)
            .envs(environment)
            .env("NAMZU_SANDBOX_ENVS", envs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // It is told to end first, and ends its commands; killing it alone would leave those.
            .kill_on_drop(false);
        if let Some(lifetime) = spec.limits.lifetime {
            worker
                .arg("--lifetime-ms")
                .arg(lifetime.as_millis().to_string());
        }
        prepare(
            &mut worker,
            Setup {
                inherit: vec![line.stream, line.lane, ready_inside],
                session: true,
                ..Setup::default()
            },
        );
        let child = worker.spawn().map_err(start)?;
        drop(worker);
        let mut running = Running {
            child: Mutex::new(child),
            private,
            lifetime: spec.limits.lifetime,
            started: Instant::now(),
        };
        if let Err(err) = wait_ready(ready).await {
            let status = running.status();
            running.destroy().await?;
            return Err(failed(err.unwrap_or(Error::Ended(status))));
        }
        Ok(Launched {
            gate: None,
            id,
            channel: Channel::Duplex(line.channel),
            teardown: Box::new(running),
            controls,
            workspace: workspace.to_string_lossy().into_owned(),
            egress: Some(spec.egress_on(Tier::Passthrough).kind().to_owned()),
            labels: spec.labels.clone(),
        })
    }
}

/// Waits for the worker's byte; `Err(None)` when it ended without one.
async fn wait_ready(mut ready: tokio::net::unix::pipe::Receiver) -> Result<(), Option<Error>> {
    match ready.read(&mut [0]).await {
        Ok(0) => Err(None),
        Ok(_) => Ok(()),
        Err(err) => Err(Some(Error::Start(err))),
    }
}

#[derive(Debug)]
struct Private {
    dir: TempDir,
    care: InCare,
}

impl Private {
    fn remove(self) -> Result<(), Error> {
        self.dir.close().map_err(Error::Remove)?;
        self.care.release();
        Ok(())
    }

    fn abandon(self) {
        let _ = self.dir.keep();
        self.care.remove();
    }
}

#[derive(Debug)]
struct Running {
    child: Mutex<Child>,
    private: Option<Private>,
    lifetime: Option<Duration>,
    started: Instant,
}

impl Running {
    fn signal(&mut self, signal: Signal) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        // `id` is none once it was reaped, so this never hits a stranger.
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(pid) = pid {
            // It may have ended meanwhile.
            let _ = kill_process(pid, signal);
        }
    }

    fn status(&self) -> String {
        match lock(&self.child).try_wait() {
            Ok(Some(status)) => status.to_string(),
            _ => "its streams closed".to_owned(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

#[async_trait]
impl Teardown for Running {
    async fn destroy(&mut self) -> Result<()> {
        self.signal(Signal::TERM);
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let ended = match tokio::time::timeout(GRACE, child.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_) => child.kill().await,
        };
        ended.map_err(|err| Error::End(err).during(Phase::Destroy))?;
        if let Some(private) = self.private.take() {
            private.remove().map_err(|err| err.during(Phase::Destroy))?;
        }
        Ok(())
    }

    fn kill(&mut self) {
        self.signal(Signal::TERM);
        if let Some(private) = self.private.take() {
            // Commands may still be ending, and removing a large tree takes its time.
            private.abandon();
        }
    }

    fn obituary(&self) -> Option<namzu_core::Error> {
        let status = lock(&self.child).try_wait().ok().flatten()?;
        let lived = self.started.elapsed();
        let err = match self.lifetime {
            Some(lifetime) if lived >= lifetime => Error::Lifetime,
            _ => Error::Lost(status.to_string()),
        };
        Some(err.during(Phase::Exec))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_maker_left_is_swept() {
        let place = tempfile::tempdir().unwrap();
        let own = ProcessName::own().unwrap();
        // The same PID with another start: a maker that is gone.
        let (before, start) = own
            .label()
            .rsplit_once('-')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        let dead = format!("{PREFIX}{before}-{}-abc", start.parse::<u64>().unwrap() + 1);
        let foreign = format!("{PREFIX}1-1-1-abc");
        let alive = format!("{PREFIX}{}-abc", own.label());
        for name in [&dead, &foreign, &alive] {
            fs::create_dir(place.path().join(name)).unwrap();
            fs::write(place.path().join(name).join("file"), "x").unwrap();
        }
        let outside = tempfile::tempdir().unwrap();
        let link = format!("{dead}x");
        std::os::unix::fs::symlink(outside.path(), place.path().join(&link)).unwrap();
        sweep(place.path());
        assert!(!place.path().join(&dead).exists());
        assert!(place.path().join(&foreign).exists());
        assert!(place.path().join(&alive).exists());
        assert!(place.path().join(&link).exists());
    }
}
