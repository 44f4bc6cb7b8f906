//! Tries the walls of a new sandbox from inside, before anybody else is let in.
//!
//! The worker tries, this judges. Whatever is denied must be refused at once: what only stays without
//! an answer may have left. No target is anybody else's, so that a wall with a hole harms nobody:
//! listeners that this host opens for the test, addresses that are set aside for documentation (RFC
//! 5737, RFC 3849), a name that is set aside for never existing (RFC 6761), and the address of the
//! metadata services of clouds, which is this host's own cloud's or nobody's.

mod listeners;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use namzu_core::egress::NAME_NET;
use namzu_core::{Error, ErrorCode, Phase, Result};
use namzu_egress::Name;
use namzu_protocol::ext::{self, Outcome, ProbeRequest, ProbeResponse, Try};
use namzu_types::{EgressPolicy, EgressScheme};

use self::listeners::Listeners;
use crate::fault;
use crate::outlet::Outlet;
use crate::worker::Worker;

/// How long one try may take; they run side by side.
const PATIENCE: Duration = Duration::from_secs(1);

/// Addresses that lead nowhere (TEST-NET-2, and IPv6's prefix for documentation).
const NOWHERE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// Where clouds answer with credentials.
const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// A name that no policy has a reason to allow.
const STRANGER: &str = "namzu-self-test.invalid";

/// Allowed names looked through for one to try.
const MOST_ALLOWED: usize = 32;

/// One try and what must come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    what: String,
    one: Try,
    must: Must,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Must {
    /// It is refused at once.
    Fail,
    /// It is not resolved.
    StayUnknown,
    /// It is resolved to an address of the boundary, which accepts.
    Pass,
}

/// Tries the walls of `policy`.
pub(crate) async fn run(worker: &Worker, outlet: &Outlet, policy: &EgressPolicy) -> Result<()> {
    let listeners = Listeners::open().await;
    let mut claims = denied(&listeners.addresses());
    // A policy may allow even that name.
    if !outlet.explain(STRANGER).await?.allowed {
        claims.push(name(STRANGER, 443, Must::StayUnknown));
    }
    // Where doors are missing nothing need be allowed by name, which the receipt says.
    let by_name = outlet.lack().is_none();
    for (host, port) in allowed(policy).into_iter().filter(|_| by_name) {
        // Another of its parts may deny what one allows.
        if outlet.explain(&format!("{host}:{port}")).await?.allowed {
            claims.push(name(&host, port, Must::Pass));
            break;
        }
    }
    let request = ProbeRequest {
        tries: claims.iter().map(|claim| claim.one.clone()).collect(),
        patience_ms: u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX),
    };
    let what = "try the sandbox's walls";
    let answer: ProbeResponse = worker
        .ext(Phase::Create, what, ext::PROBE, &request)
        .await?;
    if answer.outcomes.len() != claims.len() {
        return Err(fault::violation(what, "it tried something else").during(Phase::Create));
    }
    let broken: Vec<String> = claims
        .iter()
        .zip(&answer.outcomes)
        .filter_map(|(claim, outcome)| Some(format!("{}: {}", claim.what, judge(claim, outcome)?)))
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::BackendFailed,
        "the sandbox's walls do not hold what its egress policy says",
    )
    .with_reasons(broken)
    .during(Phase::Create))
}

/// What every policy denies. `listening` are addresses of this host where something answers.
fn denied(listening: &[(bool, SocketAddr)]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut add = |one: Try, what: String| {
        claims.push(Claim {
            what,
            one,
            must: Must::Fail,
        });
    };
    for address in NOWHERE {
        let to = |port| SocketAddr::new(address, port);
        add(Try::Tcp { to: to(443) }, format!("tcp {}", to(443)));
        add(Try::Udp { to: to(53) }, format!("udp {}", to(53)));
    }
    let to = SocketAddr::new(METADATA, 80);
    add(Try::Tcp { to }, format!("metadata service {to}"));
    for (datagrams, to) in listening.iter().copied() {
        if datagrams {
            add(Try::Udp { to }, format!("this host by udp {to}"));
        } else {
            add(Try::Tcp { to }, format!("this host by tcp {to}"));
        }
    }
    claims
}

fn name(host: &str, port: u16, must: Must) -> Claim {
    let which = if must == Must::Pass {
        "allowed"
    } else {
        "denied"
    };
    Claim {
        what: format!("{which} name {host}:{port}"),
        one: Try::Name {
            name: host.to_owned(),
            port,
        },
        must,
    }
}

/// Hosts that `policy` allows by their full names.
fn allowed(policy: &EgressPolicy) -> Vec<(String, u16)> {
    let EgressPolicy::Static {
        allowed_hosts,
        rules,
        ..
    } = policy
    else {
        return Vec::new();
    };
    let exact = |host: &str| Name::parse(host).is_ok();
    let of_rules = rules.iter().filter(|rule| exact(&rule.host)).map(|rule| {
        let usual = match rule.scheme {
            EgressScheme::Http => 80,
            EgressScheme::Https | EgressScheme::Tcp => 443,
        };
        let port = rule.ports.first().copied().unwrap_or(usual);
        (rule.host.clone(), port)
    });
    let of_hosts = allowed_hosts
        .iter()
        .filter(|host| exact(host))
        .map(|host| (host.clone(), 443));
    of_rules.chain(of_hosts).take(MOST_ALLOWED).collect()
}

/// What is wrong with an outcome, if anything is.
fn judge(claim: &Claim, outcome: &Outcome) -> Option<String> {
    let addresses = || {
        let all: Vec<String> = outcome
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect();
        all.join(", ")
    };
    match (claim.must, outcome) {
        (Must::Fail, Outcome::Failed { .. }) => None,
        (Must::Fail | Must::StayUnknown, Outcome::Reached { .. }) => Some("was reached".to_owned()),
        (Must::Fail, Outcome::Silent { .. }) => Some(format!(
            "was not refused: nothing came back within {PATIENCE:?}"
        )),
        (Must::StayUnknown, outcome) if outcome.addresses().is_empty() => None,
        (Must::StayUnknown, _) => Some(format!("was resolved, to {}", addresses())),
        (Must::Pass, Outcome::Reached { addresses: all }) => {
            let strange = all.is_empty() || all.iter().any(|address| !is_of_the_boundary(*address));
            strange.then(|| format!("was resolved to {}, not by the boundary", addresses()))
        }
        (Must::Pass, Outcome::Failed { error, .. }) => {
            Some(format!("was refused: {}", fault::words(error)))
        }
        (Must::Pass, Outcome::Silent { .. }) => Some(format!("did not answer within {PATIENCE:?}")),
    }
}

fn is_of_the_boundary(address: IpAddr) -> bool {
    let (net, length) = NAME_NET;
    let mask = u32::MAX << (32 - u32::from(length));
    match address {
        IpAddr::V4(address) => address.to_bits() & mask == net.to_bits(),
        IpAddr::V6(_) => false,
    }
}

#[cfg(test)]
mod tests;
