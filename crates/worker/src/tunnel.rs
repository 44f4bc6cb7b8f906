//! Connections through the worker: `expose` into the sandbox, `reach` and `accept` out of it.
//!
//! The worker decides nothing here. `expose` dials the loopback inside; `reach` listens on it, and
//! whoever connects is handed to a parked `accept`.
#![expect(
    clippy::result_large_err,
    reason = "a refusal is a whole response, made once a request"
)]

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode, Version, header};
use hyper::ext::Protocol;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use namzu_protocol::ext::{self, Door, Reach, UPGRADE_PROTOCOL};
use namzu_protocol::query;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use crate::control;
use crate::doors::{self, Arrived};
use crate::http::{self as web, Request, Response};
use crate::worker::Worker;

const BUFFER: usize = 64 * 1024;
/// Connections inside that no accept has taken; more wait in the kernel's backlog.
const WAITING: usize = 16;
/// Accepts parked on all ports together.
const PARKED: usize = 1024;
/// Ports listened on.
const PORTS: usize = 256;
/// Loopback answers at once, unless the listener's backlog is full.
const DIAL: Duration = Duration::from_secs(10);

type Connections = Arc<tokio::sync::Mutex<mpsc::Receiver<TcpStream>>>;

/// One port listened on.
#[derive(Debug)]
struct Reached {
    connections: Connections,
    listener: AbortHandle,
}

/// The ports listened on, and what runs for tunnels.
#[derive(Debug)]
pub(crate) struct Tunnels {
    reached: Mutex<HashMap<u16, Reached>>,
    parked: Semaphore,
    tasks: Mutex<JoinSet<()>>,
}

impl Default for Tunnels {
    fn default() -> Self {
        Self {
            reached: Mutex::default(),
            parked: Semaphore::new(PARKED),
            tasks: Mutex::default(),
        }
    }
}

/// Answers a call.
pub(crate) async fn handle(worker: &Worker, request: Request) -> Response {
    let tunnels = worker.tunnels();
    match request.uri().path() {
        ext::REACH if request.method() == Method::POST => {
            match control::body::<Reach>(request).await {
                Ok(Reach { port }) => tunnels.reach(port).await,
                Err(refusal) => refusal,
            }
        }
        ext::REACH if request.method() == Method::DELETE => tunnels.close(&request),
        ext::REACH => web::error(
            StatusCode::METHOD_NOT_ALLOWED,
            "reach takes POST and DELETE",
        ),
        ext::EXPOSE => tunnels.expose(request).await,
        _ if given(&request, "door").is_some() => tunnels.accept_door(worker, request).await,
        _ => tunnels.accept(request).await,
    }
}

impl Tunnels {
    async fn expose(&self, request: Request) -> Response {
        let (port, upgrade) = match upgradable(request) {
            Ok(accepted) => accepted,
            Err(refusal) => return refusal,
        };
        let dialled =
            tokio::time::timeout(DIAL, TcpStream::connect((Ipv4Addr::LOCALHOST, port))).await;
        match dialled {
            Ok(Ok(connection)) => self.join(upgrade, Arrived::Stream(connection)),
            Ok(Err(_)) | Err(_) => web::error(
                StatusCode::BAD_GATEWAY,
                format!("port is not open: nothing listens on {port}"),
            ),
        }
    }

    async fn reach(&self, port: u16) -> Response {
        if self.reached().contains_key(&port) {
            return web::json(StatusCode::OK, &Reach { port });
        }
        if self.reached().len() >= PORTS {
            return web::error(
                StatusCode::TOO_MANY_REQUESTS,
                "too many ports are listened on",
            );
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
        let (port, listener) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                let status = match error.kind() {
                    io::ErrorKind::AddrInUse => StatusCode::CONFLICT,
                    io::ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                return web::error(status, format!("could not listen on port {port}: {error}"));
            }
        };
        let (sender, receiver) = mpsc::channel(WAITING);
        let listener = self.run(listen(listener, sender));
        let connections = Arc::new(tokio::sync::Mutex::new(receiver));
        self.reached().insert(
            port,
            Reached {
                connections,
                listener,
            },
        );
        web::json(StatusCode::OK, &Reach { port })
    }

    /// Listens no more. Idempotent. Connections that were taken live on; parked accepts are refused.
    fn close(&self, request: &Request) -> Response {
        let port = match port(request) {
            Ok(port) => port,
            Err(refusal) => return refusal,
        };
        if let Some(reached) = self.reached().remove(&port) {
            reached.listener.abort();
        }
        web::empty(StatusCode::NO_CONTENT)
    }

    async fn accept(&self, request: Request) -> Response {
        let (port, upgrade) = match upgradable(request) {
            Ok(accepted) => accepted,
            Err(refusal) => return refusal,
        };
        let found = self
            .reached()
            .get(&port)
            .map(|reached| Arc::clone(&reached.connections));
        let Some(connections) = found else {
            return web::error(
                StatusCode::NOT_FOUND,
                format!("port {port} is not listened on"),
            );
        };
        let Ok(_parked) = self.parked.try_acquire() else {
            return web::error(StatusCode::TOO_MANY_REQUESTS, "too many accepts are parked");
        };
        // First come, first served; a dropped request takes no connection with it.
        let connection = connections.lock().await.recv().await;
        match connection {
            Some(connection) => self.join(upgrade, Arrived::Stream(connection)),
            None => web::error(StatusCode::BAD_GATEWAY, "the listener is gone"),
        }
    }

    /// The same at a door of the boundary, whether it is open yet or not.
    async fn accept_door(&self, worker: &Worker, mut request: Request) -> Response {
        let upgrade = match upgrade(&mut request) {
            Ok(upgrade) => upgrade,
            Err(refusal) => return refusal,
        };
        let door = given(&request, "door").and_then(|door| Door::parse(&door));
        let Some(door) = door else {
            return web::error(StatusCode::BAD_REQUEST, "there is no such door");
        };
        let Ok(_parked) = self.parked.try_acquire() else {
            return web::error(StatusCode::TOO_MANY_REQUESTS, "too many accepts are parked");
        };
        let arrived = worker.doors().arrival(door).await;
        let local = arrived.local();
        let mut response = self.join(upgrade, arrived);
        doors::label(&mut response, door, local);
        response
    }

    /// Answers that the duplex is there, and carries it from then on.
    fn join(&self, upgrade: Upgrade, arrived: Arrived) -> Response {
        let mut response = web::empty(StatusCode::OK);
        if upgrade.switches {
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            let headers = response.headers_mut();
            headers.insert(
                header::UPGRADE,
                header::HeaderValue::from_static(UPGRADE_PROTOCOL),
            );
            headers.insert(
                header::CONNECTION,
                header::HeaderValue::from_static("upgrade"),
            );
        }
        self.run(async move {
            if let Ok(upgraded) = upgrade.pending.await {
                arrived.carry(TokioIo::new(upgraded), BUFFER).await;
            }
        });
        response
    }

    fn reached(&self) -> std::sync::MutexGuard<'_, HashMap<u16, Reached>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }
}

async fn listen(listener: TcpListener, sender: mpsc::Sender<TcpStream>) {
    loop {
        // Room first: what is not accepted waits in the kernel, bounded by it.
        let Ok(room) = sender.reserve().await else {
            return;
        };
        match listener.accept().await {
            Ok((connection, _)) => room.send(connection),
            // Out of descriptors, most likely: those of others come back with time.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

struct Upgrade {
    pending: OnUpgrade,
    /// HTTP/1.1's way: the connection switches. HTTP/2 answers a CONNECT.
    switches: bool,
}

/// What the query gives by a name.
fn given(request: &Request, name: &'static str) -> Option<String> {
    let query = request.uri().query().unwrap_or_default();
    query::get(query, name).ok().flatten()
}

/// The port that the query names.
fn port(request: &Request) -> Result<u16, Response> {
    let port = given(request, "port")
        .and_then(|port| port.parse().ok())
        .filter(|port| *port != 0);
    port.ok_or_else(|| web::error(StatusCode::BAD_REQUEST, "port is missing or is none"))
}

/// The port asked for and the duplex to come, if the request is for one.
fn upgradable(mut request: Request) -> Result<(u16, Upgrade), Response> {
    let upgrade = upgrade(&mut request)?;
    Ok((port(&request)?, upgrade))
}

/// The duplex to come, if the request is for one.
fn upgrade(request: &mut Request) -> Result<Upgrade, Response> {
    let is = |value: &str| value.eq_ignore_ascii_case(UPGRADE_PROTOCOL);
    let switches = request.version() != Version::HTTP_2;
    let asked = if switches {
        let upgrade = request
            .headers()
            .get(header::UPGRADE)
            .and_then(|value| value.to_str().ok());
        request.method() == Method::GET && upgrade.is_some_and(is)
    } else {
        let protocol = request.extensions().get::<Protocol>();
        request.method() == Method::CONNECT
            && protocol.is_some_and(|protocol| is(protocol.as_str()))
    };
    if !asked {
        return Err(web::error(
            StatusCode::UPGRADE_REQUIRED,
            "this call is an upgrade to namzu",
        ));
    }
    Ok(Upgrade {
        pending: hyper::upgrade::on(request),
        switches,
    })
}
