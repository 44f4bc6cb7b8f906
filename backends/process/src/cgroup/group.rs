//! The cgroup of one sandbox: one directory, or one for each controller.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use namzu_core::janitor::{InCare, Janitor};
use namzu_core::owner::ProcessName;
use namzu_types::config::MAX_PROCESSES;
use namzu_types::{Limits, SandboxId};
use rustix::process::{Pid, Signal, kill_process};

use super::find::Hierarchy;
use super::name::{directory, parse};

/// Microseconds of one accounting period of the processor controller.
const CPU_PERIOD: u32 = 100_000;
/// How often a busy cgroup is tried again, and how long to wait between: the kernel does not say
/// when the last process of one is gone.
const ATTEMPTS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// A made cgroup. Dropping it has the janitor remove it, unless it was [released](Group::release).
#[derive(Debug)]
pub(crate) struct Group {
    paths: Vec<PathBuf>,
    janitor: Arc<Janitor>,
    in_care: Vec<InCare>,
    goes_with_us: bool,
    /// Its `memory.events` or `memory.oom_control`.
    memory_events: Option<File>,
}

impl Group {
    /// Makes the cgroup that holds `limits` as far as `hierarchy` can hold them.
    ///
    /// A `detached` one may outlive this process, once [`Group::release`] was called.
    pub(crate) fn make(
        hierarchy: &Hierarchy,
        limits: &Limits,
        id: &SandboxId,
        detached: bool,
        janitor: &Arc<Janitor>,
    ) -> io::Result<Self> {
        let maker = ProcessName::own().ok_or(io::ErrorKind::Unsupported)?;
        let name = directory(maker, detached, id)?;
        // From here on, dropping it removes what is made.
        let mut group = Self {
            paths: Vec::new(),
            janitor: Arc::clone(janitor),
            in_care: Vec::new(),
            goes_with_us: true,
            memory_events: None,
        };
        match hierarchy {
            Hierarchy::V2 { parent, cpu } => {
                let dir = group.add(&parent.join(&name))?;
                group.limit_v2(&dir, *cpu, limits)?;
            }
            Hierarchy::V1 { memory, pids, cpu } => {
                if let (Some(parent), Some(bytes)) = (memory, limits.memory) {
                    let dir = group.add(&parent.join(&name))?;
                    group.limit_memory_v1(&dir, bytes)?;
                }
                if let (Some(parent), Some(processes)) = (pids, limits.processes) {
                    let dir = group.add(&parent.join(&name))?;
                    set(&dir, "pids.max", pids_max(processes))?;
                }
                if let (Some(parent), Some(cpus)) = (cpu, limits.cpus) {
                    let dir = group.add(&parent.join(&name))?;
                    set(&dir, "cpu.cfs_period_us", CPU_PERIOD)?;
                    set(&dir, "cpu.cfs_quota_us", quota(cpus))?;
                }
            }
        }
        Ok(group)
    }

    fn add(&mut self, path: &Path) -> io::Result<PathBuf> {
        // In care before it exists: a kill in between leaves nothing.
        self.in_care.push(self.janitor.guard(path)?);
        fs::create_dir(path)?;
        self.paths.push(path.to_owned());
        Ok(path.to_owned())
    }

    fn limit_v2(&mut self, dir: &Path, cpu: bool, limits: &Limits) -> io::Result<()> {
        if let Some(bytes) = limits.memory {
            set(dir, "memory.max", bytes)?;
            // Absent without swap accounting; then there is no swap to count.
            set_if_present(dir, "memory.swap.max", 0)?;
            self.memory_events = Some(File::open(dir.join("memory.events"))?);
        }
        if let Some(processes) = limits.processes {
            set(dir, "pids.max", pids_max(processes))?;
        }
        if let (true, Some(cpus)) = (cpu, limits.cpus) {
            set(dir, "cpu.max", format_args!("{} {CPU_PERIOD}", quota(cpus)))?;
        }
        Ok(())
    }

    fn limit_memory_v1(&mut self, dir: &Path, bytes: u64) -> io::Result<()> {
        set(dir, "memory.limit_in_bytes", bytes)?;
        set_if_present(dir, "memory.memsw.limit_in_bytes", bytes)?;
        self.memory_events = Some(File::open(dir.join("memory.oom_control"))?);
        Ok(())
    }

    /// Opens what a child writes to in order to enter.
    pub(crate) fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        self.paths
            .iter()
            .map(|path| {
                let entrance = path.join("cgroup.procs");
                Ok(File::options().write(true).open(entrance)?.into())
            })
            .collect()
    }

    /// What the worker reads to tell that the limit has killed a command.
    pub(crate) fn memory_events(&self) -> io::Result<Option<OwnedFd>> {
        self.memory_events
            .as_ref()
            .map(|file| Ok(file.try_clone()?.into()))
            .transpose()
    }

    /// How many processes the memory limit has killed.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.memory_events.as_ref().map_or(0, oom_kills)
    }

    /// The directories.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Lets it outlive this process.
    pub(crate) fn release(&mut self) {
        self.goes_with_us = false;
        for care in self.in_care.drain(..) {
            care.release();
        }
    }

    /// Kills what is left in it and removes it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves that to the janitor.
    pub(crate) async fn remove(mut self) -> io::Result<()> {
        self.goes_with_us = true;
        for path in &self.paths {
            remove(path).await?;
        }
        self.release();
        Ok(())
    }

    /// Has the janitor do the same, without waiting.
    pub(crate) fn abandon(mut self) {
        self.goes_with_us = true;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.goes_with_us {
            return;
        }
        if self.in_care.is_empty() {
            // It was released, and is killed all the same.
            for path in &self.paths {
                self.janitor.remove(path);
            }
        }
        for care in self.in_care.drain(..) {
            care.remove();
        }
    }
}

/// How many processes the memory limit has killed, by an open `memory.events` or
/// `memory.oom_control`.
pub(crate) fn oom_kills(events: &File) -> u64 {
    let mut text = [0; 4096];
    // The cgroup may be gone.
    let length = events.read_at(&mut text, 0).unwrap_or(0);
    String::from_utf8_lossy(&text[..length])
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
        .unwrap_or(0)
}

/// One more than asked: `bwrap`'s own process, which waits outside, is in the cgroup too. The kernel
/// takes no more than there can be processes.
fn pids_max(processes: u32) -> u32 {
    processes.saturating_add(1).min(MAX_PROCESSES)
}

fn quota(cpus: f64) -> u64 {
    // The kernel takes no less than a millisecond.
    let micros = (cpus * f64::from(CPU_PERIOD)).round().clamp(1_000.0, 1e12);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to a range that fits"
    )]
    let micros = micros as u64;
    micros
}

fn set(dir: &Path, file: &str, value: impl std::fmt::Display) -> io::Result<()> {
    let mut file = File::options().write(true).open(dir.join(file))?;
    // In one piece: each write is a value to the kernel.
    file.write_all(value.to_string().as_bytes())
}

fn set_if_present(dir: &Path, file: &str, value: u64) -> io::Result<()> {
    match set(dir, file, value) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Kills everything in the cgroup at `path` and removes it. One that is gone is success.
pub(crate) async fn remove(path: &Path) -> io::Result<()> {
    for _ in 0..ATTEMPTS {
        match fs::remove_dir(path) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(err) if err.kind() == io::ErrorKind::ResourceBusy => kill_all(path),
            other => return other,
        }
        tokio::time::sleep(PAUSE).await;
    }
    fs::remove_dir(path)
}

fn kill_all(path: &Path) {
    // Linux 5.14 and newer, v2: without a race against forks.
    if fs::write(path.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let procs = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    for pid in procs
        .lines()
        .filter_map(|line| line.parse().ok().and_then(Pid::from_raw))
    {
        // It may have ended meanwhile; the caller looks again anyway.
        let _ = kill_process(pid, Signal::KILL);
    }
}

impl Hierarchy {
    /// Removes the cgroups of makers that died without their janitor.
    pub(crate) async fn sweep(&self) {
        let mut dead = Vec::new();
        for parent in self.parents() {
            for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let Some((maker, detached)) = name.to_str().and_then(parse) else {
                    continue;
                };
                let empty = || {
                    fs::read_to_string(entry.path().join("cgroup.procs"))
                        .is_ok_and(|procs| procs.is_empty())
                };
                if maker.is_dead() && (!detached || empty()) {
                    dead.push(entry.path());
                }
            }
        }
        for path in dead {
            // Another process may be sweeping too; what stays is found again.
            let _ = remove(&path).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_half_made_cgroup_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        // No cgroup: a directory can be made in it, and no limit be set.
        let hierarchy = Hierarchy::V1 {
            memory: Some(dir.path().join("memory")),
            pids: Some(dir.path().join("pids")),
            cpu: None,
        };
        for controller in ["memory", "pids"] {
            fs::create_dir(dir.path().join(controller)).unwrap();
        }
        let limits = Limits {
            memory: Some(64 << 20),
            processes: Some(10),
            ..Limits::default()
        };
        let janitor = Janitor::new(namzu_worker_image::memfd().unwrap());
        let id = "half-made".parse().unwrap();
        Group::make(&hierarchy, &limits, &id, false, &janitor).unwrap_err();
        // By the janitor, which tells nobody.
        for _ in 0..1000 {
            if fs::read_dir(dir.path().join("memory")).unwrap().count() == 0 {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("it is still there");
    }
}
