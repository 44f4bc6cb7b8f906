//! A backend whose worker is a script over an in-memory stream.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{Response, StatusCode};
use namzu_client::{Sandbox, SandboxProvider};
use namzu_core::egress::{Gate, Wiring};
use namzu_core::types::{
    Capabilities, Controls, EgressCapabilities, SandboxId, SandboxSpec, Strength, Tier,
};
use namzu_core::{Backend, Channel, DuplexChannel, Error, ErrorCode, Launched, Result, Teardown};
use namzu_protocol::connect::{EndStream, Envelope};
use namzu_protocol::process::{
    DataEvent, EndEvent, EndInfo, ProcessEvent, StartEvent, StartResponse, data_event,
    process_event,
};
use namzu_protocol::{Codec, ext};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::io::DuplexStream;
use tokio::task::JoinSet;

pub(crate) type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One request to the script.
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: RecvStream,
    respond: SendResponse<Bytes>,
}

impl Call {
    /// The whole body of the request.
    pub(crate) async fn read(&mut self) -> Bytes {
        let mut whole = Vec::new();
        while let Some(Ok(chunk)) = self.body.data().await {
            let _ = self.body.flow_control().release_capacity(chunk.len());
            whole.extend_from_slice(&chunk);
        }
        whole.into()
    }

    /// Answers with a whole body.
    pub(crate) fn answer(mut self, status: u16, kind: &str, body: impl Into<Bytes>) {
        let head = head(status, kind);
        if let Ok(mut send) = self.respond.send_response(head, false) {
            let _ = send.send_data(body.into(), true);
        }
    }

    /// Answers with a body that is sent bit by bit.
    pub(crate) fn stream(mut self, kind: &str) -> Script {
        let send = self.respond.send_response(head(200, kind), false);
        Script {
            send: send.expect("the client is there"),
            _body: self.body,
            kept: Vec::new(),
        }
    }

    /// Answers with a byte stream, of which these headers speak.
    pub(crate) fn duplex(
        mut self,
        headers: &[(&'static str, &'static str)],
    ) -> (SendStream<Bytes>, RecvStream) {
        let mut head = head(200, "application/octet-stream");
        for (name, value) in headers {
            let value = http::HeaderValue::from_static(value);
            head.headers_mut().insert(*name, value);
        }
        let send = self.respond.send_response(head, false);
        (send.expect("the client is there"), self.body)
    }

    /// Answers as the worker does to a start: the stream, with the start event.
    pub(crate) fn started(self, pid: u32) -> Script {
        let mut script = self.stream("application/connect+proto");
        script.event(process_event::Event::Start(StartEvent { pid }));
        script
    }
}

fn head(status: u16, kind: &str) -> Response<()> {
    Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header("content-type", kind)
        .body(())
        .unwrap()
}

/// A response under way.
pub(crate) struct Script {
    send: SendStream<Bytes>,
    _body: RecvStream,
    kept: Vec<OwnedFd>,
}

impl Script {
    pub(crate) fn raw(&mut self, bytes: impl Into<Bytes>) {
        let _ = self.send.send_data(bytes.into(), false);
    }

    /// Holds descriptors open for as long as the script runs.
    pub(crate) fn keep(&mut self, descriptors: Vec<OwnedFd>) {
        self.kept.extend(descriptors);
    }

    pub(crate) fn event(&mut self, event: process_event::Event) {
        let message = StartResponse {
            event: Some(ProcessEvent::from(event)),
        };
        self.raw(
            Envelope::encode(Codec::Proto, &message)
                .unwrap()
                .into_bytes(),
        );
    }

    pub(crate) fn stdout(&mut self, bytes: &'static [u8]) {
        self.event(process_event::Event::Data(DataEvent {
            output: Some(data_event::Output::Stdout(Bytes::from_static(bytes))),
            offset: 0,
            skipped: 0,
        }));
    }

    pub(crate) fn end(&mut self, code: i32, info: EndInfo) {
        self.event(process_event::Event::End(EndEvent {
            exit_code: code,
            exited: info.signal == 0,
            status: String::new(),
            error: None,
            info: Some(info),
        }));
    }

    /// The last envelope, and the end of the body.
    pub(crate) fn close(&mut self) {
        let end = Envelope::end(&EndStream::success()).unwrap();
        let _ = self.send.send_data(end.into_bytes(), true);
    }

    /// The last envelope of a call that failed.
    pub(crate) fn fail(&mut self, end: &EndStream) {
        let end = Envelope::end(end).unwrap();
        let _ = self.send.send_data(end.into_bytes(), true);
    }

    /// Waits until the client takes the stream back.
    pub(crate) async fn reset(&mut self) -> h2::Reason {
        std::future::poll_fn(|cx| self.send.poll_reset(cx))
            .await
            .unwrap_or(h2::Reason::CONNECT_ERROR)
    }
}

/// What became of the sandbox.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    pub(crate) killed: AtomicUsize,
    pub(crate) destroyed: AtomicUsize,
    pub(crate) obituary: Mutex<Option<ErrorCode>>,
    /// Cuts the line.
    pub(crate) server: Mutex<JoinSet<()>>,
}

impl Fate {
    pub(crate) fn cut(&self) {
        self.server.lock().unwrap().abort_all();
    }
}

#[derive(Debug)]
struct FakeTeardown(Arc<Fate>);

#[async_trait]
impl Teardown for FakeTeardown {
    async fn destroy(&mut self) -> Result<()> {
        self.0.destroyed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn kill(&mut self) {
        self.0.killed.fetch_add(1, Ordering::SeqCst);
    }

    fn obituary(&self) -> Option<Error> {
        let code = (*self.0.obituary.lock().unwrap())?;
        // Long enough for another call to ask meanwhile, as where the kernel is asked.
        for _ in 0..64 {
            std::thread::yield_now();
        }
        Some(Error::new(code, "it is over"))
    }
}

type Serve = Arc<dyn Fn(DuplexStream) -> Boxed + Send + Sync>;

/// Launches scripts instead of sandboxes.
pub(crate) struct FakeBackend {
    serve: Serve,
    pub(crate) fate: Arc<Fate>,
    pub(crate) specs: Mutex<Vec<SandboxSpec>>,
    /// Never gets ready.
    pub(crate) stuck: AtomicBool,
    /// Offers the fd lane; the worker's end is put here.
    pub(crate) with_lane: AtomicBool,
    pub(crate) lane: Arc<Mutex<Option<OwnedFd>>>,
    /// How the boundary gets in.
    pub(crate) gate: Mutex<Option<Gate>>,
    /// What each launch was to have inside.
    pub(crate) wirings: Mutex<Vec<Wiring>>,
}

impl std::fmt::Debug for FakeBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeBackend").finish_non_exhaustive()
    }
}

impl FakeBackend {
    /// A worker that does what it wants with the stream.
    pub(crate) fn raw<F, Fut>(serve: F) -> Arc<Self>
    where
        F: Fn(DuplexStream) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Arc::new(Self {
            serve: Arc::new(move |io| Box::pin(serve(io))),
            fate: Arc::default(),
            specs: Mutex::default(),
            stuck: AtomicBool::new(false),
            with_lane: AtomicBool::new(false),
            lane: Arc::default(),
            gate: Mutex::default(),
            wirings: Mutex::default(),
        })
    }

    /// A worker that speaks HTTP/2 and greets properly; `script` answers the rest.
    pub(crate) fn new<F, Fut>(script: F) -> Arc<Self>
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let script = Arc::new(script);
        Self::raw(move |io| serve(io, Arc::clone(&script)))
    }

    /// As [`Self::new`], with an fd lane whose other end is put into `lane`.
    pub(crate) fn with_lane<F, Fut>(lane: Arc<Mutex<Option<OwnedFd>>>, script: F) -> Arc<Self>
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let script = Arc::new(script);
        Arc::new(Self {
            serve: Arc::new(move |io| Box::pin(serve(io, Arc::clone(&script)))),
            fate: Arc::default(),
            specs: Mutex::default(),
            stuck: AtomicBool::new(false),
            with_lane: AtomicBool::new(true),
            lane,
            gate: Mutex::default(),
            wirings: Mutex::default(),
        })
    }

    pub(crate) fn provider(self: &Arc<Self>) -> SandboxProvider {
        SandboxProvider::new(self.clone(), SandboxSpec::default())
    }

    pub(crate) async fn sandbox(self: &Arc<Self>) -> Sandbox {
        self.provider()
            .create(SandboxSpec::default())
            .await
            .unwrap()
    }
}

async fn serve<F, Fut>(io: DuplexStream, script: Arc<F>)
where
    F: Fn(Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let mut connection = h2::server::Builder::new()
        .enable_connect_protocol()
        .handshake(io)
        .await
        .unwrap();
    let mut calls = JoinSet::new();
    while let Some(Ok((request, respond))) = connection.accept().await {
        let (head, body) = request.into_parts();
        let call = Call {
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            body,
            respond,
        };
        if call.path == ext::INFO {
            call.answer(200, "application/json", r#"{"features":["lane"]}"#);
        } else {
            calls.spawn(script(call));
        }
    }
}

const CAPABILITIES: Capabilities = Capabilities {
    memory: Strength::Enforced,
    lifetime: Strength::Enforced,
    egress: EgressCapabilities {
        deny_all: Strength::Enforced,
        static_hosts: Strength::Enforced,
        resolver: Strength::Enforced,
        ..Capabilities::NONE.egress
    },
    detach: true,
    tunnels: true,
    ..Capabilities::NONE
};

#[async_trait]
impl Backend for FakeBackend {
    fn tier(&self) -> Tier {
        Tier::Process
    }

    fn name(&self) -> &str {
        "fake"
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn plan(&self, _: &SandboxSpec) -> Result<Controls> {
        Ok(Controls::default())
    }

    async fn launch(&self, spec: &SandboxSpec, wiring: &Wiring) -> Result<Launched> {
        self.wirings.lock().unwrap().push(wiring.clone());
        self.specs.lock().unwrap().push(spec.clone());
        if self.stuck.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let id = spec.id.clone().expect("the caller sets it");
        self.attach(&id).await
    }

    async fn attach(&self, id: &SandboxId) -> Result<Launched> {
        let specs = self.specs.lock().unwrap().clone();
        let made = specs.into_iter().find(|spec| spec.id.as_ref() == Some(id));
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        self.fate.server.lock().unwrap().spawn((self.serve)(theirs));
        let mut channel = DuplexChannel::private(ours);
        if self.with_lane.load(Ordering::SeqCst) {
            let (lane, worker) = rustix::net::socketpair(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )
            .unwrap();
            channel.lane = Some(lane);
            *self.lane.lock().unwrap() = Some(worker);
        }
        Ok(Launched {
            gate: self.gate.lock().unwrap().clone(),
            id: id.clone(),
            channel: Channel::Duplex(channel),
            teardown: Box::new(FakeTeardown(Arc::clone(&self.fate))),
            controls: Controls::default(),
            workspace: "/workspace".into(),
            egress: made
                .as_ref()
                .map(|spec| spec.egress_on(self.tier()).kind().to_owned()),
            labels: made.map(|spec| spec.labels).unwrap_or_default(),
        })
    }
}
