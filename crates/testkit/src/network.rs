//! A private network for tests of the egress boundary: nothing leaves the machine, and whatever gets
//! through truly reaches somebody, who says so.
//!
//! The test binary makes it itself, as root or as an ordinary user. It needs `ip` from iproute2.
//!
//! ```text
//!  Room (a sandbox: only lo)        the test's own network: "the host"         Outside
//!   doors ── sockets made here ──►   the boundary, services on every   ── veth ──►  every address there
//!                                    address of the host                            is, servers on each
//! ```
//!
//! The outside answers on *every* address that is not the host's: public ones, private ones, metadata
//! services, and IPv6. So a test need not foresee where an attack may get to.

mod certificates;
mod http;
mod log;
mod room;
mod serve;
mod space;
mod zone;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use self::certificates::Authority;
pub use self::log::{Log, Seen};
pub use self::room::Room;
pub use self::serve::{TCP_PORTS, UDP_PORTS};
pub use self::space::enter;
use self::space::{Space, ip};
pub use self::zone::{Record, Zone};

/// The host's own address, which looks like any public one.
pub const HOST_V4: Ipv4Addr = Ipv4Addr::new(51, 15, 77, 2);

/// The host's own IPv6 address.
pub const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2a01, 0x4f8, 0x77, 0, 0, 0, 0, 2);

/// The other end of the host's link.
const GATEWAY_V4: &str = "51.15.77.1";
const GATEWAY_V6: &str = "2a01:4f8:77::1";

/// An address of the host that only [`Network::settle`] connects to.
const FENCE: Ipv4Addr = Ipv4Addr::new(127, 9, 9, 9);

/// For whatever was on its way to be entered in the log.
const PATIENCE: Duration = Duration::from_secs(20);

/// Name servers, web servers and whatnot, on every address but the host's, and on those too.
#[derive(Debug)]
pub struct Network {
    log: Log,
    authority: Arc<Authority>,
    next: AtomicU16,
    /// Keeps the namespace.
    outside: Space,
}

/// Addresses that no other test uses.
#[derive(Clone, Copy, Debug)]
pub struct Block(u16);

impl Network {
    /// Makes the network. [`enter`] must have been called before.
    ///
    /// # Errors
    ///
    /// What the kernel or `ip` said.
    pub fn open(runtime: &Handle) -> io::Result<Self> {
        let network = Self::without_servers()?;
        let sockets = network.outside.run(serve::bind)?;
        sockets.serve(runtime, &network.log, &network.authority)?;
        serve::bind()?.serve(runtime, &network.log, &network.authority)?;
        network.settle()?;
        Ok(network)
    }

    /// Makes the network with nobody in it: servers are the test's, [outside](Self::outside). [`enter`] must
    /// have been called before. There is nothing in the log then, and nothing to [settle](Self::settle).
    ///
    /// # Errors
    ///
    /// What the kernel or `ip` said.
    pub fn without_servers() -> io::Result<Self> {
        let outside = Space::open()?;
        link(&outside)?;
        Ok(Self {
            log: Log::default(),
            authority: Arc::new(Authority::new().map_err(io::Error::other)?),
            next: AtomicU16::new(1),
            outside,
        })
    }

    /// Runs `job` in the network outside: sockets that it makes, and processes that it starts, are there for
    /// good.
    ///
    /// # Errors
    ///
    /// Those of the job.
    pub fn outside<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.outside.run(job)
    }

    /// A certificate for all of these names, of the authority that [`Self::root_pem`] is, and its key, as PEM:
    /// for servers in other processes.
    ///
    /// # Errors
    ///
    /// A name that cannot be in a certificate.
    pub fn certificate(&self, names: &[&str]) -> io::Result<(String, String)> {
        self.authority.signed(names).map_err(io::Error::other)
    }

    /// Who connected where.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// What signs the certificates of the servers, as PEM.
    #[must_use]
    pub fn root_pem(&self) -> &str {
        self.authority.pem()
    }

    /// Addresses for one test.
    #[must_use]
    pub fn block(&self) -> Block {
        Block(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// What reached addresses of `block`, or any that belongs to no test: the host's own, private ones,
    /// metadata services. Datagrams count wherever they went. [Settle](Self::settle) before.
    #[must_use]
    pub fn reached(&self, block: Block) -> Vec<Seen> {
        self.log.all(|seen| match seen.to.ip() {
            // Only fences are of two bytes.
            _ if seen.udp => seen.bytes.len() != 2,
            IpAddr::V4(FENCE) => false,
            address => block.has(address) || !Block::is_any(address),
        })
    }

    /// Returns once all that has reached a server is in the log.
    ///
    /// # Errors
    ///
    /// Those of the network.
    pub fn settle(&self) -> io::Result<()> {
        let fence = self.block();
        // Queues are first in, first out: what came before is accepted before.
        for host in [IpAddr::V4(fence.v4(1)), IpAddr::V4(FENCE)] {
            for port in TCP_PORTS {
                self.fence(SocketAddr::new(host, *port))?;
            }
            for port in UDP_PORTS {
                let to = SocketAddr::new(host, *port);
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
                let mark = socket.local_addr()?.port().to_be_bytes();
                socket.send_to(&mark, to)?;
                self.wait(|seen| seen.udp && seen.to.port() == *port && seen.bytes == mark)?;
            }
        }
        Ok(())
    }

    fn fence(&self, to: SocketAddr) -> io::Result<()> {
        let stream = TcpStream::connect(to)?;
        let from = stream.local_addr()?;
        self.wait(|seen| seen.from == from && seen.to == to)
    }

    fn wait(&self, wanted: impl Fn(&Seen) -> bool) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.log.any(&wanted) {
            if Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

impl Block {
    /// A public address.
    #[must_use]
    pub const fn v4(self, last: u8) -> Ipv4Addr {
        let [high, low] = self.0.to_be_bytes();
        Ipv4Addr::new(45, high, low, last)
    }

    /// A public IPv6 address.
    #[must_use]
    pub const fn v6(self, last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2a0b, self.0, 0, 0, 0, 0, 0, last)
    }

    /// A private address.
    #[must_use]
    pub const fn private(self, last: u8) -> Ipv4Addr {
        let [high, low] = self.0.to_be_bytes();
        Ipv4Addr::new(10, high, low, last)
    }

    /// Whether `address` is one of these.
    #[must_use]
    pub fn has(self, address: IpAddr) -> bool {
        let bytes = self.0.to_be_bytes();
        Self::is_any(address)
            && match address {
                IpAddr::V4(address) => address.octets()[1..3] == bytes,
                IpAddr::V6(address) => address.octets()[2..4] == bytes,
            }
    }

    /// Whether `address` is of any block.
    fn is_any(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => matches!(address.octets()[0], 45 | 10),
            IpAddr::V6(address) => address.segments()[0] == 0x2a0b,
        }
    }
}

/// Joins the host and the outside.
fn link(outside: &Space) -> io::Result<()> {
    let thread = outside.thread();
    ip(&format!(
        "link add out type veth peer name in netns {thread}"
    ))?;
    ip(&format!("addr add {HOST_V4}/30 dev out"))?;
    ip(&format!("-6 addr add {HOST_V6}/64 dev out nodad"))?;
    ip("link set out up")?;
    outside.run(|| {
        ip(&format!("addr add {GATEWAY_V4}/30 dev in"))?;
        ip(&format!("-6 addr add {GATEWAY_V6}/64 dev in nodad"))?;
        ip("link set in up")?;
        // Whatever there is no better route to is here.
        ip("route add local default dev lo table main")?;
        ip("-6 route add local default dev lo table main")
    })?;
    ip(&format!("route add default via {GATEWAY_V4}"))?;
    ip(&format!("-6 route add default via {GATEWAY_V6}"))
}
