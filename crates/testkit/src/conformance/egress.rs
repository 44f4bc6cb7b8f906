//! Egress: what may leave leaves, nothing else does, by any door.

pub(crate) mod carried;
pub(crate) mod change;
pub(crate) mod listed;
pub(crate) mod secrets;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use namzu_client::Sandbox;
use namzu_core::types::{EgressPolicy, Secret, Strength, ValueSource};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

use crate::conformance::bench::{Answer, Bench, probe};
use crate::conformance::case::{Case, When, always, case};
use crate::conformance::check::{Failure, Verdict, ensure, ensure_eq};
use crate::conformance::host;
use crate::conformance::limits::is_refused;

pub(crate) const CASES: &[Case] = &[
    case!("egress", omitted_is_the_documented_default, always),
    case!("egress", deny_all_blocks_a_connect_to_the_host, |b| denies(
        b
    )
    .and(b.python())),
    case!("egress", deny_all_blocks_every_address_of_the_host, |b| {
        denies(b).and(b.attacker())
    }),
    case!("egress", deny_all_blocks_the_metadata_address, |b| denies(
        b
    )
    .and(b.attacker())),
    case!("egress", deny_all_blocks_a_raw_socket, |b| denies(b)
        .and(b.attacker())),
    case!("egress", deny_all_blocks_udp, |b| denies(b)
        .and(b.attacker())),
    case!("egress", deny_all_resolves_no_name, |b| denies(b)
        .and(b.attacker())),
    case!(
        "egress",
        deny_all_blocks_abstract_sockets_of_the_host,
        |b| denies(b).and(b.attacker())
    ),
    case!("egress", deny_all_blocks_vsock, |b| denies(b)
        .and(b.attacker())),
    case!("egress", deny_all_leaves_no_device_but_the_loopback, |b| {
        denies(b).and(b.attacker())
    }),
    case!("egress", deny_all_keeps_the_loopback_inside, |b| denies(b)
        .and(b.attacker())),
    case!("egress", deny_all_undeclared_is_refused, |b| {
        When::undeclared(
            b.capabilities.egress.deny_all > Strength::None,
            "egress deny-all",
        )
    }),
    case!("egress", allow_all_reaches_the_host, |b| When::declared(
        b.capabilities.egress.allow_all,
        "egress allow-all"
    )
    .and(b.python())),
    case!("egress", allow_all_undeclared_is_refused, |b| {
        When::undeclared(b.capabilities.egress.allow_all, "egress allow-all")
    }),
    case!(
        "egress",
        static_undeclared_is_refused,
        |b| When::undeclared(
            b.capabilities.egress.static_hosts > Strength::None,
            "egress static"
        )
    ),
    case!("egress", resolver_undeclared_is_refused, |b| {
        When::undeclared(
            b.capabilities.egress.resolver > Strength::None,
            "egress resolver",
        )
    }),
];

fn denies(bench: &Bench) -> When {
    When::declared(
        bench.capabilities.egress.deny_all == Strength::Enforced,
        "egress deny-all, enforced,",
    )
}

/// A listener of the host that counts who reached it.
struct Door {
    port: u16,
    reached: Arc<AtomicU32>,
    _serving: JoinSet<()>,
}

impl Door {
    async fn open(address: IpAddr) -> Verdict<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let port = listener.local_addr()?.port();
        let reached = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&reached);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((mut peer, _)) = listener.accept().await {
                let mut word = [0; 6];
                if peer.read_exact(&mut word).await.is_ok() && &word == b"probe\n" {
                    count.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        Ok(Self {
            port,
            reached,
            _serving: serving,
        })
    }

    fn reached(&self) -> u32 {
        self.reached.load(Ordering::SeqCst)
    }
}

async fn denied(bench: &Bench) -> Verdict<Sandbox> {
    bench
        .sandbox_with(|spec| spec.egress = Some(EgressPolicy::DenyAll))
        .await
}

async fn omitted_is_the_documented_default(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let wanted = namzu_core::types::SandboxSpec::default().egress_on(bench.tier);
    ensure_eq!(
        sandbox.receipt().egress,
        wanted.kind(),
        "the policy when none is named"
    );
    Ok(())
}

async fn deny_all_blocks_a_connect_to_the_host(bench: Arc<Bench>) -> Verdict {
    let door = Door::open(Ipv4Addr::LOCALHOST.into()).await?;
    let port = door.port.to_string();
    // Asked for by name, and omitted: both mean it.
    for sandbox in [denied(&bench).await?, bench.sandbox().await?] {
        probe(&sandbox, &["connect", "127.0.0.1", &port])
            .await?
            .refused("a connection to the host's loopback")?;
    }
    ensure_eq!(door.reached(), 0, "connections that reached the host");
    Ok(())
}

/// The host's own addresses, found without asking anybody.
fn addresses() -> Verdict<Vec<IpAddr>> {
    let mut found = vec![
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped()),
    ];
    let table = std::fs::read_to_string("/proc/net/fib_trie")?;
    let mut last = None;
    for line in table.lines() {
        if let Some(address) = line.trim().strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line.contains("/32 host LOCAL")
            && let Some(address) = last
        {
            found.push(IpAddr::V4(address));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

async fn deny_all_blocks_every_address_of_the_host(bench: Arc<Bench>) -> Verdict {
    let sandbox = denied(&bench).await?;
    let four = Door::open(Ipv4Addr::UNSPECIFIED.into()).await?;
    // A host without IPv6 has no such door to leave open.
    let six = Door::open(Ipv6Addr::UNSPECIFIED.into()).await.ok();
    for address in addresses()? {
        let door = if address.is_ipv4() {
            Some(&four)
        } else {
            six.as_ref()
        };
        let Some(door) = door else { continue };
        let (address, port) = (address.to_string(), door.port.to_string());
        probe(&sandbox, &["connect", &address, &port])
            .await?
            .refused(&format!("a connection to {address}"))?;
    }
    let reached = four.reached() + six.as_ref().map_or(0, Door::reached);
    ensure_eq!(reached, 0, "connections that reached the host");
    Ok(())
}

async fn deny_all_blocks_the_metadata_address(bench: Arc<Bench>) -> Verdict {
    let sandbox = denied(&bench).await?;
    for address in [
        "169.254.169.254",
        "fd00:ec2::254",
        "10.0.0.1",
        "1.1.1.1",
        "0.0.0.0",
    ] {
        probe(&sandbox, &["connect", address, "80"])
            .await?
            .refused(&format!("a connection to {address}"))?;
    }
    Ok(())
}

async fn deny_all_blocks_a_raw_socket(bench: Arc<Bench>) -> Verdict {
    let sandbox = denied(&bench).await?;
    probe(&sandbox, &["raw", "1.1.1.1"])
        .await?
        .refused("a raw datagram")?;
    probe(&sandbox, &["packet"])
        .await?
        .refused("a frame on the wire")?;
    Ok(())
}

async fn deny_all_blocks_udp(bench: Arc<Bench>) -> Verdict {
    let sandbox = denied(&bench).await?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    let port = socket.local_addr()?.port().to_string();
    let mut echo = JoinSet::new();
    echo.spawn(async move {
        let mut buffer = [0; 64];
        while let Ok((count, from)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..count], from).await;
        }
    });
    for address in addresses()?.iter().filter(|a| a.is_ipv4()) {
        probe(&sandbox, &["udp", &address.to_string(), &port])
            .await?
            .refused(&format!("a datagram to {address}"))?;
    }
    Ok(())
}

async fn deny_all_resolves_no_name(bench: Arc<Bench>) -> Verdict {
    let sandbox = denied(&bench).await?;
    probe(&sandbox, &["dns", "example.com"])
        .await?
        .refused("a name of the world")?;
    let servers = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    for server in servers
        .lines()
        .filter_map(|line| line.strip_prefix("nameserver"))
        .map(str::trim)
    {
        probe(&sandbox, &["connect", server, "53"])
            .await?
            .refused(&format!("the host's name server {server}"))?;
    }
    Ok(())
}

async fn deny_all_blocks_abstract_sockets_of_the_host(bench: Arc<Bench>) -> Verdict {
    let name = host::marker("abstract")?;
    let address = SocketAddr::from_abstract_name(&name)?;
    let _listener = UnixListener::bind_addr(&address)?;
    let sandbox = denied(&bench).await?;
    probe(&sandbox, &["abstract", &name])
        .await?
        .refused("an abstract socket of the host")?;
    Ok(())
}

async fn deny_all_blocks_vsock(bench: Arc<Bench>) -> Verdict {
    let sandbox = denied(&bench).await?;
    probe(&sandbox, &["vsock"])
        .await?
        .refused("the hypervisor's socket")?;
    Ok(())
}

async fn deny_all_leaves_no_device_but_the_loopback(bench: Arc<Bench>) -> Verdict {
    let sandbox = denied(&bench).await?;
    probe(&sandbox, &["interfaces"])
        .await?
        .refused("a network device")?;
    Ok(())
}

async fn deny_all_keeps_the_loopback_inside(bench: Arc<Bench>) -> Verdict {
    let sandbox = denied(&bench).await?;
    let (_server, port) = crate::conformance::tunnels::serve(&sandbox).await?;
    probe(&sandbox, &["connect", "127.0.0.1", &port.to_string()])
        .await?
        .given("a connection between two of its own processes")?;
    Ok(())
}

async fn deny_all_undeclared_is_refused(bench: Arc<Bench>) -> Verdict {
    is_refused(&bench, "egress deny-all", |s| {
        s.egress = Some(EgressPolicy::DenyAll);
    })
    .await?;
    Ok(())
}

async fn allow_all_reaches_the_host(bench: Arc<Bench>) -> Verdict {
    let door = Door::open(Ipv4Addr::LOCALHOST.into()).await?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(EgressPolicy::AllowAll))
        .await?;
    ensure_eq!(sandbox.receipt().egress, "allow-all", "the policy in force");
    ensure_eq!(
        sandbox.receipt().controls.network.strength,
        Strength::None,
        "the receipt's word on an open network"
    );
    let port = door.port.to_string();
    let answered = probe(&sandbox, &["connect", "127.0.0.1", &port]).await?;
    // Where the sandbox has its own loopback, what must be reached is the world, which a test
    // cannot count on: then the local proof is the interface.
    if let Answer::Refused(why) = answered {
        ensure!(
            bench.guest.system,
            "the simulated host was not reached: {why}"
        );
        probe(&sandbox, &["interfaces"])
            .await?
            .given("a network device under allow-all")?;
        return Ok(());
    }
    host::eventually(bench.patience, "the connection arrived", || async {
        Ok(match door.reached() {
            1 => Ok(()),
            other => Err(format!("{other} did")),
        })
    })
    .await
}

async fn allow_all_undeclared_is_refused(bench: Arc<Bench>) -> Verdict {
    is_refused(&bench, "egress allow-all", |s| {
        s.egress = Some(EgressPolicy::AllowAll);
    })
    .await?;
    Ok(())
}

async fn static_undeclared_is_refused(bench: Arc<Bench>) -> Verdict {
    let err = is_refused(&bench, "egress static", |s| {
        s.egress = Some(EgressPolicy::hosts(["example.com"]));
    })
    .await?;
    names(&err, "static")
}

async fn resolver_undeclared_is_refused(bench: Arc<Bench>) -> Verdict {
    let err = is_refused(&bench, "egress resolver", |s| {
        s.egress = Some(EgressPolicy::Resolver {
            resolve: ValueSource::Value(Secret::new("example.com")),
        });
    })
    .await?;
    names(&err, "resolver")
}

fn names(err: &namzu_core::Error, word: &str) -> Verdict {
    if err.reasons().iter().any(|reason| reason.contains(word)) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the refusal does not name `{word}`: {:?}",
        err.reasons()
    )))
}
