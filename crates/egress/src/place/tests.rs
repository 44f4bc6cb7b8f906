//! Admission, limits, change and record, with names from a table and servers on the loopback.

mod changing;
mod recording;
mod resolving;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::testing::{Table, ask, outside, own, place, place_at, policy};
use super::*;
use crate::Name;

/// A server on the loopback, and its port.
async fn server() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// `a.test` on a port, by any protocol, at the loopback.
fn loopback(port: u16) -> namzu_types::EgressPolicy {
    policy(&format!(
        r#"{{"kind": "static", "rules": [{{"host": "a.test", "ports": [{port}], "scheme": "tcp", "inward": ["127.0.0.0/8"]}}]}}"#
    ))
}

fn hosts(hosts: &[&str]) -> namzu_types::EgressPolicy {
    namzu_types::EgressPolicy::hosts(hosts.iter().copied())
}

async fn reason(place: &Arc<Place>, authority: &str) -> Reason {
    match place.admit(ask(authority)).await {
        Ok(_) => Reason::Allowed,
        Err(denial) => denial.reason,
    }
}

fn public() -> IpAddr {
    "9.9.9.9".parse().unwrap()
}

#[tokio::test]
async fn a_denied_name_is_never_resolved() {
    let table = Table::loopback(&["a.test", "evil.test"]);
    let place = place(&hosts(&["a.test"]), table.clone());
    for authority in [
        "evil.test:443",
        "secret.evil.test:443",
        "a.test:22",
        "127.0.0.1:443",
    ] {
        assert_ne!(reason(&place, authority).await, Reason::Allowed);
    }
    assert_eq!(table.asked(), 0);
    // What is allowed is, but only once it is dialled.
    let flow = place.admit(ask("a.test:443")).await.ok().unwrap();
    assert_eq!(table.asked(), 0);
    assert_eq!(
        flow.dial().await.unwrap_err().reason,
        Reason::AddressPrivate
    );
    assert_eq!(table.asked(), 1);
}

#[tokio::test]
async fn what_is_admitted_reaches_the_address_that_was_screened() {
    let (listener, port) = server().await;
    let place = place(&loopback(port), Table::loopback(&["a.test"]));
    let flow = place
        .admit(ask(&format!("a.test:{port}")))
        .await
        .ok()
        .unwrap();
    let mut stream = flow.dial().await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    drop(listener.accept().await.unwrap());
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn one_bad_address_spoils_the_answer() {
    let (listener, port) = server().await;
    let table = Table::default();
    let place = place(&loopback(port), table.clone());
    for (bad, why) in [
        ("10.0.0.1", Reason::AddressPrivate),
        ("169.254.169.254", Reason::AddressForbidden),
        ("::ffff:169.254.169.254", Reason::AddressForbidden),
        ("fd00:ec2::254", Reason::AddressForbidden),
    ] {
        for order in [0, 1] {
            let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
            addresses.insert(order, bad.parse().unwrap());
            table.set("a.test", &addresses);
            let flow = place
                .admit(ask(&format!("a.test:{port}")))
                .await
                .ok()
                .unwrap();
            assert_eq!(flow.dial().await.unwrap_err().reason, why, "{bad}");
        }
    }
    let untouched = tokio::time::timeout(std::time::Duration::ZERO, listener.accept()).await;
    assert!(untouched.is_err());
}

#[tokio::test]
async fn a_name_is_resolved_once_for_a_flow_and_its_address_is_what_is_dialled() {
    let (_listener, port) = server().await;
    let table = Table::loopback(&["a.test"]);
    let place = place(&loopback(port), table.clone());
    let flow = place
        .admit(ask(&format!("a.test:{port}")))
        .await
        .ok()
        .unwrap();
    flow.dial().await.unwrap();
    assert_eq!(table.asked(), 1);
}

#[tokio::test]
async fn the_hosts_own_address_is_private_even_where_it_is_public() {
    let table = Table::default();
    table.set("a.test", &[public()]);
    let mut outside = outside(table);
    outside.screen = own(&[public()]);
    let place = place_at(&hosts(&["a.test"]), outside);
    let flow = place.admit(ask("a.test:443")).await.ok().unwrap();
    assert_eq!(
        flow.dial().await.unwrap_err().reason,
        Reason::AddressPrivate
    );
}

#[tokio::test]
async fn a_denied_address_is_denied_however_the_operator_hides_it() {
    let table = Table::default();
    table.set("a.test", &["2001:470:64::909:909".parse().unwrap()]);
    let mut outside = outside(table);
    outside.screen = ArcSwap::from_pointee(crate::screen::Screen {
        own: Vec::new(),
        nat64: vec!["2001:470:64::/96".parse().unwrap()],
    });
    let denying =
        policy(r#"{"kind": "static", "allowedHosts": ["a.test"], "deniedHosts": ["9.9.9.0/24"]}"#);
    let place = place_at(&denying, outside);
    let flow = place.admit(ask("a.test:443")).await.ok().unwrap();
    assert_eq!(flow.dial().await.unwrap_err().reason, Reason::DeniedHost);
}

#[tokio::test]
async fn an_upstream_that_is_down_is_said_and_the_next_try_works() {
    let (listener, port) = server().await;
    drop(listener);
    let place = place(&loopback(port), Table::loopback(&["a.test"]));
    let authority = format!("a.test:{port}");
    let flow = place.admit(ask(&authority)).await.ok().unwrap();
    assert_eq!(flow.dial().await.unwrap_err().reason, Reason::DialFailed);
    let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .await
        .unwrap();
    flow.dial().await.unwrap();
}

#[tokio::test]
async fn name_servers_that_fail_are_said_and_the_next_try_works() {
    let (_listener, port) = server().await;
    let table = Table::default();
    let place = place(&loopback(port), table.clone());
    let flow = place
        .admit(ask(&format!("a.test:{port}")))
        .await
        .ok()
        .unwrap();
    assert_eq!(flow.dial().await.unwrap_err().reason, Reason::LookupFailed);
    table.set("a.test", &[IpAddr::V4(Ipv4Addr::LOCALHOST)]);
    flow.dial().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_name_server_that_hangs_is_given_up() {
    #[derive(Debug)]
    struct Hangs;
    #[async_trait::async_trait]
    impl crate::Lookup for Hangs {
        async fn lookup(&self, _: &Name) -> Result<crate::Answer, crate::LookupError> {
            std::future::pending().await
        }
    }
    let place = place(&hosts(&["a.test"]), Hangs);
    let flow = place.admit(ask("a.test:443")).await.ok().unwrap();
    assert_eq!(flow.dial().await.unwrap_err().reason, Reason::LookupFailed);
}

#[tokio::test]
async fn one_sandboxs_excess_is_nobody_elses() {
    let outside = Arc::new(outside(Table::default()));
    let tight = policy(
        r#"{"kind": "static", "allowedHosts": ["a.test"], "limits": {"flows": 2, "namesPerMinute": 1}}"#,
    );
    let make = async |id: &str| {
        let regime = Regime::load(&tight, 1, None, &outside.limits)
            .await
            .unwrap();
        Place::new(id.parse().unwrap(), Arc::clone(&outside), regime, None)
    };
    let (greedy, modest) = (make("greedy").await, make("modest").await);
    let held = (
        greedy.admit(ask("a.test")).await,
        greedy.admit(ask("a.test")).await,
    );
    assert_eq!(reason(&greedy, "a.test").await, Reason::TooManyFlows);
    assert_eq!(reason(&modest, "a.test").await, Reason::Allowed);
    drop(held);
    assert_eq!(reason(&greedy, "a.test").await, Reason::Allowed);
    let name = |text| Name::parse(text).unwrap();
    greedy.limiter.name(&name("a.test")).unwrap();
    assert_eq!(
        greedy.limiter.name(&name("b.test")).unwrap_err(),
        Reason::TooFast
    );
    modest.limiter.name(&name("b.test")).unwrap();
}

#[tokio::test]
async fn a_denied_flow_gives_its_place_back() {
    let tight = policy(r#"{"kind": "static", "allowedHosts": ["a.test"], "limits": {"flows": 1}}"#);
    let place = place(&tight, Table::default());
    for _ in 0..10 {
        assert_eq!(reason(&place, "b.test").await, Reason::NotListed);
    }
    assert_eq!(reason(&place, "a.test").await, Reason::Allowed);
    assert_eq!(place.outside.metrics.flows.load(Relaxed), 0);
}

#[tokio::test]
async fn a_request_counts_only_when_it_dials() {
    let tight = policy(r#"{"kind": "static", "allowedHosts": ["a.test"], "limits": {"flows": 1}}"#);
    let table = Table::loopback(&["a.test"]);
    let place = place(&tight, table);
    let request = || Ask {
        via: Via::Forward,
        ..ask("a.test")
    };
    let mut flows = Vec::new();
    for _ in 0..3 {
        flows.push(place.admit(request()).await.ok().unwrap());
    }
    assert_eq!(
        flows[0].dial().await.unwrap_err().reason,
        Reason::AddressPrivate
    );
    assert_eq!(
        flows[1].dial().await.unwrap_err().reason,
        Reason::TooManyFlows
    );
    drop(flows.remove(0));
    assert_eq!(
        flows[0].dial().await.unwrap_err().reason,
        Reason::AddressPrivate
    );
}

#[tokio::test]
async fn a_quota_that_is_used_up_ends_what_is_carried() {
    let tight = policy(
        r#"{"kind": "static", "allowedHosts": ["a.test"], "limits": {"bytesUp": 10, "bytesDown": 10}}"#,
    );
    let place = place(&tight, Table::default());
    let flow = place.admit(ask("a.test")).await.ok().unwrap();
    flow.up(10).unwrap();
    flow.down(3).unwrap();
    assert_eq!(flow.up(1).unwrap_err(), Reason::QuotaUsed);
    assert_eq!(reason(&place, "a.test").await, Reason::QuotaUsed);
}

#[tokio::test]
async fn the_end_of_a_sandbox_ends_its_flows_and_admits_none() {
    let place = place(&hosts(&["a.test"]), Table::default());
    let flow = place.admit(ask("a.test")).await.ok().unwrap();
    place.close();
    assert_eq!(flow.cut().await, Reason::Closed);
    assert_eq!(flow.cut().await, Reason::Closed, "and it says so again");
    assert_eq!(reason(&place, "a.test").await, Reason::Closed);
}
