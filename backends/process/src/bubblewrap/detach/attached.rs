//! The end of a sandbox that another process made, or this one earlier.

use std::fs::File;
use std::time::SystemTime;

use async_trait::async_trait;
use namzu_core::owner::{Life, ProcessName};
use namzu_core::{Phase, Teardown};
use namzu_types::SandboxId;

use super::StateDir;
use super::record::{Record, unix_ms};
use crate::bubblewrap::running::{Init, positive};
use crate::cgroup::oom_kills;
use crate::error::Error;

#[derive(Debug)]
pub(super) struct Attached {
    state: StateDir,
    id: SandboxId,
    process: ProcessName,
    expires_unix_ms: Option<u64>,
    /// Absent where it cannot be told from a stranger.
    init: Option<Init>,
    /// What its memory limit counts in.
    memory_events: Vec<File>,
}

impl Attached {
    pub(super) fn new(state: StateDir, id: SandboxId, record: &Record) -> Self {
        let events = |cgroup: &std::path::PathBuf| {
            ["memory.events", "memory.oom_control"]
                .into_iter()
                .find_map(|file| File::open(cgroup.join(file)).ok())
        };
        Self {
            state,
            id,
            process: record.process,
            expires_unix_ms: record.expires_unix_ms,
            init: open(record.process),
            memory_events: record.cgroups.iter().filter_map(events).collect(),
        }
    }
}

/// PID 1 of the sandbox, if it runs and is known to be that.
pub(super) fn open(process: ProcessName) -> Option<Init> {
    let init = Init::open(positive(process.pid.cast_signed())?).ok()?;
    // Asked after it was opened: the number cannot have gone to another since.
    (process.life() == Life::Alive).then_some(init)
}

#[async_trait]
impl Teardown for Attached {
    async fn destroy(&mut self) -> namzu_core::Result<()> {
        let destroyed = self.state.destroy(&self.id, Some(self.process)).await;
        destroyed.map_err(|err| err.during(Phase::Destroy))
    }

    fn kill(&mut self) {
        // What it leaves is removed by whoever lists next.
        if let Some(init) = &self.init {
            init.kill();
        }
    }

    fn obituary(&self) -> Option<namzu_core::Error> {
        if !self.process.is_dead() {
            return None;
        }
        let now = unix_ms(SystemTime::now());
        let err = if self.expires_unix_ms.is_some_and(|end| now >= end) {
            Error::Lifetime
        } else if self
            .memory_events
            .iter()
            .any(|events| oom_kills(events) > 0)
        {
            Error::OutOfMemory
        } else {
            Error::Lost("it is no longer running".to_owned())
        };
        Some(err.during(Phase::Exec))
    }
}
