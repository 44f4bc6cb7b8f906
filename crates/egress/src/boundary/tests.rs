//! A boundary as its users have it, with a sandbox's doors on loopback.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use namzu_core::egress::PROXY_PORT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::Name;

fn boundary() -> Boundary {
    let loopback = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    let names = [(Name::parse("a.test").unwrap(), loopback)];
    Boundary::builder().names(names).build().unwrap()
}

async fn egress(policy: &EgressPolicy) -> Egress {
    boundary()
        .admit(&"test".parse().unwrap(), policy)
        .await
        .unwrap()
}

fn policy(json: &str) -> EgressPolicy {
    serde_json::from_str(json).unwrap()
}

const ENDS_TLS: &str = r#"{
    "kind": "static",
    "rules": [{"host": "a.test", "credential": "key"}],
    "credentials": {"key": {"mode": "sentinel", "source": "s3cret-s3cret", "env": "API_KEY"}}
}"#;

#[tokio::test]
async fn every_fault_of_a_policy_is_named() {
    let boundary = boundary();
    let faulty = EgressPolicy::hosts(["*", "a.test", "*.com"]);
    for why in [
        boundary.check(&faulty).unwrap_err(),
        boundary
            .admit(&"test".parse().unwrap(), &faulty)
            .await
            .unwrap_err(),
        egress(&EgressPolicy::DenyAll)
            .await
            .set_policy(&faulty)
            .await
            .unwrap_err(),
    ] {
        assert_eq!(why.code(), ErrorCode::ConfigInvalid);
        assert_eq!(why.reasons().len(), 2, "{why:?}");
    }
    boundary.check(&EgressPolicy::hosts(["a.test"])).unwrap();
}

#[tokio::test]
async fn a_sandbox_finds_names_and_proxy_and_no_secret() {
    let plain = egress(&EgressPolicy::hosts(["a.test"])).await.wiring();
    assert!(plain.doors);
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    assert_eq!(plain.env.get("HTTPS_PROXY"), Some(&proxy));
    assert_eq!(plain.env.get("SSL_CERT_FILE"), None, "nothing ends TLS");
    let resolv: Vec<_> = plain
        .files
        .iter()
        .filter(|f| f.path == "/etc/resolv.conf")
        .collect();
    assert!(resolv[0].contents.starts_with(b"nameserver 127.0.0.1\n"));

    let ending = egress(&policy(ENDS_TLS)).await;
    let wiring = ending.wiring();
    assert!(wiring.env.contains_key("SSL_CERT_FILE"));
    assert!(wiring.env.contains_key("API_KEY"));
    assert!(
        ending
            .ca_pem()
            .unwrap()
            .starts_with("-----BEGIN CERTIFICATE-----")
    );
    let shown = format!("{wiring:?} {ending:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn a_policy_that_ends_tls_cannot_come_later_where_nothing_trusts_the_ca() {
    let plain = egress(&EgressPolicy::hosts(["a.test"])).await;
    let why = plain.set_policy(&policy(ENDS_TLS)).await.unwrap_err();
    assert!(why.reasons()[0].contains("CA"), "{why:?}");
    assert_eq!(plain.explain("a.test").await.unwrap().generation, 1);
    let ending = egress(&policy(ENDS_TLS)).await;
    ending
        .set_policy(&EgressPolicy::hosts(["a.test"]))
        .await
        .unwrap();
    ending.set_policy(&policy(ENDS_TLS)).await.unwrap();
}

#[tokio::test]
async fn an_explanation_names_rule_and_reason() {
    let egress = egress(&EgressPolicy::hosts(["b.test", "a.test"])).await;
    let allowed = egress.explain("A.test").await.unwrap();
    assert!(allowed.allowed);
    assert_eq!(allowed.rule.as_deref(), Some("allowedHosts[1]"));
    let port = egress.explain("a.test:22").await.unwrap();
    assert_eq!((port.allowed, port.reason), (false, "port_not_listed"));
    let host = egress.explain("c.test:443").await.unwrap();
    assert_eq!(host.reason, "not_listed");
    let literal = egress.explain("9.9.9.9").await.unwrap();
    assert_eq!(literal.reason, "address_literal");
    let json = serde_json::to_value(&allowed).unwrap();
    assert_eq!(json["generation"], 1);
    for wrong in ["", "a.test:0", "a b.test", "http://a.test/"] {
        let why = egress.explain(wrong).await.unwrap_err();
        assert_eq!(why.code(), ErrorCode::InvalidArgument, "{wrong}");
    }
}

#[tokio::test]
async fn a_resolvers_ports_are_those_of_plain_hosts() {
    let resolve = namzu_types::ValueSource::File("/nonexistent".to_owned());
    let egress = egress(&EgressPolicy::Resolver { resolve }).await;
    assert_eq!(egress.ports(), [80, 443]);
    let explained = egress.explain("a.test").await.unwrap();
    assert_eq!(explained.reason, "resolver_failed");
}

/// Doors with a proxy, and where it is.
fn doors() -> (Doors, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let doors = Doors {
        proxy: vec![listener],
        ..Doors::default()
    };
    (doors, at)
}

#[tokio::test]
async fn dropping_the_end_of_a_sandbox_closes_its_doors_and_ends_its_flows() {
    let upstream = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let port = upstream.local_addr().unwrap().port();
    let rules = format!(
        r#"{{"kind": "static", "rules": [{{"host": "a.test", "ports": [{port}], "scheme": "tcp", "inward": ["127.0.0.1/32"]}}]}}"#
    );
    let egress = egress(&policy(&rules)).await;
    let (doors, at) = doors();
    egress.serve(doors).unwrap();
    let mut inside = TcpStream::connect(at).await.unwrap();
    let request = format!("CONNECT a.test:{port} HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n");
    inside.write_all(request.as_bytes()).await.unwrap();
    let (mut outside, _) = upstream.accept().await.unwrap();
    outside.write_all(b"x").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"x") {
        assert_ne!(inside.read_buf(&mut answer).await.unwrap(), 0);
    }
    drop(egress);
    // A reset is an end too.
    assert!(matches!(outside.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    assert!(matches!(inside.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    while TcpStream::connect(at).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_forwarded_connection_is_served_like_one_that_was_accepted() {
    let egress = egress(&EgressPolicy::hosts(["a.test"])).await;
    let (mut inside, far) = tokio::io::duplex(4096);
    let request = b"CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n";
    inside.write_all(request).await.unwrap();
    egress
        .serve_forwarded(ForwardedDoor::Proxy, Box::new(far))
        .await;
    let mut answer = String::new();
    inside.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("x-egress-reason: not_listed"), "{answer}");
    assert!(
        boundary()
            .metrics()
            .render()
            .contains("namzu_egress_flows 0")
    );
}

#[test]
fn roots_that_cannot_be_read_are_said() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    for file in [empty.path(), std::path::Path::new("/nonexistent/ca.pem")] {
        let why = Boundary::builder().roots(file).build().unwrap_err();
        assert_eq!(why.code(), ErrorCode::ConfigInvalid);
        assert!(why.to_string().contains(&*file.to_string_lossy()), "{why}");
    }
}
