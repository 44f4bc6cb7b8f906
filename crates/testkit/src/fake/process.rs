//! One simulated command: its input, its output as it is kept, and who listens.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use namzu_protocol::connect::Code;
use namzu_protocol::process as wire;
use tokio::sync::watch;

use crate::fake::reply::Refusal;

/// Bytes of each stream that are kept for who comes later.
const KEPT: usize = 1 << 20;
/// How far a command may run ahead of its slowest listener.
const AHEAD: u64 = 512 << 10;
/// Bytes of one event.
const CHUNK: usize = 64 << 10;

pub(crate) const STDOUT: usize = 0;
pub(crate) const STDERR: usize = 1;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
    TimedOut,
    OutOfMemory,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) tag: Option<String>,
    pub(crate) config: wire::ProcessConfig,
    started: SystemTime,
    state: Mutex<State>,
    /// Counts every change of the state.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    output: [Log; 2],
    input: VecDeque<u8>,
    input_open: bool,
    signal: Option<i32>,
    exit: Option<Exit>,
    listeners: BTreeMap<u64, [u64; 2]>,
    next_listener: u64,
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
struct Log {
    kept: VecDeque<u8>,
    total: u64,
}

impl Log {
    fn oldest(&self) -> u64 {
        self.total - self.kept.len() as u64
    }

    fn push(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        self.total += bytes.len() as u64;
        let excess = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..excess);
    }

    fn from(&self, cursor: u64) -> Bytes {
        let skip = usize::try_from(cursor.saturating_sub(self.oldest())).unwrap_or(usize::MAX);
        self.kept.iter().skip(skip).take(CHUNK).copied().collect()
    }
}

impl Process {
    pub(crate) fn new(
        pid: u32,
        tag: Option<String>,
        config: wire::ProcessConfig,
        input_open: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            pid,
            tag,
            config,
            started: SystemTime::now(),
            state: Mutex::new(State {
                input_open,
                ..State::default()
            }),
            changes: watch::Sender::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Waits until `ready` answers.
    async fn when<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut changes = self.changes.subscribe();
        loop {
            if let Some(answer) = ready(&mut self.state()) {
                return answer;
            }
            // The sender lives as long as `self`.
            let _ = changes.changed().await;
        }
    }

    /// Prints, once the slowest listener is near enough.
    pub(crate) async fn print(&self, stream: usize, bytes: &[u8]) {
        for piece in bytes.chunks(CHUNK) {
            self.when(|state| {
                let log = &mut state.output[stream];
                let slowest = state.listeners.values().map(|cursor| cursor[stream]).min();
                if slowest.is_some_and(|slowest| log.total - slowest > AHEAD) {
                    return None;
                }
                log.push(piece);
                Some(())
            })
            .await;
            self.changed();
        }
    }

    /// The next bytes of its input; `None` at the end.
    pub(crate) async fn read(&self) -> Option<Vec<u8>> {
        self.when(|state| {
            if !state.input.is_empty() {
                return Some(Some(state.input.drain(..).collect()));
            }
            (!state.input_open).then_some(None)
        })
        .await
    }

    pub(crate) fn feed(&self, bytes: &[u8]) -> Result<(), Refusal> {
        let mut state = self.state();
        if state.exit.is_some() {
            return Err(Refusal::new(Code::NotFound, "the process has ended"));
        }
        if !state.input_open {
            return Err(Refusal::new(
                Code::FailedPrecondition,
                "its input is closed",
            ));
        }
        state.input.extend(bytes);
        drop(state);
        self.changed();
        Ok(())
    }

    pub(crate) fn close_input(&self) {
        self.state().input_open = false;
        self.changed();
    }

    pub(crate) fn signal(&self, number: i32) {
        self.state().signal.get_or_insert(number);
        self.changed();
    }

    /// Waits for a signal.
    pub(crate) async fn signalled(&self) -> i32 {
        self.when(|state| state.signal).await
    }

    pub(crate) fn end(&self, exit: Exit) {
        self.state().exit.get_or_insert(exit);
        self.changed();
    }

    /// Positions before which nothing is kept.
    pub(crate) fn oldest(&self) -> [u64; 2] {
        let state = self.state();
        [state.output[0].oldest(), state.output[1].oldest()]
    }

    pub(crate) fn info(&self) -> wire::ProcessInfo {
        let state = self.state();
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        wire::ProcessInfo {
            config: Some(self.config.clone()),
            pid: self.pid,
            tag: self.tag.clone(),
            state: Some(wire::ProcessState {
                running: state.exit.is_none(),
                started_unix_ms: u64::try_from(started.as_millis()).unwrap_or(u64::MAX),
                exit: state.exit.map(|exit| end_event(exit, &state)),
                stdout_bytes: state.output[STDOUT].total,
                stderr_bytes: state.output[STDERR].total,
            }),
        }
    }
}

fn end_event(exit: Exit, state: &State) -> wire::EndEvent {
    let (code, signal) = match exit {
        Exit::Code(code) => (code, 0),
        Exit::Signal(signal) => (-1, signal),
        Exit::TimedOut | Exit::OutOfMemory => (-1, 9),
    };
    wire::EndEvent {
        exit_code: code,
        exited: signal == 0,
        status: match signal {
            0 => format!("exit status {code}"),
            signal => format!("signal: {signal}"),
        },
        error: None,
        info: Some(wire::EndInfo {
            signal,
            timed_out: exit == Exit::TimedOut,
            oom: exit == Exit::OutOfMemory,
            stdout_bytes: state.output[STDOUT].total,
            stderr_bytes: state.output[STDERR].total,
            duration_us: 1,
            ..wire::EndInfo::default()
        }),
    }
}

/// One listener of a command.
#[derive(Debug)]
pub(crate) struct Subscription {
    process: Arc<Process>,
    listener: u64,
    begun: bool,
    over: bool,
    /// Whether the command dies with this listener.
    owns: bool,
}

impl Subscription {
    pub(crate) fn new(process: &Arc<Process>, from: [u64; 2], owns: bool) -> Self {
        let mut state = process.state();
        let listener = state.next_listener;
        state.next_listener += 1;
        state.listeners.insert(listener, from);
        Self {
            process: Arc::clone(process),
            listener,
            begun: false,
            over: false,
            owns,
        }
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.over
    }

    /// The next event; `None` after the end.
    pub(crate) async fn next(&mut self) -> Option<wire::ProcessEvent> {
        use wire::data_event::Output;
        use wire::process_event::Event;
        if self.over {
            return None;
        }
        if !self.begun {
            self.begun = true;
            let start = wire::StartEvent {
                pid: self.process.pid,
            };
            return Some(Event::Start(start).into());
        }
        let listener = self.listener;
        let event = self
            .process
            .when(|state| {
                let State {
                    output, listeners, ..
                } = state;
                let cursor = listeners.get_mut(&listener)?;
                for stream in [STDOUT, STDERR] {
                    let bytes = output[stream].from(cursor[stream]);
                    if bytes.is_empty() {
                        continue;
                    }
                    let offset = cursor[stream].max(output[stream].oldest());
                    let skipped = offset - cursor[stream];
                    cursor[stream] = offset + bytes.len() as u64;
                    return Some(Event::Data(wire::DataEvent {
                        output: Some(match stream {
                            STDOUT => Output::Stdout(bytes),
                            _ => Output::Stderr(bytes),
                        }),
                        offset,
                        skipped,
                    }));
                }
                state.exit.map(|exit| Event::End(end_event(exit, state)))
            })
            .await;
        self.over = matches!(event, Event::End(_));
        // A command may wait for this listener.
        self.process.changed();
        Some(event.into())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.process.state().listeners.remove(&self.listener);
        if self.owns {
            self.process.signal(9);
        }
        self.process.changed();
    }
}
