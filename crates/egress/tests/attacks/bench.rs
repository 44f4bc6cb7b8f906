//! What every test stands on: the network, a sandbox at the boundary, and what is asserted of them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use namzu_core::egress::{DNS_PORT, PROXY_PORT};
use namzu_egress::{Boundary, Egress, ForwardedDoor};
use namzu_testkit::conformance::is_required;
use namzu_testkit::network::{self, Block, HOST_V4, HOST_V6, Network, Room, Seen, Zone};
use namzu_types::EgressPolicy;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::runtime::Runtime;

use crate::doors::Resolved;
use crate::usual::zone;
pub(crate) use crate::usual::{API_SECRET, GIT_ENV, GIT_SECRET, rule, rules, strings, usual};
use crate::wire::Wire;

/// What all tests share, and how their sandboxes come to the boundary.
pub(crate) struct Bench {
    shared: Arc<Shared>,
    /// A worker inside has the doors, and forwards each connection over the channel.
    pub(crate) forwarded: bool,
}

impl std::ops::Deref for Bench {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// What all tests share.
pub(crate) struct Shared {
    pub(crate) network: Network,
    pub(crate) runtime: Runtime,
    /// Held by every test that does not mind others; one that does takes it for itself.
    pub(crate) alone: RwLock<()>,
    /// Addresses that nothing in a sandbox may reach, and whether whoever is not in one can.
    pub(crate) forbidden: Vec<(IpAddr, bool)>,
    /// What vouches for the servers.
    root: tempfile::NamedTempFile,
    next: AtomicU32,
}

/// Some of what no sandbox may reach.
const FORBIDDEN: &[&str] = &[
    "127.0.0.1",
    "::1",
    "169.254.169.254",
    "168.63.129.16",
    "100.100.100.200",
    "192.168.1.1",
    "172.16.0.1",
    "fd00:ec2::254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
];

type Attack = Box<dyn FnOnce(&Arc<Bench>) + Send>;

/// The tests, by name.
#[derive(Default)]
pub(crate) struct List {
    all: Vec<(String, Attack)>,
    alone: Vec<(String, Attack)>,
}

impl List {
    pub(crate) fn add(
        &mut self,
        name: impl Into<String>,
        attack: impl FnOnce(&Arc<Bench>) + Send + 'static,
    ) {
        self.all.push((name.into(), Box::new(attack)));
    }

    /// Adds a test that no other may run beside.
    pub(crate) fn add_alone(
        &mut self,
        name: impl Into<String>,
        attack: impl FnOnce(&Arc<Bench>) + Send + 'static,
    ) {
        self.alone.push((name.into(), Box::new(attack)));
    }
}

pub(crate) fn main() -> ExitCode {
    // Before there is a second thread.
    let entered = network::enter();
    let mut arguments = Arguments::from_args();
    // Most of what tests do is to wait.
    arguments.test_threads.get_or_insert(8);
    let trials = match entered.and_then(|()| Shared::open()) {
        Ok(shared) => {
            let shared = Arc::new(shared);
            [false, true]
                .into_iter()
                .flat_map(|forwarded| trials(&shared, forwarded))
                .collect()
        }
        Err(why) => {
            // Else a host that allows no network of its own leaves the tests out.
            let required = is_required("network");
            let name = format!("unavailable: no network of its own here: {why}");
            let trial = Trial::test(name, move || Err(why.into()));
            vec![trial.with_ignored_flag(!required)]
        }
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials(shared: &Arc<Shared>, forwarded: bool) -> Vec<Trial> {
    let mut list = List::default();
    for theme in [
        crate::control::list,
        crate::names::list,
        crate::ports::list,
        crate::addresses::list,
        crate::dns::list,
        crate::framing::list,
        crate::binding::list,
        crate::credentials::list,
        crate::policies::list,
        crate::resources::list,
        crate::fuzz::list,
    ] {
        theme(&mut list);
    }
    if !forwarded {
        // What is about sockets that were made inside.
        crate::control::list_sockets(&mut list);
        crate::policies::list_sockets(&mut list);
    }
    let bench = Arc::new(Bench {
        shared: Arc::clone(shared),
        forwarded,
    });
    let prefix = if forwarded { "forwarded::" } else { "" };
    let trial = |name: String, attack: Attack, alone: bool| {
        let bench = Arc::clone(&bench);
        Trial::test(format!("{prefix}{name}"), move || {
            if alone {
                let _held = bench.alone.write().unwrap_or_else(PoisonError::into_inner);
                attack(&bench);
            } else {
                let _held = bench.alone.read().unwrap_or_else(PoisonError::into_inner);
                attack(&bench);
            }
            Ok(())
        })
    };
    let all = list
        .all
        .into_iter()
        .map(|(name, attack)| trial(name, attack, false));
    let mut trials: Vec<Trial> = all.collect();
    trials.extend(
        list.alone
            .into_iter()
            .map(|(name, attack)| trial(name, attack, true)),
    );
    trials
}

impl Shared {
    fn open() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let network = Network::open(runtime.handle())?;
        let root = tempfile::NamedTempFile::new()?;
        std::fs::write(root.path(), network.root_pem())?;
        let mut forbidden: Vec<(IpAddr, bool)> = FORBIDDEN
            .iter()
            .filter_map(|text| text.parse().ok())
            .chain([HOST_V4.into(), HOST_V6.into()])
            .map(|address| (address, false))
            .collect();
        for (address, answers) in &mut forbidden {
            let to = SocketAddr::new(*address, 80);
            *answers = TcpStream::connect_timeout(&to, Duration::from_secs(30)).is_ok();
        }
        network.settle()?;
        // From here on, whatever is seen there got through.
        network.log().clear();
        Ok(Self {
            network,
            runtime,
            alone: RwLock::new(()),
            forbidden,
            root,
            next: AtomicU32::new(1),
        })
    }
}

/// A sandbox at a boundary, with addresses and names of its own.
pub(crate) struct Place {
    pub(crate) bench: Arc<Bench>,
    pub(crate) room: Room,
    pub(crate) zone: Zone,
    pub(crate) block: Block,
    pub(crate) egress: Arc<Egress>,
    trust: RootCertStore,
}

impl Place {
    /// One with the usual policy.
    pub(crate) fn open(bench: &Arc<Bench>) -> Self {
        Self::with(bench, |_| usual())
    }

    /// One with the policy that `policy` makes for its addresses.
    pub(crate) fn with(bench: &Arc<Bench>, policy: impl FnOnce(Block) -> EgressPolicy) -> Self {
        Self::try_with(bench, policy).expect("a policy that is admitted")
    }

    /// The same, if the policy is admitted.
    pub(crate) fn try_with(
        bench: &Arc<Bench>,
        policy: impl FnOnce(Block) -> EgressPolicy,
    ) -> namzu_core::Result<Self> {
        let block = bench.network.block();
        let zone = zone(block);
        let boundary = boundary(bench, &zone);
        let id = format!("attack-{}", bench.next.fetch_add(1, Ordering::Relaxed));
        let id = id.parse().expect("an identifier");
        let policy = policy(block);
        let egress = bench.runtime.block_on(boundary.admit(&id, &policy))?;
        let room = Room::open().expect("a network namespace");
        if !bench.forwarded {
            let doors = room.doors(&egress.ports()).expect("doors");
            let _inside = bench.runtime.enter();
            egress.serve(doors).expect("doors that are served");
        }
        let mut trust = RootCertStore::empty();
        let own = egress.ca_pem().unwrap_or_default();
        for pem in [own.as_str(), bench.network.root_pem()] {
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let certificate = certificate.expect("a certificate");
                trust
                    .add(certificate)
                    .expect("a certificate that can be trusted");
            }
        }
        Ok(Self {
            bench: Arc::clone(bench),
            room,
            zone,
            block,
            egress: Arc::new(egress),
            trust,
        })
    }

    pub(crate) const fn trust(&self) -> &RootCertStore {
        &self.trust
    }

    /// Connects from inside, to a door or to wherever there is a route.
    pub(crate) fn dial(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let door = match to {
            _ if !self.bench.forwarded => return self.room.connect(to),
            SocketAddr::V4(to) if to.ip().is_loopback() => match to.port() {
                PROXY_PORT => ForwardedDoor::Proxy,
                DNS_PORT => ForwardedDoor::Dns,
                _ => return self.room.connect(to.into()),
            },
            SocketAddr::V4(to) if matches!(to.ip().octets(), [198, 18 | 19, ..]) => {
                ForwardedDoor::Named(to)
            }
            SocketAddr::V4(_) | SocketAddr::V6(_) => return self.room.connect(to),
        };
        // Stands for the channel: two ends that are of no network of the sandbox.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let inside = TcpStream::connect(listener.local_addr()?)?;
        inside.set_read_timeout(Some(Duration::from_secs(30)))?;
        inside.set_nodelay(true)?;
        let (outside, _) = listener.accept()?;
        outside.set_nonblocking(true)?;
        outside.set_nodelay(true)?;
        let _inside = self.bench.runtime.enter();
        let outside = tokio::net::TcpStream::from_std(outside)?;
        let egress = Arc::clone(&self.egress);
        self.bench.runtime.spawn(async move {
            egress.serve_forwarded(door, Box::new(outside)).await;
        });
        Ok(inside)
    }

    /// A connection to the proxy port.
    pub(crate) fn proxy(&self) -> Wire {
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, PROXY_PORT));
        Wire::new(self.dial(to).expect("the proxy port"))
    }

    /// A connection to port 80 of a name, as a program makes it that knows nothing of proxies.
    pub(crate) fn named(&self, host: &str, port: u16) -> Wire {
        let address = self.resolve(host).expect("an address");
        let stream = self.dial(SocketAddr::new(address.into(), port));
        Wire::new(stream.expect("a named door"))
    }

    /// A connection to port 443 of a name, opened with CONNECT.
    pub(crate) fn tunnel(&self, host: &str, port: u16) -> Wire {
        let mut wire = self.proxy();
        wire.send(format!(
            "CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ));
        let reply = wire.head().expect("an answer to CONNECT");
        assert_eq!(reply.status, 200, "{}", reply.head);
        wire
    }

    /// Within TLS that the boundary ends.
    pub(crate) fn intercepted(&self, host: &str) -> Wire {
        let wire = self.tunnel(host, 443);
        wire.tls(&self.trust, host, &["http/1.1"])
            .expect("a handshake with the boundary")
    }

    /// Asks the port that answers names, in a datagram where there is such a port.
    pub(crate) fn ask_udp(&self, message: &[u8]) -> io::Result<Resolved> {
        if self.bench.forwarded {
            return self.ask_tcp(message);
        }
        let socket = self.room.udp((Ipv4Addr::LOCALHOST, DNS_PORT))?;
        socket.set_read_timeout(Some(Duration::from_secs(3)))?;
        socket.send(message)?;
        let mut answer = [0; 4096];
        let read = socket.recv(&mut answer)?;
        Resolved::read(&answer[..read]).ok_or_else(|| io::Error::other("no answer of DNS"))
    }

    /// Asks the port that answers names, over TCP.
    pub(crate) fn ask_tcp(&self, message: &[u8]) -> io::Result<Resolved> {
        let mut wire = Wire::new(self.dial((Ipv4Addr::LOCALHOST, DNS_PORT).into())?);
        let length = u16::try_from(message.len()).map_err(io::Error::other)?;
        wire.send([&length.to_be_bytes()[..], message].concat());
        wire.finish();
        let length = wire.exactly(2)?;
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        let answer = wire.exactly(length)?;
        Resolved::read(&answer).ok_or_else(|| io::Error::other("no answer of DNS"))
    }

    /// What reached anybody but the usual host whose TLS is ended, which is connected to before it is known
    /// what is asked for.
    pub(crate) fn reached(&self) -> Vec<Seen> {
        self.bench.network.settle().expect("a network that works");
        let inner = IpAddr::V4(self.block.v4(2));
        let mut seen = self.bench.network.reached(self.block);
        seen.retain(|seen| seen.to.ip() != inner || !seen.bytes.is_empty());
        seen
    }

    /// Nothing got out, and nobody was asked for a name.
    pub(crate) fn silent(&self) {
        self.unreached();
        let mut asked = self.zone.asked();
        asked.retain(|name| name != "inner.test");
        assert_eq!(asked, Vec::<String>::new(), "a denied name was resolved");
    }

    /// Nothing got out.
    pub(crate) fn unreached(&self) {
        let seen = self.reached();
        assert!(seen.is_empty(), "got through: {seen:#?}");
    }

    /// One connection got out; what it received.
    pub(crate) fn one(&self) -> Seen {
        let mut seen = self.reached();
        assert_eq!(seen.len(), 1, "{seen:#?}");
        seen.remove(0)
    }
}

pub(crate) fn boundary(bench: &Bench, zone: &Zone) -> Boundary {
    let _inside = bench.runtime.enter();
    Boundary::builder()
        .lookup(zone.clone())
        .roots(bench.root.path())
        .build()
        .expect("a boundary")
}
