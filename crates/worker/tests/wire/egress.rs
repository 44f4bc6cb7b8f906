//! The egress boundary's doors, served by a worker in a network of its own.

use std::process::Command;

use http::{HeaderMap, Method, StatusCode};
use namzu_protocol::ext::{DoorsResponse, ProbeResponse, from_json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Client, Private, Tunnel, command, private_with};

/// `CAP_NET_ADMIN` and `CAP_SETPCAP` in the masks of `/proc/PID/status`.
const NETWORK: u64 = 1 << 12 | 1 << 8;
/// `CAP_NET_BIND_SERVICE`, which the worker keeps to itself.
const LOW_PORTS: u64 = 1 << 10;

/// A worker that is root of a network of its own.
fn in_a_network() -> Command {
    let mut unshare = command("unshare");
    unshare.args(["--map-root-user", "--net", "--"]);
    unshare
}

/// A worker in a network of its own that it may not change: its rights are of a namespace below.
fn without_rights() -> Command {
    let mut unshare = in_a_network();
    unshare.args(["unshare", "--map-root-user", "--"]);
    unshare
}

async fn start(mut unshare: Command, arguments: &[&str]) -> Private {
    unshare.arg(env!("CARGO_BIN_EXE_namzu-worker"));
    private_with(&mut unshare, arguments).await
}

/// One side waits for the other: without an end to it, a failure would be silent.
async fn in_time<T>(both: impl Future<Output = T>) -> T {
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, both)
        .await
        .expect("both sides meet")
}

async fn doors(client: &Client, ports: &[u16]) -> DoorsResponse {
    let body = format!(r#"{{"ports":{ports:?}}}"#);
    let (status, body) = client.http(Method::POST, "/ext/v1/doors", body).await;
    assert_eq!(status, StatusCode::OK, "{body:?}");
    from_json(&body).unwrap()
}

/// Parks an accept; what is said of the connection that comes of it, and the connection.
async fn accept(client: &Client, door: &str) -> Result<(HeaderMap, Tunnel), StatusCode> {
    client.tunnel(&format!("/ext/v1/accept?door={door}")).await
}

/// Has something tried from inside.
async fn probe(client: &Client, one: &str) -> String {
    let body = format!(r#"{{"tries":[{one}],"patience_ms":10000}}"#);
    let (status, body) = client.http(Method::POST, "/ext/v1/probe", body).await;
    assert_eq!(status, StatusCode::OK);
    let answer: ProbeResponse = from_json(&body).unwrap();
    format!("{:?}", answer.outcomes)
}

/// Sends a line to `to` from inside, and what is answered.
async fn talk(client: &Client, to: &str) -> String {
    let line = format!("exec 3<>/dev/tcp/{to}; echo out >&3; read -r line <&3; echo \"$line\"");
    let outcome = client.sh(&format!("bash -c '{line}'")).await;
    String::from_utf8(outcome.stdout).unwrap()
}

fn masks(status: &str) -> Vec<(String, u64)> {
    let lines = status.lines().filter_map(|line| line.split_once(":\t"));
    lines
        .filter(|(name, _)| name.starts_with("Cap"))
        .map(|(name, mask)| (name.to_owned(), u64::from_str_radix(mask, 16).unwrap()))
        .collect()
}

#[tokio::test]
async fn a_connection_at_each_door_is_forwarded_and_labelled() {
    let worker = start(in_a_network(), &["--doors"]).await;
    let client = &worker.client;
    let open = doors(client, &[443, 5432]).await;
    assert!(open.proxy && open.dns && open.routed, "{open:?}");
    assert_eq!((open.ports, open.failures), (vec![443, 5432], Vec::new()));
    for (door, to, local) in [
        ("proxy", "127.0.0.1/3128", None),
        ("dns", "127.0.0.1/53", None),
        ("named", "198.18.3.4/443", Some("198.18.3.4:443")),
        ("named", "198.19.255.254/5432", Some("198.19.255.254:5432")),
        ("named", "127.0.0.1/443", Some("127.0.0.1:443")),
    ] {
        let host = async {
            let (headers, mut duplex) = accept(client, door).await.unwrap();
            assert_eq!(headers["namzu-door"], door);
            let said = headers
                .get("namzu-local")
                .map(|local| local.to_str().unwrap());
            assert_eq!(said, local, "{to}");
            let mut line = [0; 4];
            duplex.read_exact(&mut line).await.unwrap();
            assert_eq!(&line, b"out\n");
            duplex.write_all(b"back\n").await.unwrap();
            duplex
        };
        // Held until the answer is there: what is dropped is reset.
        let (_duplex, answer) = in_time(async { tokio::join!(host, talk(client, to)) }).await;
        assert_eq!(answer, "back\n", "{to}");
    }
}

#[tokio::test]
async fn a_datagram_to_the_names_door_is_a_framed_query() {
    let worker = start(in_a_network(), &["--doors"]).await;
    let client = &worker.client;
    doors(client, &[]).await;
    let host = async {
        let (headers, mut duplex) = accept(client, "dns").await.unwrap();
        assert_eq!(headers["namzu-door"], "dns");
        assert!(!headers.contains_key("namzu-local"));
        let mut query = vec![0; usize::from(duplex.read_u16().await.unwrap())];
        duplex.read_exact(&mut query).await.unwrap();
        assert_eq!(query, b"probe\n");
        duplex.write_all(b"\0\x06answer").await.unwrap();
        duplex
    };
    let one = r#"{"kind":"udp","to":"127.0.0.1:53"}"#;
    let (_duplex, outcome) = in_time(async { tokio::join!(host, probe(client, one)) }).await;
    assert!(outcome.contains("Reached"), "{outcome}");
}

#[tokio::test]
async fn doors_may_be_asked_for_before_anybody_listens_and_again() {
    let worker = start(in_a_network(), &["--doors"]).await;
    let client = &worker.client;
    let parked = accept(client, "named");
    let later = async {
        doors(client, &[80]).await;
        let again = doors(client, &[80, 8080, 3128, 53]).await;
        // The loopback's own doors are no named ones.
        assert_eq!((again.ports, again.failures), (vec![80, 8080], Vec::new()));
        let one = r#"{"kind":"tcp","to":"198.18.0.1:8080"}"#;
        let outcome = probe(client, one).await;
        assert!(outcome.contains("Reached"), "{outcome}");
    };
    let (parked, ()) = in_time(async { tokio::join!(parked, later) }).await;
    assert_eq!(parked.unwrap().0["namzu-local"], "198.18.0.1:8080");
}

#[tokio::test]
async fn nothing_inside_keeps_the_right_to_change_the_network() {
    let worker = start(in_a_network(), &["--doors"]).await;
    assert!(doors(&worker.client, &[443]).await.routed);
    let own = std::fs::read_to_string(format!("/proc/{}/status", worker.running.pid())).unwrap();
    let command = worker.client.sh("cat /proc/self/status").await;
    let command = String::from_utf8(command.stdout).unwrap();
    for (status, given_up) in [(own, NETWORK), (command, NETWORK | LOW_PORTS)] {
        let masks = masks(&status);
        assert_eq!(masks.len(), 5, "{status}");
        for (name, mask) in masks {
            assert_eq!(mask & given_up, 0, "{name}");
        }
    }
    let flushed = worker
        .client
        .sh("ip route flush table local; ip link set lo down")
        .await;
    assert_ne!(flushed.stderr, b"");
    assert!(
        doors(&worker.client, &[]).await.routed,
        "nothing has changed"
    );
}

#[tokio::test]
async fn without_rights_it_says_which_doors_it_could_not_open() {
    let worker = start(without_rights(), &["--doors"]).await;
    let open = doors(&worker.client, &[443, 8443]).await;
    assert!(!open.routed, "{open:?}");
    assert!(
        open.failures
            .iter()
            .any(|failure| failure.contains("cannot route")),
        "{open:?}"
    );
    // Low ports need a right as well; high ones do not.
    assert!(open.proxy && !open.dns, "{open:?}");
    assert_eq!(open.ports, [8443], "{open:?}");
    assert!(
        open.failures
            .iter()
            .any(|failure| failure.contains("port 443")),
        "{open:?}"
    );
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_to_be_and_the_others_open() {
    let worker = start(in_a_network(), &["--doors"]).await;
    let client = &worker.client;
    // A reach is a listener of somebody else's, on the loopback.
    let (status, _) = client
        .http(Method::POST, "/ext/v1/reach", r#"{"port":8443}"#)
        .await;
    assert_eq!(status, StatusCode::OK);
    let open = doors(client, &[8443, 443]).await;
    assert_eq!(open.ports, [443]);
    assert!(
        matches!(&open.failures[..], [one] if one.contains("port 8443")),
        "{open:?}"
    );
}

#[tokio::test]
async fn a_worker_that_was_not_told_touches_no_network() {
    let worker = start(in_a_network(), &[]).await;
    let ports = r#"{"ports":[]}"#;
    let (status, _) = worker
        .client
        .http(Method::POST, "/ext/v1/doors", ports)
        .await;
    assert_eq!(status, StatusCode::CONFLICT);
    let devices = worker.client.sh("ip -o link show up").await;
    assert_eq!(String::from_utf8_lossy(&devices.stdout), "");
}

#[tokio::test]
async fn what_is_no_door_is_refused() {
    let worker = start(in_a_network(), &["--doors"]).await;
    let client = &worker.client;
    for door in ["", "any", "Proxy"] {
        let refused = accept(client, door).await.err();
        assert_eq!(refused, Some(StatusCode::BAD_REQUEST), "{door}");
    }
    let many = format!(r#"{{"ports":{:?}}}"#, [1_u16; 257]);
    for (method, body, status) in [
        (Method::GET, "", StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "x", StatusCode::BAD_REQUEST),
        (
            Method::POST,
            r#"{"ports":[65536]}"#,
            StatusCode::BAD_REQUEST,
        ),
        (Method::POST, r#"{"hosts":[]}"#, StatusCode::BAD_REQUEST),
        (Method::POST, &many, StatusCode::BAD_REQUEST),
    ] {
        let (answered, _) = client.http(method, "/ext/v1/doors", body.to_owned()).await;
        assert_eq!(answered, status, "{body}");
    }
}
