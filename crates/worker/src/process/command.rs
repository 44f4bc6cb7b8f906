//! One command: its state, its input, its signals.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::SystemTime;

use bytes::Bytes;
use rustix::process::Signal;
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::log::{Log, Position};
use super::subscription::Subscription;
use super::tree::{self, Leader, Target};
use super::{Exit, PerStream, Size};

/// The first subscription may be this far behind before the command has to wait.
const WINDOW: u64 = 256 * 1024;
/// envd's sizes of a data event.
const PIPE_CHUNK: usize = 32 * 1024;
const PTY_CHUNK: usize = 16 * 1024;
/// For those who speak our extensions.
pub(crate) const LARGE_CHUNK: usize = 128 * 1024;

/// What a list says about a command, apart from its state.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) argv: Vec<String>,
    pub(crate) envs: Vec<(String, String)>,
    pub(crate) cwd: Option<String>,
    pub(crate) tag: Option<String>,
}

impl Description {
    /// Bytes of memory, about.
    pub(super) fn weight(&self) -> usize {
        let variables = self.envs.iter().flat_map(|(name, value)| [name, value]);
        let texts = self
            .argv
            .iter()
            .chain(variables)
            .chain(&self.cwd)
            .chain(&self.tag);
        texts.map(|text| size_of::<String>() + text.len()).sum()
    }
}

/// A command, from its start until it is forgotten some time after its end.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) description: Description,
    pub(crate) started: SystemTime,
    pub(super) started_at: Instant,
    pub(super) cookie: String,
    /// How often the memory limit had killed before the start.
    pub(super) kills_before: u64,
    pub(super) kill_on_disconnect: bool,
    /// Rung when the first subscription has read, or is gone.
    pub(super) room: Notify,
    /// Rung when the leader was reaped.
    pub(super) exited: Notify,
    pub(super) stdin: tokio::sync::Mutex<Option<AsyncFd<OwnedFd>>>,
    pub(super) terminal: Mutex<Option<Arc<AsyncFd<OwnedFd>>>>,
    pub(super) has_terminal: bool,
    pub(super) pump: Mutex<Option<AbortHandle>>,
    state: Mutex<State>,
}

/// The part of a command that changes.
#[derive(Debug)]
pub(super) struct State {
    pub(super) log: Log,
    /// Where the first subscription is, while there is one.
    first: Option<Position>,
    wakers: Vec<Option<Slot>>,
    /// How the leader ended, from the moment it is reaped.
    pub(super) reaped: Option<Reaped>,
    pub(super) timed_out: bool,
    /// The worker itself has sent SIGKILL.
    killed: bool,
    pub(super) expired: bool,
    pub(super) end: Option<Exit>,
    pub(super) ended_at: Option<Instant>,
}

#[derive(Debug)]
struct Slot(Option<Waker>);

/// What the kernel says about an ended leader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reaped {
    pub(crate) code: i32,
    pub(crate) signal: i32,
    pub(crate) oom: bool,
    pub(crate) user: std::time::Duration,
    pub(crate) system: std::time::Duration,
    pub(crate) max_rss: u64,
    pub(crate) at: Instant,
    /// The same moment in the kernel's ticks since boot: from then on its number may be reused.
    pub(crate) ticks: u64,
}

/// Why input was not taken.
#[derive(Debug)]
pub(crate) enum InputError {
    /// There is no standard input, or it is closed, or nobody reads it any more.
    Closed,
    /// Terminal input for a command without one, or pipe input for a command with one.
    WrongKind,
    /// The terminal refused.
    Failed(io::Error),
}

impl State {
    pub(super) fn new(retain: usize) -> Self {
        Self {
            log: Log::new(retain),
            first: Some(Log::start()),
            wakers: Vec::new(),
            reaped: None,
            timed_out: false,
            killed: false,
            expired: false,
            end: None,
            ended_at: None,
        }
    }

    pub(super) fn subscribe(&mut self) -> usize {
        let slot = Some(Slot(None));
        if let Some(free) = self.wakers.iter().position(Option::is_none) {
            self.wakers[free] = slot;
            return free;
        }
        self.wakers.push(slot);
        self.wakers.len() - 1
    }

    pub(super) fn unsubscribe(&mut self, slot: usize) {
        self.wakers[slot] = None;
    }

    pub(super) fn wait(&mut self, slot: usize, waker: &Waker) {
        if let Some(Slot(place)) = &mut self.wakers[slot] {
            match place {
                Some(known) => known.clone_from(waker),
                None => *place = Some(waker.clone()),
            }
        }
    }

    fn wake(&mut self) {
        let waiting = self
            .wakers
            .iter_mut()
            .flatten()
            .filter_map(|slot| slot.0.take());
        waiting.for_each(Waker::wake);
    }

    /// The first subscription has read up to `position`; whether that made room.
    pub(super) fn first_read(&mut self, position: Position) -> bool {
        let had_room = self.has_room();
        self.first = Some(position);
        self.log.trim(self.first.as_ref());
        !had_room && self.has_room()
    }

    pub(super) fn release_first(&mut self) {
        self.first = None;
        self.log.trim(None);
    }

    /// Keeps nothing but what the first subscription has still to read.
    pub(super) fn forget_output(&mut self) {
        self.log.stop_retaining(self.first.as_ref());
    }

    /// Whether the command may write on.
    pub(super) fn has_room(&self) -> bool {
        self.first
            .is_none_or(|position| self.log.lag(&position) < WINDOW)
    }

    pub(super) fn push(&mut self, stream: super::Stream, bytes: Bytes) {
        self.log.push(stream, bytes, self.first.as_ref());
        self.wake();
    }

    /// The deadline passed: the first subscription is told so at once, and nothing else after it.
    pub(super) fn expire(&mut self) {
        self.expired = true;
        self.wake();
    }

    pub(super) fn finish(&mut self, exit: Exit) {
        self.end = Some(exit);
        self.ended_at = Some(Instant::now());
        self.wake();
    }
}

impl Process {
    #[expect(
        clippy::too_many_arguments,
        reason = "one caller, which has each of them at hand"
    )]
    pub(super) fn new(
        pid: i32,
        description: Description,
        cookie: String,
        kills_before: u64,
        kill_on_disconnect: bool,
        retain: usize,
        stdin: Option<AsyncFd<OwnedFd>>,
        terminal: Option<Arc<AsyncFd<OwnedFd>>>,
        started_at: Instant,
    ) -> Self {
        Self {
            pid,
            description,
            started: SystemTime::now(),
            started_at,
            cookie,
            kills_before,
            kill_on_disconnect,
            room: Notify::new(),
            exited: Notify::new(),
            stdin: tokio::sync::Mutex::new(stdin),
            has_terminal: terminal.is_some(),
            terminal: Mutex::new(terminal),
            pump: Mutex::new(None),
            state: Mutex::new(State::new(retain)),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn chunk_bytes(&self) -> usize {
        if self.has_terminal {
            PTY_CHUNK
        } else {
            PIPE_CHUNK
        }
    }

    /// How it ended, once it has.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.state().end
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> PerStream {
        self.state().log.written()
    }

    /// A subscription to what is written from now on, and the end.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription {
        let position = self.state().log.end();
        Subscription::new(Arc::clone(self), position, false)
    }

    /// A subscription from the byte offsets `cursor` on.
    ///
    /// # Errors
    /// The oldest offsets still held, when a wanted byte is gone.
    pub(crate) fn subscribe_at(
        self: &Arc<Self>,
        cursor: PerStream,
    ) -> Result<Subscription, PerStream> {
        let position = {
            let state = self.state();
            state.log.at(cursor).ok_or_else(|| state.log.oldest())?
        };
        Ok(Subscription::new(Arc::clone(self), position, false))
    }

    /// Writes all of `bytes` to standard input; waits while the pipe is full.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a part written.
    pub(crate) async fn write_stdin(&self, bytes: &[u8]) -> Result<(), InputError> {
        if self.has_terminal {
            return Err(InputError::WrongKind);
        }
        let mut stdin = self.stdin.lock().await;
        let Some(pipe) = stdin.as_ref() else {
            return Err(InputError::Closed);
        };
        let written = write_all(pipe, bytes).await;
        if written.is_err() {
            *stdin = None;
        }
        written.map_err(|_| InputError::Closed)
    }

    /// Writes all of `bytes` to the terminal.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a part written.
    pub(crate) async fn write_terminal(&self, bytes: &[u8]) -> Result<(), InputError> {
        let terminal = self.terminal().ok_or(InputError::WrongKind)?;
        // One writer at a time, as for a pipe.
        let _turn = self.stdin.lock().await;
        write_all(&terminal, bytes)
            .await
            .map_err(InputError::Failed)
    }

    /// Ends standard input; twice is harmless.
    pub(crate) async fn close_stdin(&self) -> Result<(), InputError> {
        if self.has_terminal {
            return Err(InputError::WrongKind);
        }
        *self.stdin.lock().await = None;
        Ok(())
    }

    /// Sets the size of the terminal.
    pub(crate) fn resize(&self, size: Size) -> Result<(), InputError> {
        let terminal = self.terminal().ok_or(InputError::WrongKind)?;
        tcsetwinsize(terminal.get_ref(), winsize(size))
            .map_err(|error| InputError::Failed(error.into()))
    }

    fn terminal(&self) -> Option<Arc<AsyncFd<OwnedFd>>> {
        self.terminal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Kills every process of the command with SIGKILL; returns how many were hit.
    pub(crate) fn kill_tree(&self) -> usize {
        self.mark_killed();
        tree::kill(Target::Commands(&[self.leader()]))
    }

    /// Signals every process of the command once; returns how many were hit.
    pub(crate) fn signal_tree(&self, signal: Signal) -> usize {
        tree::signal(Target::Commands(&[self.leader()]), signal)
    }

    /// Signals the leader's group; whether there was anybody in it.
    pub(crate) fn signal_group(&self, signal: Signal) -> bool {
        if self.state().reaped.is_some() {
            // The number of the group may be somebody else's by now; the tree knows them apart.
            return self.signal_tree(signal) > 0;
        }
        rustix::process::Pid::from_raw(self.pid)
            .is_some_and(|group| rustix::process::kill_process_group(group, signal).is_ok())
    }

    /// Signals the leader alone; whether it was there.
    pub(crate) fn signal_leader(&self, signal: Signal) -> bool {
        // Once it is reaped its number may be somebody else's.
        let running = self.state().reaped.is_none();
        let leader = rustix::process::Pid::from_raw(self.pid).filter(|_| running);
        if signal == Signal::KILL {
            self.mark_killed();
        }
        leader.is_some_and(|leader| rustix::process::kill_process(leader, signal).is_ok())
    }

    /// A SIGKILL from the worker is on its way.
    pub(super) fn mark_killed(&self) {
        self.state().killed = true;
    }

    /// Whether the worker itself has sent SIGKILL.
    pub(super) fn was_killed(&self) -> bool {
        self.state().killed
    }

    /// By what its processes are told.
    pub(super) fn leader(&self) -> Leader {
        Leader {
            pid: self.pid,
            cookie: self.cookie.clone(),
            reaped: self.state().reaped.map(|reaped| reaped.ticks),
        }
    }

    /// Takes what the kernel says about the ended leader.
    pub(super) fn set_reaped(&self, reaped: Reaped) {
        self.state().reaped = Some(reaped);
        self.exited.notify_one();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pump = self.pump.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(pump) = pump.take() {
            pump.abort();
        }
    }
}

pub(super) fn winsize(size: Size) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

async fn write_all(fd: &AsyncFd<OwnedFd>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut ready = fd.writable().await?;
        match ready.try_io(|fd| Ok(rustix::io::write(fd, bytes)?)) {
            Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(Ok(written)) => bytes = &bytes[written..],
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Err(error),
            Err(_would_block) => {}
        }
    }
    Ok(())
}
