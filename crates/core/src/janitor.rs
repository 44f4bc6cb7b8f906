//! Has things removed that this process cannot remove itself, because it was killed.

use std::ffi::OsStr;
use std::io::{self, PipeWriter, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::process::Child;
use tokio::runtime::Handle;

use crate::spawn::{Setup, command, prepare};

/// A process beside this one that removes every guarded path once this one is gone.
///
/// It is started with the first path, and again, with all that is in care, should it have died. It
/// ends by itself when the last handle is dropped, or when this process dies.
#[derive(Debug)]
pub struct Janitor {
    worker: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    process: Option<Process>,
    in_care: Vec<PathBuf>,
}

#[derive(Debug)]
struct Process {
    records: PipeWriter,
    #[cfg_attr(not(test), expect(dead_code, reason = "reaped by tokio once it ends"))]
    child: Child,
}

/// A path in the janitor's care. Dropping it leaves it there.
#[derive(Debug)]
pub struct InCare {
    janitor: Arc<Janitor>,
    path: PathBuf,
}

impl Janitor {
    /// One that `worker`, a file holding the worker, is to be. Starts nothing yet.
    #[must_use]
    pub fn new(worker: OwnedFd) -> Arc<Self> {
        Arc::new(Self {
            worker,
            state: Mutex::default(),
        })
    }

    /// Has `path` removed after the death of this process, unless [`InCare::release`]d before.
    ///
    /// # Errors
    ///
    /// Those of `pipe` and of starting a process.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O.
    pub fn guard(self: &Arc<Self>, path: impl Into<PathBuf>) -> io::Result<InCare> {
        let path = path.into();
        let mut state = self.lock();
        self.tell(&mut state, b'+', &path)?;
        state.in_care.push(path.clone());
        drop(state);
        Ok(InCare {
            janitor: Arc::clone(self),
            path,
        })
    }

    /// Has `path` removed now, without waiting for it.
    pub fn remove(&self, path: &Path) {
        let mut state = self.lock();
        state.in_care.retain(|kept| kept != path);
        // Without a janitor nothing is removed here; the next sweep does.
        let _ = self.tell(&mut state, b'!', path);
    }

    fn release(&self, path: &Path) {
        let mut state = self.lock();
        state.in_care.retain(|kept| kept != path);
        if let Some(process) = &mut state.process {
            // One that is gone removes nothing either, and is told the rest when it is started anew.
            let _ = process.tell(b'-', path);
        }
    }

    fn tell(&self, state: &mut State, sign: u8, path: &Path) -> io::Result<()> {
        if let Some(process) = &mut state.process
            && process.tell(sign, path).is_ok()
        {
            return Ok(());
        }
        state.process = None;
        // `Drop` may run anywhere.
        if Handle::try_current().is_err() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let mut process = Process::start(&self.worker)?;
        for kept in &state.in_care {
            process.tell(b'+', kept)?;
        }
        process.tell(sign, path)?;
        state.process = Some(process);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    fn start(worker: &OwnedFd) -> io::Result<Self> {
        let (input, records) = io::pipe()?;
        let mut janitor = command(format!("/proc/self/fd/{}", worker.as_raw_fd()));
        janitor
            .arg("janitor")
            .current_dir("/")
            .stdin(input)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .kill_on_drop(false);
        prepare(
            &mut janitor,
            Setup {
                session: true,
                ..Setup::default()
            },
        );
        Ok(Self {
            records,
            child: janitor.spawn()?,
        })
    }

    fn tell(&mut self, sign: u8, path: &Path) -> io::Result<()> {
        let path: &OsStr = path.as_os_str();
        // In one piece, so that a death of this process leaves no half of one.
        let mut record = Vec::with_capacity(path.len() + 2);
        record.push(sign);
        record.extend_from_slice(path.as_bytes());
        record.push(0);
        self.records.write_all(&record)
    }
}

impl InCare {
    /// Has the path removed now, without waiting for it.
    pub fn remove(self) {
        self.janitor.remove(&self.path);
    }

    /// Takes the path back: it has been removed, or is to stay.
    pub fn release(self) {
        self.janitor.release(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_that_died_is_replaced_and_nothing_in_care_is_forgotten() {
        // `grep janitor` reads its input to the end, as a janitor does.
        let stand_in = std::fs::File::open("/usr/bin/grep").unwrap();
        let janitor = Janitor::new(stand_in.into());
        let kept = janitor.guard("/kept").unwrap();
        let released = janitor.guard("/released").unwrap();
        let mut process = janitor.lock().process.take().unwrap();
        let first = process.child.id();
        process.child.kill().await.unwrap();
        janitor.lock().process = Some(process);
        released.release();
        let new = janitor.guard("/new").unwrap();
        let state = janitor.lock();
        let second = state.process.as_ref().unwrap().child.id();
        assert!(second.is_some() && second != first);
        assert_eq!(state.in_care, ["/kept", "/new"].map(PathBuf::from));
        drop(state);
        kept.release();
        new.remove();
        assert_eq!(janitor.lock().in_care, [""; 0].map(PathBuf::from));
    }
}
