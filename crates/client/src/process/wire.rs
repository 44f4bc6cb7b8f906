//! Between the process messages of the wire and ours.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use namzu_core::{Error, ErrorCode, Phase, Result};
use namzu_protocol::process::{
    self as wire, ConnectRequest, ConnectResponse, EndEvent, ListRequest, ListResponse,
    ProcessConfig, ProcessEvent, ProcessSelector, StartOptions, StartRequest, StartResponse,
};
use namzu_protocol::{Bytes, WireMessage};
use namzu_types::{ExecRequest, ExitStatus};
use tokio::time::Instant;

use super::input::Input;
use super::output::Output;
use super::{Cursor, Ended, OVERDUE, OnDrop, Process, ProcessInfo, Selector};
use crate::detail::is_lane;
use crate::fault;
use crate::messages::Messages;
use crate::worker::Worker;
use crate::{OutputCap, Usage};

/// Bytes of the end of a stream that the worker holds back; for more, it sends everything.
const TAIL_CAP: usize = 64 << 20;

/// A message with a process event in it.
pub(super) trait Carrier: WireMessage {
    fn event(self) -> Option<ProcessEvent>;
}

impl Carrier for StartResponse {
    fn event(self) -> Option<ProcessEvent> {
        self.event
    }
}

impl Carrier for ConnectResponse {
    fn event(self) -> Option<ProcessEvent> {
        self.event
    }
}

/// What the worker says at the end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) ended: Ended,
    /// Bytes it printed in all, where the worker saw them.
    pub(crate) stdout: u64,
    pub(crate) stderr: u64,
}

/// How a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// To its end: only what is kept need be sent, and standard input ends by itself.
    Exec,
    /// As long as its handle lives.
    Owned,
    /// On its own.
    Background,
}

/// Starts a command; returns once it runs.
pub(crate) async fn start(worker: &Worker, request: ExecRequest, mode: Mode) -> Result<Process> {
    const WHAT: &str = "start the command";
    let ExecRequest {
        argv,
        env,
        cwd,
        stdin,
        pty,
        tag,
        timeout,
        limits,
        output: cap,
    } = request;
    if argv.is_empty() || argv[0].is_empty() {
        return Err(invalid("the command is empty"));
    }
    if argv.iter().any(|arg| arg.contains(&0)) {
        return Err(invalid("an argument holds a NUL byte"));
    }
    let timeout = timeout.or(worker.command());
    // Nothing to read is what /dev/null gives.
    let stdin = stdin.filter(|bytes| mode != Mode::Exec || !bytes.is_empty());
    let wants_stdin = stdin.is_some() || pty.is_some();
    let (process, argv) = config(argv, env, cwd);
    let mut message = StartRequest {
        process: Some(process),
        pty: pty.map(|size| wire::Pty {
            size: Some(size_of(size)),
        }),
        tag,
        stdin: Some(wants_stdin),
        options: Some(StartOptions {
            timeout_ms: timeout.map(millis),
            cpu_seconds: limits.cpu_seconds,
            address_space: limits.address_space,
            file_size: limits.file_size,
            open_files: limits.open_files,
            // Nobody attaches to what ends with its handle.
            retain_bytes: (mode != Mode::Background).then_some(0),
            argv,
            kill_on_disconnect: mode != Mode::Background,
            ..StartOptions::default()
        }),
    };
    // What runs on its own must be found again with its output, which the lane bypasses.
    let mut passed = match (mode, pty, worker.lane()) {
        (Mode::Exec | Mode::Owned, None, Some(lane)) => lane.pass(wants_stdin),
        _ => None,
    };
    let (messages, pid, pipe, pipes) = loop {
        let options = message.options.get_or_insert_default();
        options.lane = passed.as_ref().map(|passed| passed.id);
        if mode == Mode::Exec && passed.is_none() && cap.tail <= TAIL_CAP {
            options.head = Some(cap.head as u64);
            options.tail = Some(cap.tail as u64);
        }
        let opened = open(worker, WHAT, &message).await;
        let Some(passed) = passed.take() else {
            let (messages, pid) = opened.map_err(not_started)?;
            break (messages, pid, None, None);
        };
        match opened {
            Ok((messages, pid)) => {
                passed.ticket.claimed();
                break (messages, pid, passed.stdin, Some(passed.output));
            }
            Err(err) if is_lane(&err) => {
                // The worker closed it, or never had it: go on without.
                if let Some(lane) = worker.lane() {
                    lane.abandon();
                }
            }
            Err(err) => {
                // An answer says that the worker has dealt with the descriptors.
                if !err.is_retryable() {
                    passed.ticket.claimed();
                }
                return Err(not_started(err));
            }
        }
    };
    let on_drop = match mode {
        Mode::Exec | Mode::Owned => OnDrop::Kill,
        Mode::Background => OnDrop::Leave,
    };
    let input = Input::new(worker, pid, pipe, pty.is_some(), stdin, mode == Mode::Exec);
    Ok(Process {
        worker: worker.clone(),
        pid,
        output: Output::new(messages, pipes, Cursor::default()),
        input,
        on_drop,
        cap,
        overdue: timeout
            .and_then(|limit| limit.checked_add(OVERDUE))
            .and_then(|limit| Instant::now().checked_add(limit)),
    })
}

/// Asks for a command; its events, and its pid once it runs.
async fn open(
    worker: &Worker,
    what: &'static str,
    message: &StartRequest,
) -> Result<(Messages<StartResponse>, u32)> {
    let mut messages = Messages::open(worker, Phase::Exec, what, wire::START, message).await?;
    // A refusal comes here too: the stream itself has been accepted.
    let first = tokio::time::timeout(worker.request(), messages.next(worker))
        .await
        .map_err(|_| worker.late(Phase::Exec, what))??;
    let pid = started(what, first)?;
    Ok((messages, pid))
}

/// Listens to a command that runs already.
pub(crate) async fn attach(worker: &Worker, selector: Selector, cursor: Cursor) -> Result<Process> {
    const WHAT: &str = "attach to the command";
    let message = ConnectRequest {
        process: Some(match selector {
            Selector::Pid(pid) => ProcessSelector::pid(pid),
            Selector::Tag(tag) => ProcessSelector::tag(tag),
        }),
        cursor: Some(wire::Cursor {
            stdout: cursor.stdout,
            stderr: cursor.stderr,
            pty: cursor.pty,
        }),
    };
    let mut messages =
        Messages::<ConnectResponse>::open(worker, Phase::Exec, WHAT, wire::CONNECT, &message)
            .await?;
    let first = tokio::time::timeout(worker.request(), messages.next(worker))
        .await
        .map_err(|_| worker.late(Phase::Exec, WHAT))??;
    let pid = started(WHAT, first)?;
    Ok(Process {
        worker: worker.clone(),
        pid,
        output: Output::new(messages, None, cursor),
        input: Input::unknown(),
        on_drop: OnDrop::Leave,
        cap: OutputCap::default(),
        overdue: None,
    })
}

/// The commands that run, and those that ended lately.
pub(crate) async fn list(worker: &Worker) -> Result<Vec<ProcessInfo>> {
    let what = "list the commands";
    let answer: ListResponse = worker
        .unary(Phase::Exec, what, wire::LIST, &ListRequest { ended: true })
        .await?;
    Ok(answer.processes.into_iter().map(info).collect())
}

/// The pid of a stream that opens as it must.
fn started(what: &str, first: Option<impl Carrier>) -> Result<u32> {
    match first.and_then(Carrier::event).and_then(|event| event.event) {
        Some(wire::process_event::Event::Start(start)) => Ok(start.pid),
        _ => {
            let cause = "the first event is not the start";
            Err(fault::violation(what, cause).during(Phase::Exec))
        }
    }
}

/// A refusal to start is the command's, unless it says that the request is wrong.
fn not_started(err: Error) -> Error {
    match err.code() {
        ErrorCode::NotFound | ErrorCode::PermissionDenied | ErrorCode::BackendFailed => Error::new(
            ErrorCode::CommandNotStarted,
            "the command could not be started",
        )
        .with_source(err)
        .during(Phase::Exec),
        _ => err,
    }
}

fn config(
    argv: Vec<Vec<u8>>,
    envs: std::collections::BTreeMap<String, String>,
    cwd: Option<String>,
) -> (ProcessConfig, Vec<Bytes>) {
    let is_text = argv.iter().all(|arg| std::str::from_utf8(arg).is_ok());
    let text = |arg: Vec<u8>| match String::from_utf8(arg) {
        Ok(text) => text,
        Err(err) => String::from_utf8_lossy(err.as_bytes()).into_owned(),
    };
    let exact = if is_text {
        Vec::new()
    } else {
        argv.iter().map(|arg| Bytes::copy_from_slice(arg)).collect()
    };
    let mut words = argv.into_iter().map(text);
    let config = ProcessConfig {
        cmd: words.next().unwrap_or_default(),
        args: words.collect(),
        envs,
        cwd,
    };
    (config, exact)
}

fn info(listed: wire::ProcessInfo) -> ProcessInfo {
    let config = listed.config.unwrap_or_default();
    let state = listed.state.unwrap_or_default();
    let mut argv = vec![config.cmd];
    argv.extend(config.args);
    ProcessInfo {
        pid: listed.pid,
        tag: listed.tag,
        argv,
        cwd: config
            .cwd
            .filter(|cwd| !Path::new(cwd).as_os_str().is_empty()),
        started: UNIX_EPOCH
            .checked_add(Duration::from_millis(state.started_unix_ms))
            .filter(|started| *started != SystemTime::UNIX_EPOCH),
        exit: state.exit.map(|exit| end(&exit).ended.status),
        printed: Cursor {
            stdout: state.stdout_bytes,
            stderr: state.stderr_bytes,
            pty: 0,
        },
    }
}

/// Reads the last event of a command.
pub(super) fn end(event: &EndEvent) -> End {
    let info = event.info.unwrap_or_default();
    // Where only envd's words are there, a signal has no number: `signal: killed`.
    let status = match (info.signal, event.exited) {
        (signal @ 1..=64, _) => ExitStatus::Signal(signal),
        (_, true) => ExitStatus::Code(event.exit_code),
        (_, false) => ExitStatus::Signal(signal_of(&event.status)),
    };
    End {
        ended: Ended {
            status,
            timed_out: info.timed_out,
            out_of_memory: info.oom,
            usage: Usage {
                user: Duration::from_micros(info.user_us),
                system: Duration::from_micros(info.system_us),
                max_rss: info.max_rss,
                duration: Duration::from_micros(info.duration_us),
            },
        },
        stdout: info.stdout_bytes,
        stderr: info.stderr_bytes,
    }
}

/// The number behind Go's name of a signal; SIGKILL, the likeliest, for any other.
fn signal_of(status: &str) -> i32 {
    match status.strip_prefix("signal: ").unwrap_or_default() {
        "hangup" => 1,
        "interrupt" => 2,
        "quit" => 3,
        "illegal instruction" => 4,
        "aborted" | "abort" => 6,
        "floating point exception" => 8,
        "segmentation fault" => 11,
        "broken pipe" => 13,
        "terminated" => 15,
        _ => 9,
    }
}

pub(super) fn size_of(size: namzu_types::PtySize) -> wire::PtySize {
    wire::PtySize {
        cols: size.cols.into(),
        rows: size.rows.into(),
    }
}

fn millis(limit: Duration) -> u64 {
    // A limit below a millisecond is still a limit.
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1)
}

fn invalid(why: &str) -> Error {
    Error::new(ErrorCode::InvalidArgument, why).during(Phase::Exec)
}
