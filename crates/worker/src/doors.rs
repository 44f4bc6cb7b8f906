//! The egress boundary's doors, where the host has no sockets inside: the worker listens and forwards
//! each connection to a parked accept. It decides nothing, and resolves nothing.

mod holder;
pub(crate) mod open;
mod queue;
mod setup;

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use http::{HeaderValue, Method, StatusCode};
use namzu_protocol::ext::{
    DOOR_HEADER, Door, DoorsRequest, DoorsResponse, LOCAL_HEADER, MAX_DOOR_PORTS,
};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

pub(crate) use self::holder::{Asked, Holder};
pub(crate) use self::queue::Arrived;
use self::queue::Queue;
pub(crate) use self::setup::prepare;
use crate::control;
use crate::http::{self as web, Request, Response};
use crate::worker::Worker;

/// Where a proxy is spoken to.
pub(crate) const PROXY_PORT: u16 = 3128;
/// Where names are asked for.
pub(crate) const DNS_PORT: u16 = 53;
/// Ports of all requests together.
const PORTS: usize = 1024;

/// The doors, and who came by them.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    open: Mutex<Open>,
    proxy: Queue,
    dns: Queue,
    named: Queue,
}

/// What is listened on; ends when dropped.
#[derive(Debug, Default)]
struct Open {
    proxy: bool,
    dns_tcp: bool,
    dns_udp: bool,
    ports: BTreeSet<u16>,
    listening: JoinSet<()>,
    /// Connections of the host's that asked for any of this. Those that do not last, one a request, are
    /// never counted out: they do not tell that the host is gone.
    holders: usize,
}

/// Answers a call.
pub(crate) async fn handle(worker: &Worker, request: Request) -> Response {
    if request.method() != Method::POST {
        return web::error(StatusCode::METHOD_NOT_ALLOWED, "doors takes POST");
    }
    if !worker.config.doors {
        // It may be in a network that is not its own.
        return web::error(StatusCode::CONFLICT, "it was started without --doors");
    }
    let asked = request.extensions().get::<Asked>().cloned();
    match control::body::<DoorsRequest>(request).await {
        Ok(DoorsRequest { ports }) if ports.len() <= MAX_DOOR_PORTS => {
            if asked.is_none_or(|asked| asked.ask()) {
                worker.doors().enter();
            }
            web::json(StatusCode::OK, &worker.doors().open(&ports))
        }
        Ok(_) => web::error(StatusCode::BAD_REQUEST, "too many ports at once"),
        Err(refusal) => refusal,
    }
}

impl Doors {
    /// Opens what is not open yet: the loopback's doors, and those of `ports`.
    fn open(&self, ports: &[u16]) -> DoorsResponse {
        let mut failures = Vec::new();
        let routed = setup::is_routed();
        if !routed {
            let why = "cannot route the addresses of names: it was not allowed to when it started";
            failures.push(why.to_owned());
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tried = |what: &str, done: io::Result<()>| {
            if let Err(error) = &done {
                failures.push(format!("cannot listen on {what}: {error}"));
            }
            done.is_ok()
        };
        if !open.proxy {
            let at = (Ipv4Addr::LOCALHOST, PROXY_PORT).into();
            open.proxy = tried("the proxy port", open.tcp(at, &self.proxy));
        }
        let at = (Ipv4Addr::LOCALHOST, DNS_PORT).into();
        if !open.dns_tcp {
            open.dns_tcp = tried("the port of names (TCP)", open.tcp(at, &self.dns));
        }
        if !open.dns_udp {
            open.dns_udp = tried("the port of names (UDP)", open.udp(at, &self.dns));
        }
        for port in ports {
            // The doors of the loopback are in the way of one on every address, and it in theirs.
            let own = [0, PROXY_PORT, DNS_PORT].contains(port);
            if own || open.ports.contains(port) {
                continue;
            }
            if open.ports.len() >= PORTS {
                tried(
                    &format!("port {port}"),
                    Err(io::Error::other("too many ports")),
                );
                continue;
            }
            let at = (Ipv4Addr::UNSPECIFIED, *port).into();
            if tried(&format!("port {port}"), open.tcp(at, &self.named)) {
                open.ports.insert(*port);
            }
        }
        DoorsResponse {
            proxy: open.proxy,
            dns: open.dns_tcp && open.dns_udp,
            routed,
            ports: open.ports.iter().copied().collect(),
            failures,
        }
    }

    /// One more connection holds them.
    fn enter(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.holders = open.holders.saturating_add(1);
    }

    /// A connection that held them has ended.
    fn leave(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.holders = open.holders.saturating_sub(1);
        if open.holders == 0 {
            *open = Open::default();
            for queue in [&self.proxy, &self.dns, &self.named] {
                queue.clear();
            }
        }
    }

    /// Waits for somebody to come by a door.
    pub(crate) async fn arrival(&self, door: Door) -> Arrived {
        let queue = match door {
            Door::Proxy => &self.proxy,
            Door::Dns => &self.dns,
            Door::Named => &self.named,
        };
        queue.next().await
    }
}

impl Open {
    fn tcp(&mut self, at: SocketAddr, queue: &Queue) -> io::Result<()> {
        let listener = TcpListener::from_std(open::tcp(at)?.into())?;
        self.listening
            .spawn(queue::accept(listener, queue.sender()));
        Ok(())
    }

    fn udp(&mut self, at: SocketAddr, queue: &Queue) -> io::Result<()> {
        let socket = UdpSocket::from_std(open::udp(at)?.into())?;
        self.listening.spawn(queue::receive(socket, queue.sender()));
        Ok(())
    }
}

/// Says on the answer to a parked accept who it is for.
pub(crate) fn label(response: &mut Response, door: Door, local: Option<SocketAddr>) {
    let headers = response.headers_mut();
    headers.insert(DOOR_HEADER, HeaderValue::from_static(door.as_str()));
    if door == Door::Named
        && let Some(local) = local
        && let Ok(local) = HeaderValue::try_from(local.to_string())
    {
        headers.insert(LOCAL_HEADER, local);
    }
}
