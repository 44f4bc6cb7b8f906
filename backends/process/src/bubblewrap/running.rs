//! A sandbox that is being built, and one that runs; and how either ends.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use namzu_core::{Phase, Result, Teardown};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, Interest};
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::task::AbortHandle;

use super::data::LastWords;
use super::detach::Entry;
use crate::cgroup::Group;
use crate::error::Error;

/// How long the kernel may take to end everything inside after PID 1 was killed.
const GRACE: Duration = Duration::from_secs(10);

/// The most that `bwrap --info-fd` writes.
const MAX_INFO: usize = 4096;

/// PID 1 of a sandbox. Killing it kills everything inside.
#[derive(Clone, Debug)]
pub(crate) struct Init(Arc<OwnedFd>);

impl Init {
    pub(crate) fn open(pid: Pid) -> io::Result<Self> {
        Ok(Self(Arc::new(pidfd_open(pid, PidfdFlags::empty())?)))
    }

    pub(crate) fn kill(&self) {
        // It may have ended meanwhile.
        let _ = pidfd_send_signal(self.0.as_fd(), Signal::KILL);
    }

    /// Whether it has ended, reaped or not.
    pub(crate) fn has_ended(&self) -> bool {
        let mut ended = [PollFd::new(&*self.0, PollFlags::IN)];
        poll(&mut ended, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    /// Waits until it has ended, for [`GRACE`] at most.
    pub(crate) async fn ended(&self) -> io::Result<()> {
        #[expect(
            deprecated,
            reason = "the safe one of two: what its successor asks the caller to uphold, an \
                      `OwnedFd` upholds"
        )]
        let pidfd = AsyncFd::with_interest(self.0.try_clone()?, Interest::READABLE)?;
        // It is readable from the end on, for ever.
        let readable = tokio::time::timeout(GRACE, pidfd.readable()).await;
        readable
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
            .map(drop)
    }
}

/// Everything of a sandbox that may not be up yet. Dropping it takes it down.
#[derive(Debug)]
pub(crate) struct Starting {
    // Absent once taken apart.
    parts: Option<Parts>,
}

#[derive(Debug)]
struct Parts {
    child: Child,
    info: Info,
    group: Option<Group>,
    words: LastWords,
}

#[derive(Debug)]
enum Info {
    Awaited(pipe::Receiver),
    Pid(Init),
    Nothing,
}

impl Starting {
    pub(crate) fn new(
        child: Child,
        info: pipe::Receiver,
        group: Option<Group>,
        words: LastWords,
    ) -> Self {
        Self {
            parts: Some(Parts {
                child,
                info: Info::Awaited(info),
                group,
                words,
            }),
        }
    }

    /// PID 1 and how the host numbers it; `None` when `bwrap` ended before it said so.
    pub(crate) async fn pid(&mut self) -> Result<(Pid, Init), Option<Error>> {
        let Some(Parts { info, .. }) = &mut self.parts else {
            return Err(None);
        };
        let Info::Awaited(receiver) = info else {
            return Err(None);
        };
        let mut text = Vec::new();
        while !text.contains(&b'}') && text.len() < MAX_INFO {
            match receiver.read_buf(&mut text).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(err) => return Err(Some(Error::Start(err))),
            }
        }
        let pid = child_pid(&text).ok_or(None)?;
        let init = Init::open(pid).map_err(|err| match err.raw_os_error() {
            // It ended before we looked: `bwrap` says why.
            Some(libc::ESRCH) => None,
            _ => Some(Error::Start(err)),
        })?;
        *info = Info::Pid(init.clone());
        Ok((pid, init))
    }

    /// Takes it down and says how `bwrap` ended and what it printed.
    pub(crate) async fn give_up(mut self) -> (String, String) {
        let Some(mut parts) = self.parts.take() else {
            return (String::new(), String::new());
        };
        parts.kill();
        let status = match tokio::time::timeout(GRACE, parts.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(err)) => err.to_string(),
            Err(_) => "it hangs".to_owned(),
        };
        if let Some(group) = parts.group.take() {
            // What could not be removed is in the janitor's care.
            let _ = group.remove().await;
        }
        (status, parts.words.read())
    }

    /// It is up.
    pub(crate) fn finish(
        mut self,
        entry: Option<Box<Entry>>,
        lifetime: Option<Duration>,
        started: Instant,
    ) -> Result<Running, Error> {
        let Some(Parts {
            child,
            info: Info::Pid(init),
            group,
            words,
        }) = self.parts.take()
        else {
            return Err(Error::Start(io::ErrorKind::NotConnected.into()));
        };
        let timer = match lifetime {
            Some(lifetime) if entry.is_none() => {
                let init = init.clone();
                let left = lifetime.saturating_sub(started.elapsed());
                let timer = tokio::spawn(async move {
                    tokio::time::sleep(left).await;
                    init.kill();
                });
                Some(timer.abort_handle())
            }
            _ => None,
        };
        Ok(Running {
            child: Mutex::new(child),
            init,
            group,
            words,
            entry,
            released: false,
            timer,
            lifetime,
            started,
        })
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(mut parts) = self.parts.take() {
            // Its cgroup goes with the rest of it.
            parts.kill();
        }
    }
}

impl Parts {
    /// Kills PID 1. `bwrap` itself is left to end by that: killed before it lets PID 1 go on, it
    /// would leave it waiting for ever.
    fn kill(&mut self) {
        let init = match std::mem::replace(&mut self.info, Info::Nothing) {
            Info::Pid(init) => Some(init),
            // Blocks for as long as `bwrap` needs for one `clone`, at most.
            Info::Awaited(receiver) => receiver
                .into_blocking_fd()
                .ok()
                .and_then(|info| Init::open(read_pid(info)?).ok()),
            Info::Nothing => None,
        };
        if let Some(init) = init {
            init.kill();
        }
    }
}

fn read_pid(info: OwnedFd) -> Option<Pid> {
    let mut text = Vec::new();
    let info = io::BufReader::new(std::fs::File::from(info));
    for byte in info.take(MAX_INFO as u64).bytes() {
        text.push(byte.ok()?);
        if text.ends_with(b"}") {
            break;
        }
    }
    child_pid(&text)
}

fn child_pid(info: &[u8]) -> Option<Pid> {
    #[derive(serde::Deserialize)]
    struct Info {
        #[serde(rename = "child-pid")]
        child_pid: i32,
    }
    let info: Info = serde_json::from_slice(info).ok()?;
    positive(info.child_pid)
}

/// `Pid::from_raw` panics below zero.
pub(crate) fn positive(pid: i32) -> Option<Pid> {
    (pid > 0).then(|| Pid::from_raw(pid)).flatten()
}

/// A sandbox of this process.
#[derive(Debug)]
pub(crate) struct Running {
    child: Mutex<Child>,
    init: Init,
    group: Option<Group>,
    words: LastWords,
    /// Of a sandbox that may outlive this process.
    entry: Option<Box<Entry>>,
    released: bool,
    timer: Option<AbortHandle>,
    lifetime: Option<Duration>,
    started: Instant,
}

impl Running {
    async fn take_down(&mut self) -> io::Result<()> {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
        self.init.kill();
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        match tokio::time::timeout(GRACE, child.wait()).await {
            Ok(ended) => drop(ended?),
            Err(_) => child.kill().await?,
        }
        if let Some(group) = self.group.take() {
            group.remove().await?;
        }
        if let Some(entry) = self.entry.take() {
            entry.remove()?;
        }
        Ok(())
    }
}

#[async_trait]
impl Teardown for Running {
    async fn destroy(&mut self) -> Result<()> {
        let done = self.take_down().await;
        done.map_err(|err| Error::Destroy(err).during(Phase::Destroy))
    }

    fn kill(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
        self.init.kill();
        if let Some(group) = self.group.take() {
            group.abandon();
        }
        if let Some(mut entry) = self.entry.take() {
            entry.reclaim();
        }
    }

    fn release(&mut self) {
        if let Some(entry) = &mut self.entry {
            entry.release();
            if let Some(group) = &mut self.group {
                group.release();
            }
            self.released = true;
        }
    }

    fn obituary(&self) -> Option<namzu_core::Error> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let status = child.try_wait().ok().flatten()?;
        let starved = self
            .group
            .as_ref()
            .is_some_and(|group| group.oom_kills() > 0);
        let expired = self
            .lifetime
            .is_some_and(|lifetime| self.started.elapsed() >= lifetime);
        let err = if expired {
            Error::Lifetime
        } else if starved {
            Error::OutOfMemory
        } else {
            match self.words.read() {
                said if said.is_empty() => Error::Lost(status.to_string()),
                said => Error::Lost(format!("{status}: {said}")),
            }
        };
        Some(err.during(Phase::Exec))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.released {
            self.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_is_read_and_nothing_else() {
        let pid = |text: &str| {
            child_pid(text.as_bytes())
                .map(Pid::as_raw_nonzero)
                .map(std::num::NonZeroI32::get)
        };
        assert_eq!(
            pid("{\n \"child-pid\": 42,\n \"ipc-namespace\": 1\n}\n"),
            Some(42)
        );
        assert_eq!(pid("{\"child-pid\": 0}"), None);
        assert_eq!(pid("{\"child-pid\": -1}"), None);
        assert_eq!(pid(""), None);
    }

    #[tokio::test]
    async fn a_sandbox_that_ended_before_it_was_seen_is_left_to_its_cause() {
        use std::io::Write as _;

        let mut gone = namzu_core::spawn::command("true").spawn().unwrap();
        let pid = gone.id().unwrap();
        gone.wait().await.unwrap();
        let (ours, mut theirs) = io::pipe().unwrap();
        write!(theirs, "{{\"child-pid\": {pid}}}").unwrap();
        drop(theirs);
        let mut starting = Starting::new(
            gone,
            pipe::Receiver::from_owned_fd(ours.into()).unwrap(),
            None,
            LastWords::new().unwrap(),
        );
        assert!(matches!(starting.pid().await, Err(None)));
    }
}
