//! The commands of one worker: by pid, by tag, running and lately ended.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::command::{Process, Reaped};
use super::tree::{self, Target};
use super::{Handle, StartError, StartSpec, start};
use super::{oom, pump};
use crate::config::Config;
use crate::pool::Pool;
use crate::reaper;

/// An ended command can be asked for its end this long, unless very many end.
const KEEP: Duration = Duration::from_secs(60);
/// No more ended commands than this are kept.
const MOST_ENDED: usize = 4096;
/// The output of all ended commands together; beyond it the oldest lose theirs.
const ENDED_BYTES: usize = 4 << 20;
/// Their arguments, variables and names together; beyond it the oldest are forgotten.
const ENDED_DESCRIBED: usize = 4 << 20;

/// By what a command is found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Selector {
    Pid(i32),
    /// The latest one of this name.
    Tag(String),
}

/// Commands by pid and tag.
#[derive(Debug)]
pub(crate) struct Table {
    config: Arc<Config>,
    /// What commands may have open: the worker's own limit before it was raised.
    open_files: Rlimit,
    pool: Arc<Pool>,
    shared: Arc<Shared>,
}

/// What the pumps of commands reach.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Rung when a command ends.
    ended: Notify,
}

#[derive(Debug)]
struct State {
    commands: HashMap<i32, Arc<Process>>,
    /// Leaders not reaped yet. A pid here cannot be anybody else's.
    unreaped: HashMap<i32, Arc<Process>>,
    /// In the order of their end.
    ended: VecDeque<Arc<Process>>,
    /// Those of `ended` that hold output, in the same order, and how much of it.
    holding: VecDeque<(Arc<Process>, usize)>,
    held: usize,
    /// The size of what is known of `ended` otherwise.
    described: usize,
    oom: oom::Watch,
}

impl Table {
    /// `memory_events` counts what the memory limit has killed; see the worker's option.
    pub(crate) fn new(config: Arc<Config>, memory_events: Option<OwnedFd>) -> Self {
        let state = State {
            commands: HashMap::new(),
            unreaped: HashMap::new(),
            ended: VecDeque::new(),
            holding: VecDeque::new(),
            held: 0,
            described: 0,
            oom: oom::Watch::new(memory_events),
        };
        Self {
            config,
            open_files: raise_open_files(),
            pool: pump::pool(),
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                ended: Notify::new(),
            }),
        }
    }

    /// Starts a command. It runs on when the handle is dropped, unless the spec says otherwise.
    ///
    /// # Errors
    /// Nothing was started then.
    pub(crate) fn start(&self, spec: StartSpec) -> Result<Handle, StartError> {
        // Before the start: it may be killed at once.
        let kills_before = self.shared.state().oom.count();
        let mut starting = start::start(
            &self.config,
            self.open_files,
            &self.pool,
            kills_before,
            spec,
        )?;
        let pump = starting.pump(Arc::clone(&self.shared));
        let process = Arc::clone(&starting.handle.process);
        {
            // No await lies between the start and this, so the exit cannot have been reaped yet.
            let mut state = self.shared.state();
            state.commands.insert(process.pid, Arc::clone(&process));
            state.unreaped.insert(process.pid, Arc::clone(&process));
        }
        let pump = tokio::spawn(pump);
        *process.pump.lock().unwrap_or_else(PoisonError::into_inner) = Some(pump.abort_handle());
        Ok(starting.handle)
    }

    /// All commands known, the ended ones among them.
    pub(crate) fn list(&self) -> Vec<Arc<Process>> {
        let mut all: Vec<_> = self.shared.state().commands.values().cloned().collect();
        all.sort_by_key(|process| (process.started, process.pid));
        all
    }

    /// The command that `selector` means.
    pub(crate) fn find(&self, selector: &Selector) -> Option<Arc<Process>> {
        match selector {
            Selector::Pid(pid) => self.shared.state().commands.get(pid).cloned(),
            Selector::Tag(tag) => self
                .list()
                .into_iter()
                .rfind(|process| process.description.tag.as_ref() == Some(tag)),
        }
    }

    /// Whether any command runs.
    pub(crate) fn is_busy(&self) -> bool {
        let state = self.shared.state();
        state.commands.len() > state.ended.len()
    }

    /// Takes the exits of all children that have one, commands or adopted orphans.
    pub(crate) fn reap(&self) {
        while let Some(child) = reaper::next() {
            let mut state = self.shared.state();
            let Some(process) = state.unreaped.remove(&child.pid) else {
                continue;
            };
            let killed = child.signal == Signal::KILL.as_raw() && !process.was_killed();
            let oom = killed && state.oom.claim(process.kills_before);
            if !killed {
                state.oom.settle();
            }
            drop(state);
            process.set_reaped(Reaped {
                code: child.code,
                signal: child.signal,
                oom,
                user: child.user,
                system: child.system,
                max_rss: child.max_rss,
                at: Instant::now(),
                ticks: tree::ticks_since_boot(),
            });
        }
    }

    /// Kills the commands and what they started. As init, everything below the worker.
    pub(crate) fn kill_everything(&self) {
        let running: Vec<_> = self.shared.state().unreaped.values().cloned().collect();
        running.iter().for_each(|process| process.mark_killed());
        if self.config.init {
            tree::kill(Target::Everything);
        } else {
            let all = self.list();
            let leaders: Vec<_> = all.iter().map(|process| process.leader()).collect();
            tree::kill(Target::Commands(&leaders));
        }
    }

    /// Forgets ended commands in time. Never returns.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn forget_ended(&self) {
        loop {
            let next = self.shared.state().forget(Instant::now());
            match next {
                Some(when) => sleep_until(when).await,
                None => self.shared.ended.notified().await,
            }
        }
    }
}

/// Every command costs the worker some descriptors; returns the limit as it was.
fn raise_open_files() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: before.maximum,
        ..before
    };
    // Without it fewer commands fit, and one too many says so.
    let _ = setrlimit(Resource::Nofile, raised);
    before
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command has told its end.
    pub(super) fn retire(&self, process: &Arc<Process>) {
        let mut state = self.state();
        state.ended.push_back(Arc::clone(process));
        let held = process.state().log.held();
        if held > 0 {
            state.holding.push_back((Arc::clone(process), held));
            state.held += held;
        }
        while state.held > ENDED_BYTES {
            state.empty_oldest();
        }
        state.described += process.description.weight();
        while state.ended.len() > MOST_ENDED || state.described > ENDED_DESCRIBED {
            state.forget_oldest();
        }
        drop(state);
        self.ended.notify_one();
    }
}

impl State {
    /// Forgets what is due, and says when something will be.
    fn forget(&mut self, now: Instant) -> Option<Instant> {
        loop {
            let oldest = self.ended.front()?.state().ended_at? + KEEP;
            if oldest > now {
                return Some(oldest);
            }
            self.forget_oldest();
        }
    }

    fn empty_oldest(&mut self) {
        if let Some((process, held)) = self.holding.pop_front() {
            self.held -= held;
            process.state().forget_output();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(process) = self.ended.pop_front() else {
            return;
        };
        self.described -= process.description.weight();
        if self
            .holding
            .front()
            .is_some_and(|(holding, _)| Arc::ptr_eq(holding, &process))
        {
            self.empty_oldest();
        }
        // The number may be a newer command's by now.
        if self
            .commands
            .get(&process.pid)
            .is_some_and(|known| Arc::ptr_eq(known, &process))
        {
            self.commands.remove(&process.pid);
        }
    }
}
