//! The least of E2B's control plane that its SDKs need: sandboxes are made, found and killed, and
//! their data plane is a bare pump to the worker, so that nothing but the worker answers the SDK.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on may panic; the lint only knows functions marked as tests"
)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use namzu_core::egress::Wiring;
use namzu_core::{Backend, Channel, types::SandboxId, types::SandboxSpec};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::RwLock;
use tokio::task::JoinSet;

/// What envd says of itself; features are switched by it in the SDKs.
const ENVD_VERSION: &str = "0.6.13";

pub(crate) struct ControlPlane {
    pub(crate) api: SocketAddr,
    pub(crate) data: SocketAddr,
    state: Arc<State>,
    _servers: JoinSet<()>,
}

struct State {
    backend: Arc<dyn Backend>,
    /// The newest sandbox: one script makes one.
    sandbox: Mutex<Option<(SandboxId, String)>>,
    /// Every open line to it reads this.
    lines: RwLock<()>,
}

impl ControlPlane {
    pub(crate) async fn start(backend: Arc<dyn Backend>) -> std::io::Result<Self> {
        let state = Arc::new(State {
            backend,
            sandbox: Mutex::new(None),
            lines: RwLock::new(()),
        });
        let api = TcpListener::bind("127.0.0.1:0").await?;
        let data = TcpListener::bind("127.0.0.1:0").await?;
        let addresses = (api.local_addr()?, data.local_addr()?);
        let mut servers = JoinSet::new();
        servers.spawn(serve_api(api, Arc::clone(&state)));
        servers.spawn(serve_data(data, Arc::clone(&state)));
        Ok(Self {
            api: addresses.0,
            data: addresses.1,
            state,
            _servers: servers,
        })
    }

    /// Takes down whatever a failed script left.
    pub(crate) async fn sweep(&self) -> namzu_core::Result<()> {
        self.state.kill().await.map(drop)
    }
}

async fn serve_api(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        let service = service_fn(move |request| {
            let state = Arc::clone(&state);
            async move { Ok::<_, Infallible>(state.answer(request).await) }
        });
        connections.spawn(async move {
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let path: Vec<_> = head
            .uri
            .path()
            .trim_start_matches("/v2")
            .trim_matches('/')
            .split('/')
            .map(str::to_owned)
            .collect();
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        let answer = match (head.method, path.as_slice()) {
            (Method::POST, ["sandboxes"]) => {
                let body = body
                    .collect()
                    .await
                    .map(http_body_util::Collected::to_bytes)
                    .unwrap_or_default();
                self.create(&serde_json::from_slice(&body).unwrap_or_default())
                    .await
                    .map(|made| (StatusCode::CREATED, Some(made)))
            }
            (Method::DELETE, ["sandboxes", _]) => self.kill().await.map(|found| {
                if found {
                    (StatusCode::NO_CONTENT, None)
                } else {
                    (
                        StatusCode::NOT_FOUND,
                        Some(json!({"code": 404, "message": "not found"})),
                    )
                }
            }),
            (Method::POST, ["sandboxes", _, "timeout"]) => Ok((StatusCode::NO_CONTENT, None)),
            _ => Ok((
                StatusCode::NOT_FOUND,
                Some(json!({"code": 404, "message": "no such call in this test"})),
            )),
        };
        let (status, body) = answer.unwrap_or_else(|err| {
            let message = namzu_core::Chain(&err).to_string();
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                Some(json!({"code": 500, "message": message})),
            )
        });
        let mut response =
            Response::new(Full::from(body.map(|b| b.to_string()).unwrap_or_default()));
        *response.status_mut() = status;
        response
            .headers_mut()
            .insert("content-type", "application/json".parse().unwrap());
        response
    }

    async fn create(&self, body: &Value) -> namzu_core::Result<Value> {
        let env: BTreeMap<String, String> =
            serde_json::from_value(body["envVars"].clone()).unwrap_or_default();
        let id: SandboxId = format!("sdk-{}-{}", std::process::id(), uuid())
            .parse()
            .unwrap();
        let spec = SandboxSpec {
            id: Some(id.clone()),
            env,
            detach: true,
            ..SandboxSpec::default()
        };
        let mut launched = self.backend.launch(&spec, &Wiring::default()).await?;
        launched.teardown.release();
        let Channel::Duplex(channel) = launched.channel else {
            panic!("a local backend gives a stream")
        };
        let token = channel
            .token
            .expect("a detached sandbox has a token")
            .expose()
            .to_owned();
        *self.sandbox.lock().unwrap() = Some((id.clone(), token.clone()));
        Ok(json!({
            "templateID": "base", "sandboxID": id, "clientID": "local",
            "envdVersion": ENVD_VERSION, "envdAccessToken": token,
        }))
    }

    async fn kill(&self) -> namzu_core::Result<bool> {
        let taken = self.sandbox.lock().unwrap().take();
        let Some((id, _)) = taken else {
            return Ok(false);
        };
        self.backend.destroy(&id).await?;
        // An SDK keeps connections, and its next call must not meet one that is about to close.
        drop(self.lines.write().await);
        Ok(true)
    }
}

fn uuid() -> u128 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos()
}

async fn serve_data(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let _ = pump(stream, &state).await;
        });
    }
}

async fn pump(mut stream: TcpStream, state: &State) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let id = state
        .sandbox
        .lock()
        .unwrap()
        .as_ref()
        .map(|(id, _)| id.clone());
    if let Some(id) = id
        && let Ok(launched) = state.backend.attach(&id).await
        && let Channel::Duplex(channel) = launched.channel
    {
        let _line = state.lines.read().await;
        let (mut from_sdk, mut to_sdk) = stream.into_split();
        let (mut from_worker, mut to_worker) = split(channel.io);
        let forward = async {
            let _ = copy(&mut from_sdk, &mut to_worker).await;
            let _ = to_worker.shutdown().await;
            std::future::pending().await
        };
        // It ends with what the worker says.
        return tokio::select! {
            done = copy(&mut from_worker, &mut to_sdk) => done.map(drop),
            never = forward => never,
        };
    }
    let body = json!({"sandboxId": "gone", "message": "The sandbox was not found", "code": 502})
        .to_string();
    // The request is read first: closing with unread bytes would reset the connection.
    let mut request = [0; 4096];
    let _ = stream.read(&mut request).await?;
    let head = format!(
        "HTTP/1.1 502 Bad Gateway\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
