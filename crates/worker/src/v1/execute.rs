//! One command of the v1 wires, and its events.

use std::ffi::CString;
use std::ffi::OsString;
use std::future::Future;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use namzu_protocol::path_text;
use namzu_protocol::v1::{
    DEFAULT_MAX_OUTPUT_BYTES, DEFAULT_TIMEOUT_MS, Event, ExecuteRequest, ExecuteResult, Refusal,
    Utf8Decoder, encode_line,
};
use rustix::fs::Mode;
use rustix::io::Errno;

use crate::config::Config;
use crate::files::{Access, Fail, Kind, Last, Outcome, Parents, blocking};
use crate::process::{self, EnvBase, Exit, StartSpec, Subscription};
use crate::worker::Worker;

/// Between SIGTERM and SIGKILL at the deadline.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// Starts a command. What is wrong with the request is a refusal; what is wrong with the program is an event.
pub(super) async fn start(
    worker: &Arc<Worker>,
    request: ExecuteRequest,
) -> Result<Events, Refusal> {
    let timeout = timeout(&worker.config, request.timeout_ms)?;
    let cap = request.max_output_bytes.unwrap_or(DEFAULT_MAX_OUTPUT_BYTES);
    let command = request.command.filter(|command| !command.is_empty());
    let command = command
        .ok_or_else(|| Refusal::command("missing_command", "the request names no command"))?;
    let argv: Result<Vec<CString>, _> = std::iter::once(command)
        .chain(request.args.unwrap_or_default())
        .map(CString::new)
        .collect();
    let argv =
        argv.map_err(|_| Refusal::command("invalid_body", "an argument contains a NUL byte"))?;
    let envs: Vec<(String, String)> = request.env.unwrap_or_default().into_iter().collect();
    if envs
        .iter()
        .any(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))
    {
        return Err(Refusal::command(
            "invalid_body",
            "a variable has no name, or one with = or NUL in it",
        ));
    }
    let (wanted, for_cwd) = (request.cwd.unwrap_or_default(), Arc::clone(worker));
    let cwd = blocking(move |_| working_directory(&for_cwd, wanted.as_bytes()))
        .await
        .map_err(refuse_cwd)?;

    let spec = StartSpec {
        base: EnvBase::Worker,
        envs,
        cwd: Some(cwd),
        stdin: request.stdin.is_some(),
        timeout: Some(timeout),
        term_grace: TERM_GRACE,
        kill_on_disconnect: true,
        // Nobody attaches to it later.
        retain: 0,
        ..StartSpec::new(argv)
    };
    Ok(match worker.processes().start(spec) {
        Ok(handle) => Events {
            stdin: request
                .stdin
                .map(|text| feed(Arc::clone(&handle.process), text)),
            source: Source::Running(handle.events),
            stdout: Output::new(cap),
            stderr: Output::new(cap),
        },
        Err(error) => Events {
            stdin: None,
            source: Source::Failed(Some(error.to_string())),
            stdout: Output::new(cap),
            stderr: Output::new(cap),
        },
    })
}

fn timeout(config: &Config, asked: Option<u64>) -> Result<Duration, Refusal> {
    let refuse = |why: String| Err(Refusal::command("invalid_timeout", why));
    match asked {
        None => Ok(Duration::from_millis(DEFAULT_TIMEOUT_MS).min(config.max_timeout)),
        Some(0) => refuse("the timeout must be positive".into()),
        Some(ms) if Duration::from_millis(ms) > config.max_timeout => refuse(format!(
            "the timeout is above the ceiling of {} ms",
            config.max_timeout.as_millis()
        )),
        Some(ms) => Ok(Duration::from_millis(ms)),
    }
}

fn refuse_cwd(fail: Fail) -> Refusal {
    let code = match fail.kind {
        Kind::Refused | Kind::InvalidArgument | Kind::NotFound => "invalid_cwd",
        _ => "mkdir_failed",
    };
    Refusal::command(code, fail.message)
}

/// The directory a command runs in: below the workspace, made where it is missing.
fn working_directory(worker: &Worker, asked: &[u8]) -> Outcome<PathBuf> {
    let failed = |errno| Fail::errno("make the working directory", asked, errno);
    let jail = worker.files.workspace()?;
    let path = in_workspace(&worker.config.workspace, asked)?;
    let place = jail.place(&path, Access::Write, Last::Follow, Parents::Made)?;
    match rustix::fs::mkdirat(place.dir(), place.name(), Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(failed(errno)),
    }
    // It may exist and be something else.
    place.open_dir().map_err(failed)?;
    let (real, _) = jail.resolved(&path)?;
    Ok(PathBuf::from(OsString::from_vec(real)))
}

/// The absolute path that text means to the v1 wires: relative paths begin at the workspace.
pub(super) fn in_workspace(workspace: &Path, text: &[u8]) -> Outcome<Vec<u8>> {
    let path = path_text::decode(text).map_err(|error| Fail::invalid(error.to_string()))?;
    let whole = workspace.join(PathBuf::from(OsString::from_vec(path)));
    Ok(whole.into_os_string().into_vec())
}

type Feeding = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Writes all input, then ends it. A command that does not read it, or has ended, is no failure.
fn feed(process: Arc<process::Process>, text: String) -> Feeding {
    Box::pin(async move {
        let _ = process.write_stdin(text.as_bytes()).await;
        let _ = process.close_stdin().await;
    })
}

/// The events of a command; the last is a result or an error. Dropping it earlier kills the command's whole tree.
pub(super) struct Events {
    source: Source,
    stdin: Option<Feeding>,
    stdout: Output,
    stderr: Output,
}

enum Source {
    Running(Subscription),
    /// Told once.
    Failed(Option<String>),
    /// The end came; what the decoders still held goes first.
    Ended(Exit),
    Over,
}

struct Output {
    text: Utf8Decoder,
    left: u64,
    is_truncated: bool,
}

impl Output {
    fn new(cap: u64) -> Self {
        Self {
            text: Utf8Decoder::new(),
            left: cap,
            is_truncated: false,
        }
    }

    fn take(&mut self, bytes: &[u8]) -> String {
        let kept = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        self.left -= kept as u64;
        self.is_truncated |= kept < bytes.len();
        self.text.decode(&bytes[..kept])
    }

    /// What is left of a character that was cut off; nothing when it was the cap that cut it.
    fn finish(&mut self) -> String {
        let rest = self.text.finish();
        if self.is_truncated {
            String::new()
        } else {
            rest.to_owned()
        }
    }
}

impl Events {
    /// As NDJSON.
    pub(super) fn lines(self) -> Lines {
        Lines(self)
    }

    /// The next event; `None` after the last.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(stdin) = &mut self.stdin
            && stdin.as_mut().poll(cx).is_ready()
        {
            self.stdin = None;
        }
        loop {
            match &mut self.source {
                Source::Over => return Poll::Ready(None),
                Source::Failed(error) => {
                    let error = error.take().unwrap_or_default();
                    self.source = Source::Over;
                    return Poll::Ready(Some(Event::Error { error }));
                }
                Source::Ended(exit) => {
                    for is_stderr in [false, true] {
                        let output = if is_stderr {
                            &mut self.stderr
                        } else {
                            &mut self.stdout
                        };
                        let data = output.finish();
                        if !data.is_empty() {
                            return Poll::Ready(Some(delta(is_stderr, data)));
                        }
                    }
                    let result = result(exit, self.stdout.is_truncated, self.stderr.is_truncated);
                    self.source = Source::Over;
                    return Poll::Ready(Some(Event::Result(result)));
                }
                Source::Running(events) => {
                    let event = std::task::ready!(Pin::new(events).poll_next(cx));
                    match event {
                        Some(process::Event::Data(chunk)) => {
                            let is_stderr = chunk.stream == process::Stream::Stderr;
                            let output = if is_stderr {
                                &mut self.stderr
                            } else {
                                &mut self.stdout
                            };
                            let data = output.take(&chunk.bytes);
                            if !data.is_empty() {
                                return Poll::Ready(Some(delta(is_stderr, data)));
                            }
                        }
                        Some(process::Event::End(exit)) => self.source = Source::Ended(exit),
                        Some(process::Event::Expired) | None => {
                            let error = "the command ended without telling how".to_owned();
                            self.source = Source::Failed(Some(error));
                        }
                    }
                }
            }
        }
    }
}

fn delta(is_stderr: bool, data: String) -> Event {
    if is_stderr {
        Event::StderrDelta { data }
    } else {
        Event::StdoutDelta { data }
    }
}

fn result(exit: &Exit, stdout_truncated: bool, stderr_truncated: bool) -> ExecuteResult {
    let signal = (exit.signal != 0).then_some(exit.signal);
    ExecuteResult {
        exit_code: signal.map_or(exit.code, |signal| 128 + signal),
        timed_out: exit.timed_out,
        duration_ms: u64::try_from(exit.duration.as_millis()).unwrap_or(u64::MAX),
        stdout_truncated,
        stderr_truncated,
        signal,
    }
}

/// Events as lines of JSON.
pub(super) struct Lines(Events);

impl Stream for Lines {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0
            .poll(cx)
            .map(|event| event.map(|event| Ok(encode_line(&event.to_json()))))
    }
}
