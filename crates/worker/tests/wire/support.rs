//! A worker of one's own, and a small client over HTTP/2.

use std::convert::Infallible;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::ext::Protocol;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use namzu_protocol::connect::{EndStream, Envelope, EnvelopeDecoder, ErrorBody, Frame};
use namzu_protocol::process::{
    self as wire, ConnectRequest, ConnectResponse, EndEvent, ProcessConfig, ProcessEvent,
    ProcessSelector, StartRequest, StartResponse, data_event::Output, process_event::Event,
};
use namzu_protocol::{Codec, WireMessage};
use rustix::io::FdFlags;
use tokio::io::{AsyncRead, AsyncWrite};

/// What a CONNECT becomes.
pub(crate) type Tunnel = TokioIo<hyper::upgrade::Upgraded>;

/// The body of a request.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A worker's process; ended when dropped.
#[derive(Debug)]
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.0.as_ref().expect("taken only by wait").id()
    }

    /// Waits for its end without holding up the test's other tasks.
    pub(crate) async fn wait(mut self) -> ExitStatus {
        let mut child = self.0.take().expect("taken only here");
        tokio::task::spawn_blocking(move || child.wait())
            .await
            .unwrap()
            .unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // Asked, not killed: it takes its commands with it.
            let pid = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = child.wait();
        }
    }
}

/// A worker command with nothing in its environment but PATH.
#[expect(
    clippy::disallowed_methods,
    reason = "tests start the worker as its maker does"
)]
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/tmp")
        .stdin(Stdio::null());
    command
}

/// The worker's binary.
pub(crate) fn worker() -> Command {
    command(env!("CARGO_BIN_EXE_namzu-worker"))
}

/// Starts `command` with `fds` inherited under their own numbers.
pub(crate) fn start_with(command: &mut Command, fds: &[&OwnedFd]) -> Running {
    // While one test's descriptors are inheritable, no other test may start anything.
    static STARTING: Mutex<()> = Mutex::new(());
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    for fd in fds {
        rustix::io::fcntl_setfd(fd, FdFlags::empty()).unwrap();
    }
    let child = command.spawn().unwrap();
    for fd in fds {
        rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC).unwrap();
    }
    Running(Some(child))
}

/// A worker on a private stream, and the client at its other end.
pub(crate) struct Private {
    pub(crate) client: Client,
    pub(crate) running: Running,
}

/// Starts a worker on a private stream with more arguments.
pub(crate) async fn private(arguments: &[&str]) -> Private {
    private_with(&mut worker(), arguments).await
}

/// Starts a worker on a private stream with more arguments, and `fds` under their own numbers.
pub(crate) async fn private_inheriting(arguments: &[&str], fds: &[&OwnedFd]) -> Private {
    private_from(&mut worker(), arguments, fds).await
}

/// Starts `command`, which ends in being a worker, on a private stream.
pub(crate) async fn private_with(command: &mut Command, arguments: &[&str]) -> Private {
    private_from(command, arguments, &[]).await
}

async fn private_from(command: &mut Command, arguments: &[&str], fds: &[&OwnedFd]) -> Private {
    let (host, inside) = StdUnixStream::pair().unwrap();
    let inside = OwnedFd::from(inside);
    command
        .arg("--listen")
        .arg(format!("fd:{}", inside.as_raw_fd()))
        .args(arguments);
    let inherited: Vec<_> = fds.iter().copied().chain([&inside]).collect();
    let running = start_with(command, &inherited);
    drop(inside);
    host.set_nonblocking(true).unwrap();
    let client = Client::new(tokio::net::UnixStream::from_std(host).unwrap()).await;
    Private { client, running }
}

/// A connection to a worker.
#[derive(Clone)]
pub(crate) struct Client {
    sender: SendRequest<Body>,
    pub(crate) codec: Codec,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Client {
    /// Asks for a tunnel at `path`: it, and the headers of the answer.
    pub(crate) async fn tunnel(&self, path: &str) -> Result<(HeaderMap, Tunnel), StatusCode> {
        let mut request = Request::builder()
            .method(Method::CONNECT)
            .version(Version::HTTP_2)
            .uri(format!("http://worker{path}"))
            .body(full(""))
            .unwrap();
        request
            .extensions_mut()
            .insert(Protocol::from_static("namzu"));
        let response = self.send(request).await;
        if response.status() != StatusCode::OK {
            return Err(response.status());
        }
        let headers = response.headers().clone();
        let tunnel = hyper::upgrade::on(response).await.unwrap();
        Ok((headers, TokioIo::new(tunnel)))
    }

    pub(crate) async fn new(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(8 << 20)
            .handshake(TokioIo::new(io))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self {
            sender,
            codec: Codec::Proto,
            headers: Vec::new(),
        }
    }

    /// The same connection with one more header on every request.
    pub(crate) fn with_header(&self, name: &'static str, value: impl Into<String>) -> Self {
        let mut with = self.clone();
        with.headers.push((name, value.into()));
        with
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Response<Incoming> {
        self.sender.clone().send_request(request).await.unwrap()
    }

    /// A plain HTTP call.
    pub(crate) async fn http(
        &self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> (StatusCode, Bytes) {
        let response = self
            .send(self.request(method, path, "application/json", full(body)))
            .await;
        let status = response.status();
        (
            status,
            response.into_body().collect().await.unwrap().to_bytes(),
        )
    }

    /// A unary call.
    pub(crate) async fn unary<I: WireMessage, O: WireMessage>(
        &self,
        path: &str,
        message: &I,
    ) -> Result<O, ErrorBody> {
        let (kind, body) = match self.codec {
            Codec::Json => ("application/json", self.codec.encode(message)),
            Codec::Proto => ("application/proto", self.codec.encode(message)),
        };
        let response = self
            .send(self.request(Method::POST, path, kind, full(body)))
            .await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        if status == StatusCode::OK {
            Ok(self.codec.decode(body).unwrap())
        } else {
            Err(ErrorBody::from_response(status.as_u16(), &body))
        }
    }

    /// A call whose answer is a stream; `body` holds envelopes.
    pub(crate) async fn stream<O: WireMessage>(&self, path: &str, body: Body) -> Replies<O> {
        let kind = match self.codec {
            Codec::Json => "application/connect+json",
            Codec::Proto => "application/connect+proto",
        };
        let response = self
            .send(self.request(Method::POST, path, kind, body))
            .await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        Replies {
            body: response.into_body(),
            chunk: Bytes::new(),
            decoder: EnvelopeDecoder::new(1 << 20),
            codec: self.codec,
            end: None,
            message: std::marker::PhantomData,
        }
    }

    pub(crate) fn envelope<I: WireMessage>(&self, message: &I) -> Bytes {
        Envelope::encode(self.codec, message).unwrap().into_bytes()
    }

    pub(crate) async fn start(&self, request: &StartRequest) -> Replies<StartResponse> {
        self.stream(wire::START, full(self.envelope(request))).await
    }

    pub(crate) async fn connect(&self, request: &ConnectRequest) -> Replies<ConnectResponse> {
        self.stream(wire::CONNECT, full(self.envelope(request)))
            .await
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, request: &StartRequest) -> Outcome {
        self.start(request).await.outcome().await
    }

    /// Runs a shell line without input to its end.
    pub(crate) async fn sh(&self, line: &str) -> Outcome {
        self.run(&shell(line)).await
    }

    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Body,
    ) -> Request<Body> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://worker{path}"))
            .header("content-type", kind)
            .header("connect-protocol-version", "1");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.body(body).unwrap()
    }
}

/// The answer of a stream, message by message.
pub(crate) struct Replies<O> {
    body: Incoming,
    chunk: Bytes,
    decoder: EnvelopeDecoder,
    codec: Codec,
    /// The last envelope, once it came.
    pub(crate) end: Option<EndStream>,
    message: std::marker::PhantomData<O>,
}

impl<O: WireMessage> Replies<O> {
    /// The next message; `None` after the last envelope.
    pub(crate) async fn next(&mut self) -> Option<O> {
        loop {
            match self.decoder.decode(&mut self.chunk).unwrap() {
                Some(Frame::Message(message)) => return Some(self.codec.decode(message).unwrap()),
                Some(Frame::End(end)) => self.end = Some(end),
                None => match self.body.frame().await {
                    Some(frame) => self.chunk = frame.unwrap().into_data().unwrap(),
                    None => {
                        self.decoder.finish_response().unwrap();
                        return None;
                    }
                },
            }
        }
    }

    /// The failure that ended the stream.
    pub(crate) async fn failure(mut self) -> ErrorBody {
        while self.next().await.is_some() {}
        self.end
            .unwrap()
            .error
            .expect("the stream must have failed")
    }
}

/// What both kinds of replies carry.
pub(crate) trait Carries: WireMessage {
    fn event(self) -> Event;
}

impl Carries for StartResponse {
    fn event(self) -> Event {
        unwrap(self.event)
    }
}

impl Carries for ConnectResponse {
    fn event(self) -> Event {
        unwrap(self.event)
    }
}

fn unwrap(event: Option<ProcessEvent>) -> Event {
    event.unwrap().event.unwrap()
}

impl<O: Carries> Replies<O> {
    /// The next event.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        self.next().await.map(Carries::event)
    }

    /// The pid of the start event, which must come first.
    pub(crate) async fn pid(&mut self) -> u32 {
        match self.event().await {
            Some(Event::Start(start)) => start.pid,
            other => panic!("{other:?} instead of a start"),
        }
    }

    /// The pid of a command that has written `wanted`.
    pub(crate) async fn until_started(&mut self, wanted: &str) -> u32 {
        let pid = self.pid().await;
        self.until(wanted).await;
        pid
    }

    /// Reads until `wanted` was written to a stream.
    pub(crate) async fn until(&mut self, wanted: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.event().await {
                Some(Event::Data(data)) => seen.extend_from_slice(&bytes_of(data.output)),
                Some(Event::Keepalive(_)) => {}
                other => panic!(
                    "{other:?} before {wanted:?}, after {:?}",
                    String::from_utf8_lossy(&seen)
                ),
            }
            let text = String::from_utf8_lossy(&seen);
            if text.contains(wanted) {
                return text.into_owned();
            }
        }
    }

    /// Whether the stream breaks off without a word of an end.
    pub(crate) async fn breaks_off(mut self) -> bool {
        loop {
            match self.decoder.decode(&mut self.chunk).unwrap() {
                Some(Frame::Message(message)) => {
                    let message: O = self.codec.decode(message).unwrap();
                    if matches!(message.event(), Event::End(_)) {
                        return false;
                    }
                }
                Some(Frame::End(_)) => return false,
                None => match self.body.frame().await {
                    Some(Ok(frame)) => self.chunk = frame.into_data().unwrap(),
                    Some(Err(_)) => return true,
                    None => return false,
                },
            }
        }
    }

    /// Everything up to the end of the stream. A start event may have been taken already.
    pub(crate) async fn outcome(mut self) -> Outcome {
        let mut outcome = Outcome::default();
        while let Some(event) = self.event().await {
            assert!(outcome.end.is_none(), "{event:?} after the end");
            match event {
                Event::Start(start) => outcome.pid = start.pid,
                Event::Data(data) => {
                    outcome.skipped += data.skipped;
                    match data.output.unwrap() {
                        Output::Stdout(bytes) => outcome.stdout.extend_from_slice(&bytes),
                        Output::Stderr(bytes) => outcome.stderr.extend_from_slice(&bytes),
                        Output::Pty(bytes) => outcome.pty.extend_from_slice(&bytes),
                    }
                }
                Event::End(end) => outcome.end = Some(end),
                Event::Keepalive(_) => {}
            }
        }
        outcome.error = self.end.unwrap().error;
        outcome
    }
}

pub(crate) fn bytes_of(output: Option<Output>) -> Bytes {
    match output.unwrap() {
        Output::Stdout(bytes) | Output::Stderr(bytes) | Output::Pty(bytes) => bytes,
    }
}

/// A command's whole life.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) pid: u32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) pty: Vec<u8>,
    pub(crate) skipped: u64,
    pub(crate) end: Option<EndEvent>,
    pub(crate) error: Option<ErrorBody>,
}

impl Outcome {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap().trim_end()
    }

    /// The exit code of a command that exited.
    pub(crate) fn code(&self) -> i32 {
        let end = self
            .end
            .as_ref()
            .unwrap_or_else(|| panic!("no end in {self:?}"));
        assert!(end.exited, "{self:?}");
        end.exit_code
    }

    pub(crate) fn info(&self) -> wire::EndInfo {
        self.end.as_ref().unwrap().info.unwrap()
    }
}

/// `cmd` with `args`, without input.
pub(crate) fn start(cmd: &str, args: &[&str]) -> StartRequest {
    StartRequest {
        process: Some(ProcessConfig {
            cmd: cmd.into(),
            args: args.iter().map(|arg| (*arg).into()).collect(),
            ..ProcessConfig::default()
        }),
        stdin: Some(false),
        ..StartRequest::default()
    }
}

/// A shell line, without input.
pub(crate) fn shell(line: &str) -> StartRequest {
    start("/bin/sh", &["-c", line])
}

pub(crate) fn by_pid(pid: u32) -> Option<ProcessSelector> {
    Some(ProcessSelector::pid(pid))
}

pub(crate) fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).boxed_unsync()
}

/// Whether the process runs; a zombie does not.
pub(crate) fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat[stat.rfind(')').unwrap()..].starts_with(") Z"))
}

/// Nothing that a test waits for takes this long, however busy the machine: what does has hung.
const HUNG: Duration = Duration::from_secs(120);

/// Returns once `condition` holds.
///
/// # Panics
/// It never does.
#[track_caller]
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let holds = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let held = tokio::time::timeout(HUNG, holds).await;
        assert!(held.is_ok(), "what {caller} waits for never comes");
    }
}
