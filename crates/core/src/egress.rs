//! The seam between a backend and the egress boundary.
//!
//! The boundary says what a sandbox must find inside ([`Wiring`]) before it is launched. The backend
//! gives back a way to open the boundary's doors inside ([`Gate`]). It judges nothing.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;

use async_trait::async_trait;

use crate::Result;

/// The loopback port inside that speaks HTTP proxy and SOCKS5.
pub const PROXY_PORT: u16 = 3128;

/// The loopback port inside that answers names.
pub const DNS_PORT: u16 = 53;

/// The addresses that names get inside, `198.18.0.0/15`: they lead to the boundary and nowhere else.
pub const NAME_NET: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 15);

/// What a sandbox must find inside for its programs to use the boundary.
#[derive(Clone, Debug, Default)]
pub struct Wiring {
    /// The boundary is to have doors inside: the sandbox has a network of its own, and
    /// [`Launched::gate`](crate::Launched::gate) must be given.
    pub doors: bool,
    /// Variables of every command. What the specification sets wins.
    pub env: BTreeMap<String, String>,
    /// Files, read-only, over what the place has there. Where a directory that it cannot write to
    /// lacks such a name, it is left out: nobody looks for it there.
    pub files: Vec<WiredFile>,
}

/// A file that a sandbox finds.
#[derive(Clone, Debug)]
pub struct WiredFile {
    /// Absolute path inside.
    pub path: String,
    /// What it holds.
    pub contents: Arc<[u8]>,
}

/// How the boundary's doors get into a sandbox.
#[derive(Clone, Debug)]
pub enum Gate {
    /// Listening sockets that were made inside, held by this process: nothing in the sandbox can
    /// touch them, and nothing needs to run there.
    Sockets(Arc<dyn OpenDoors>),
    /// The worker serves the doors and forwards each connection over the channel.
    Channel,
}

/// Makes listening sockets inside a sandbox that runs.
#[async_trait]
pub trait OpenDoors: Debug + Send + Sync {
    /// Listens, inside the sandbox's network, on [`PROXY_PORT`] and [`DNS_PORT`] of its loopback
    /// and on `ports` of every address of [`NAME_NET`], which it routes to itself.
    ///
    /// What is given are the doors that this call opened: the first call opens the loopback's too,
    /// and a port that is open already is not opened again, even when its socket was dropped. Nor is
    /// one on [`PROXY_PORT`] or [`DNS_PORT`], where the loopback's would be in its way.
    ///
    /// All or none: after a failure or a cancellation what was opened is shut, and may be asked for
    /// again.
    ///
    /// # Errors
    ///
    /// `backend_failed`, with whatever the kernel said, such as that code inside listens on a port
    /// itself; `host_unsupported` where the host does not let this process in; `sandbox_lost`.
    async fn open(&self, ports: &[u16]) -> Result<Doors>;
}

/// Listening sockets inside a sandbox, non-blocking and close-on-exec.
#[derive(Debug, Default)]
pub struct Doors {
    /// On [`PROXY_PORT`] of the loopback.
    pub proxy: Vec<TcpListener>,
    /// On [`DNS_PORT`] of the loopback.
    pub dns_tcp: Vec<TcpListener>,
    /// On [`DNS_PORT`] of the loopback.
    pub dns_udp: Vec<UdpSocket>,
    /// On a port of every address of [`NAME_NET`]: whoever connects meant the name of that address.
    /// It may be on other addresses inside too, such as the loopback's: a connection whose local
    /// address is not of that range means nothing and must be refused.
    pub named: Vec<(u16, TcpListener)>,
}
