//! `process.Process` of the envd wire.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, StatusCode};
use namzu_protocol::ext::{LANE_HEADER, LANE_UNKNOWN, OLDEST_HEADER, format_oldest};
use namzu_protocol::path_text;
use namzu_protocol::process as wire;
use namzu_protocol::process::process_event::Event as WireEvent;
use namzu_protocol::process::process_input::Input;
use namzu_protocol::process::process_selector::Selector as WireSelector;
use namzu_protocol::process::stream_input_request::Event as StreamInput;
use rustix::process::Signal;

use super::capped::Capped;
use super::{
    Chunk, Event, Exit, InputError, Limits, PerStream, Process, Selector, Size, StartError,
    StartSpec, Stream, Subscription,
};
use crate::auth;
use crate::http::{self as web, Request, Response};
use crate::rpc::{self, Code, Error, Messages, Replies};
use crate::worker::Worker;

/// The most that may be kept for re-attachment, and the largest tail: it is the worker's memory.
const MOST_KEPT: u64 = 64 << 20;
/// An answer to a terminal's size that does not say.
const DEFAULT_SIZE: Size = Size { cols: 80, rows: 24 };

/// Answers one call of the service.
pub(crate) async fn handle(worker: Arc<Worker>, request: Request) -> Response {
    if let Some(user) = auth::basic_user(request.headers())
        && !worker.config.user.answers_to(&user)
    {
        return rpc::refuse(Error::new(
            Code::Unauthenticated,
            format!("invalid username: '{user}'"),
        ));
    }
    let worker = &worker;
    match request.uri().path() {
        wire::START => {
            let headers = request.headers().clone();
            let start = |message| async move { start(worker, &headers, message) };
            rpc::server_stream(request, || reply_to_start(keepalive()), start).await
        }
        wire::CONNECT => {
            let connect = |message| async move { connect(worker, message) };
            rpc::server_stream(request, || reply_to_connect(keepalive()), connect).await
        }
        wire::LIST => {
            rpc::unary(request, |request: wire::ListRequest| async move {
                Ok(list(worker, request.ended))
            })
            .await
        }
        wire::UPDATE => rpc::unary(request, |message| async move { update(worker, message) }).await,
        wire::STREAM_INPUT => {
            rpc::client_stream(request, |messages| stream_input(worker, messages)).await
        }
        wire::SEND_INPUT => rpc::unary(request, |message| send_input(worker, message)).await,
        wire::SEND_SIGNAL => {
            rpc::unary(
                request,
                |message| async move { send_signal(worker, &message) },
            )
            .await
        }
        wire::CLOSE_STDIN => rpc::unary(request, |message| close_stdin(worker, message)).await,
        _ => web::error(StatusCode::NOT_FOUND, "no such method"),
    }
}

fn start(
    worker: &Arc<Worker>,
    headers: &HeaderMap,
    message: wire::StartRequest,
) -> Result<Replies<wire::StartResponse>, Error> {
    let extended = message.options.is_some();
    let options = message.options.clone().unwrap_or_default();
    let capped = capped(&options)?;
    let spec = spec(worker, headers, message, &options)?;
    let handle = worker.processes().start(spec)?;
    let events = if extended {
        handle.events.in_large_events()
    } else {
        handle.events
    };
    let replies = Told {
        start: Some(handle.process.pid),
        events: match capped {
            Some((head, tail)) => Events::Capped(Box::new(Capped::new(events, head, tail))),
            None => Events::All(events),
        },
        wrap: reply_to_start,
    };
    Ok(Box::pin(replies))
}

fn spec(
    worker: &Worker,
    headers: &HeaderMap,
    message: wire::StartRequest,
    options: &wire::StartOptions,
) -> Result<StartSpec, Error> {
    let process = message.process.unwrap_or_default();
    let words = if options.argv.is_empty() {
        std::iter::once(process.cmd)
            .chain(process.args)
            .map(String::into_bytes)
            .collect()
    } else {
        options
            .argv
            .iter()
            .map(|word| word.to_vec())
            .collect::<Vec<_>>()
    };
    let argv: Result<Vec<_>, _> = words.into_iter().map(CString::new).collect();
    let argv = argv.map_err(|_| invalid("an argument holds a NUL byte"))?;
    if argv.first().is_none_or(|program| program.is_empty()) {
        return Err(invalid("no command was given"));
    }
    let retain = options
        .retain_bytes
        .map(|bytes| at_most(bytes, "retain_bytes"))
        .transpose()?;
    let cwd = process.cwd.as_deref().filter(|cwd| !cwd.is_empty());
    let cwd = cwd
        .map(|cwd| directory(&worker.config.user.home, cwd))
        .transpose()?;
    let defaults = StartSpec::new(argv);
    Ok(StartSpec {
        envs: process.envs.into_iter().collect(),
        cwd,
        stdin: message.stdin.unwrap_or(true),
        pty: message
            .pty
            .map(|pty| pty.size.map_or(Ok(DEFAULT_SIZE), size))
            .transpose()?,
        tag: message.tag,
        timeout: options.timeout_ms.map(Duration::from_millis),
        deadline: rpc::timeout(headers),
        kill_on_disconnect: options.kill_on_disconnect,
        retain: retain.unwrap_or(defaults.retain),
        limits: Limits {
            cpu_seconds: options.cpu_seconds,
            address_space: options.address_space,
            file_size: options.file_size,
            open_files: options.open_files,
        },
        // The last thing that can fail: a claim takes the descriptors off the lane.
        lane: options.lane.map_or(Ok([None, None, None]), |id| {
            let claimed = worker.lane().and_then(|lane| lane.claim(id));
            claimed.ok_or_else(no_lane)
        })?,
        ..defaults
    })
}

fn no_lane() -> Error {
    let mut error = invalid("no such message came over the lane");
    error.metadata.push((LANE_HEADER, LANE_UNKNOWN.to_owned()));
    error
}

/// A working directory; `~` is the home, what is relative begins at the worker's default.
fn directory(home: &Path, text: &str) -> Result<PathBuf, Error> {
    let path = path_text::decode(text.as_bytes()).map_err(|error| invalid(error.to_string()))?;
    Ok(match path.as_slice() {
        b"~" => home.to_owned(),
        [b'~', b'/', below @ ..] => home.join(OsStr::from_bytes(below)),
        _ => OsString::from_vec(path).into(),
    })
}

fn capped(options: &wire::StartOptions) -> Result<Option<(u64, usize)>, Error> {
    if options.head.is_none() && options.tail.is_none() {
        return Ok(None);
    }
    let tail = at_most(options.tail.unwrap_or(0), "tail")?;
    Ok(Some((options.head.unwrap_or(0), tail)))
}

fn connect(
    worker: &Arc<Worker>,
    message: wire::ConnectRequest,
) -> Result<Replies<wire::ConnectResponse>, Error> {
    let process = find(worker, message.process)?;
    let events = match message.cursor {
        None => process.subscribe(),
        Some(cursor) => {
            let cursor = PerStream::new(cursor.stdout, cursor.stderr, cursor.pty);
            let events = process.subscribe_at(cursor).map_err(expired)?;
            events.in_large_events()
        }
    };
    let replies = Told {
        start: Some(process.pid),
        events: Events::All(events),
        wrap: reply_to_connect,
    };
    Ok(Box::pin(replies))
}

fn expired(oldest: PerStream) -> Error {
    let oldest = wire::Cursor {
        stdout: oldest.get(Stream::Stdout),
        stderr: oldest.get(Stream::Stderr),
        pty: oldest.get(Stream::Pty),
    };
    let mut error = Error::new(
        Code::OutOfRange,
        "output from that position on is not kept any more",
    );
    error.metadata.push((OLDEST_HEADER, format_oldest(&oldest)));
    error
}

/// envd lists what runs; our own client also asks for what ended lately.
fn list(worker: &Worker, ended: bool) -> wire::ListResponse {
    let processes = worker.processes().list();
    let wanted = processes
        .iter()
        .filter(|process| ended || process.exit().is_none());
    wire::ListResponse {
        processes: wanted.map(|process| info(process)).collect(),
    }
}

fn info(process: &Process) -> wire::ProcessInfo {
    let description = &process.description;
    let exit = process.exit();
    let written = process.written();
    let started = process
        .started
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    wire::ProcessInfo {
        config: Some(wire::ProcessConfig {
            cmd: description.argv.first().cloned().unwrap_or_default(),
            args: description.argv.iter().skip(1).cloned().collect(),
            envs: description.envs.iter().cloned().collect(),
            cwd: description.cwd.clone(),
        }),
        pid: process.pid.unsigned_abs(),
        tag: description.tag.clone(),
        state: Some(wire::ProcessState {
            running: exit.is_none(),
            started_unix_ms: u64::try_from(started.as_millis()).unwrap_or_default(),
            exit: exit.map(|exit| end(&exit)),
            stdout_bytes: written.get(Stream::Stdout) + written.get(Stream::Pty),
            stderr_bytes: written.get(Stream::Stderr),
        }),
    }
}

fn update(worker: &Worker, message: wire::UpdateRequest) -> Result<wire::UpdateResponse, Error> {
    let process = find(worker, message.process)?;
    if let Some(wanted) = message.pty.and_then(|pty| pty.size) {
        process.resize(size(wanted)?).map_err(input_error)?;
    }
    Ok(wire::UpdateResponse {})
}

async fn stream_input(
    worker: &Worker,
    mut messages: Messages<wire::StreamInputRequest>,
) -> Result<wire::StreamInputResponse, Error> {
    let mut process = None;
    while let Some(message) = messages.next().await? {
        match (message.event, &process) {
            (Some(StreamInput::Start(start)), None) => process = Some(find(worker, start.process)?),
            (Some(StreamInput::Start(_)), Some(_)) => {
                return Err(invalid("the stream has started already"));
            }
            (Some(StreamInput::Data(data)), Some(process)) => feed(process, data.input).await?,
            (Some(StreamInput::Data(_)), None) => {
                return Err(invalid("the first message must be a start"));
            }
            (Some(StreamInput::Keepalive(_)) | None, _) => {}
        }
    }
    Ok(wire::StreamInputResponse {})
}

async fn send_input(
    worker: &Worker,
    message: wire::SendInputRequest,
) -> Result<wire::SendInputResponse, Error> {
    let process = find(worker, message.process)?;
    feed(&process, message.input).await?;
    Ok(wire::SendInputResponse {})
}

async fn feed(process: &Process, input: Option<wire::ProcessInput>) -> Result<(), Error> {
    let written = match input.and_then(|input| input.input) {
        Some(Input::Stdin(bytes)) => process.write_stdin(&bytes).await,
        Some(Input::Pty(bytes)) => process.write_terminal(&bytes).await,
        None => return Err(invalid("no input was given")),
    };
    written.map_err(input_error)
}

fn send_signal(
    worker: &Worker,
    message: &wire::SendSignalRequest,
) -> Result<wire::SendSignalResponse, Error> {
    let process = find(worker, message.process.clone())?;
    if process.exit().is_some() {
        return Err(Error::new(Code::NotFound, "the process has ended"));
    }
    match wire::Signal::try_from(message.signal) {
        Ok(wire::Signal::Sigkill) => {
            process.kill_tree();
        }
        Ok(wire::Signal::Sigterm) => {
            process.signal_group(Signal::TERM);
        }
        Ok(wire::Signal::Unspecified) | Err(_) => return Err(invalid("no known signal was given")),
    }
    Ok(wire::SendSignalResponse {})
}

async fn close_stdin(
    worker: &Worker,
    message: wire::CloseStdinRequest,
) -> Result<wire::CloseStdinResponse, Error> {
    find(worker, message.process)?
        .close_stdin()
        .await
        .map_err(input_error)?;
    Ok(wire::CloseStdinResponse {})
}

fn find(worker: &Worker, selector: Option<wire::ProcessSelector>) -> Result<Arc<Process>, Error> {
    let selector = match selector.and_then(|selector| selector.selector) {
        Some(WireSelector::Pid(pid)) => i32::try_from(pid).ok().map(Selector::Pid),
        Some(WireSelector::Tag(tag)) => Some(Selector::Tag(tag)),
        None => return Err(invalid("no process was selected")),
    };
    let found = selector.and_then(|selector| worker.processes().find(&selector));
    found.ok_or_else(|| Error::new(Code::NotFound, "no such process"))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

fn at_most(bytes: u64, name: &str) -> Result<usize, Error> {
    let fits = usize::try_from(bytes).ok().filter(|_| bytes <= MOST_KEPT);
    fits.ok_or_else(|| invalid(format!("{name} is more than {MOST_KEPT}")))
}

fn size(size: wire::PtySize) -> Result<Size, Error> {
    let side =
        |side: u32| u16::try_from(side).map_err(|_| invalid("the terminal's size is out of range"));
    Ok(Size {
        cols: side(size.cols)?,
        rows: side(size.rows)?,
    })
}

fn input_error(error: InputError) -> Error {
    // envd's words for every pipe that takes no input, with our advice after them.
    let closed = "error writing to stdin: stdin not enabled or closed; start with stdin=True";
    match error {
        InputError::Closed => Error::new(Code::Internal, closed),
        InputError::WrongKind => Error::new(
            Code::Internal,
            "a terminal takes pty input and resizing, a pipe takes stdin",
        ),
        InputError::Failed(error) => {
            Error::new(Code::Internal, format!("the terminal refused: {error}"))
        }
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        let code = match &error {
            StartError::Invalid(_) | StartError::CwdMissing(_) => Code::InvalidArgument,
            StartError::NotFound(_) => Code::NotFound,
            StartError::Denied(_) => Code::PermissionDenied,
            StartError::Exhausted(_) => Code::ResourceExhausted,
            StartError::Failed(_) => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

enum Events {
    All(Subscription),
    Capped(Box<Capped>),
}

/// A command's events as replies of a stream: its start, its output, its end.
struct Told<O> {
    start: Option<i32>,
    events: Events,
    wrap: fn(wire::ProcessEvent) -> O,
}

impl<O> futures_core::Stream for Told<O> {
    type Item = Result<O, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(pid) = this.start.take() {
            let start = wire::StartEvent {
                pid: pid.unsigned_abs(),
            };
            return Poll::Ready(Some(Ok((this.wrap)(WireEvent::Start(start).into()))));
        }
        let event = match &mut this.events {
            Events::All(events) => events.poll_next(cx),
            Events::Capped(events) => events.poll_next(cx),
        };
        event.map(|event| {
            event.map(|event| match event {
                Event::Data(chunk) => Ok((this.wrap)(WireEvent::Data(data(chunk)).into())),
                Event::End(exit) => Ok((this.wrap)(WireEvent::End(end(&exit)).into())),
                Event::Expired => Err(Error::new(
                    Code::DeadlineExceeded,
                    "the command ran longer than it may",
                )),
            })
        })
    }
}

fn data(chunk: Chunk) -> wire::DataEvent {
    use wire::data_event::Output;
    wire::DataEvent {
        output: Some(match chunk.stream {
            Stream::Stdout => Output::Stdout(chunk.bytes),
            Stream::Stderr => Output::Stderr(chunk.bytes),
            Stream::Pty => Output::Pty(chunk.bytes),
        }),
        offset: chunk.offset,
        skipped: chunk.skipped,
    }
}

fn end(exit: &Exit) -> wire::EndEvent {
    let exited = exit.signal == 0;
    let status = if exited {
        format!("exit status {}", exit.code)
    } else {
        format!("signal: {}", super::signal::describe(exit.signal))
    };
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    wire::EndEvent {
        exit_code: if exited { exit.code } else { -1 },
        exited,
        error: (exit.code != 0 || !exited).then(|| status.clone()),
        status,
        info: Some(wire::EndInfo {
            signal: exit.signal,
            timed_out: exit.timed_out,
            oom: exit.oom,
            stdout_bytes: exit.written.get(Stream::Stdout) + exit.written.get(Stream::Pty),
            stderr_bytes: exit.written.get(Stream::Stderr),
            user_us: micros(exit.user),
            system_us: micros(exit.system),
            max_rss: exit.max_rss,
            duration_us: micros(exit.duration),
        }),
    }
}

fn keepalive() -> wire::ProcessEvent {
    WireEvent::Keepalive(wire::KeepAlive {}).into()
}

fn reply_to_start(event: wire::ProcessEvent) -> wire::StartResponse {
    wire::StartResponse { event: Some(event) }
}

fn reply_to_connect(event: wire::ProcessEvent) -> wire::ConnectResponse {
    wire::ConnectResponse { event: Some(event) }
}
