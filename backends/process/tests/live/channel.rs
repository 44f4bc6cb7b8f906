//! Doors that the worker serves: what it keeps for that, and what is left without any right.

use std::sync::Arc;

use namzu_backend_process::{ChannelDoors, Config, ProcessBackend};
use namzu_client::{Sandbox, SandboxProvider};
use namzu_core::Guarded;
use namzu_types::{EgressPolicy, SandboxSpec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{python, sh};

/// `CAP_NET_BIND_SERVICE` in the masks of `/proc/PID/status`.
const LOW_PORTS: &str = "0000000000000400";
const NONE: &str = "0000000000000000";

async fn sandbox(doors: ChannelDoors, policy: &str) -> Sandbox {
    let backend = ProcessBackend::new(&Config::default()).expect("this host carries the tier");
    let backend = Guarded(backend.with_channel_doors(doors));
    let provider = SandboxProvider::new(Arc::new(backend), SandboxSpec::default());
    let egress: EgressPolicy = serde_json::from_str(policy).unwrap();
    let spec = SandboxSpec {
        egress: Some(egress),
        verify_egress: true,
        ..SandboxSpec::default()
    };
    provider.create(spec).await.expect("a sandbox")
}

async fn masks(sandbox: &Sandbox, process: &str) -> Vec<(String, String)> {
    let status = sh(sandbox, &format!("grep ^Cap /proc/{process}/status"))
        .await
        .ok();
    let lines = status.lines().filter_map(|line| line.split_once(":\t"));
    lines
        .map(|(name, mask)| (name.to_owned(), mask.to_owned()))
        .collect()
}

const HOSTS: &str = r#"{"kind":"static","allowedHosts":["example.com"]}"#;

#[tokio::test]
async fn of_its_rights_the_worker_keeps_low_ports_and_commands_get_none() {
    let sandbox = sandbox(ChannelDoors::WithRights, HOSTS).await;
    let said = sandbox.receipt().controls.network.detail;
    assert!(!said.contains("not everything"), "{said}");
    let commands = masks(&sandbox, "self").await;
    assert_eq!(commands.len(), 5, "{commands:?}");
    for (name, mask) in commands {
        assert_eq!(mask, NONE, "{name} of a command");
    }
    for (name, mask) in masks(&sandbox, "1").await {
        let kept = ["CapPrm", "CapEff"].contains(&name.as_str());
        assert_eq!(mask, if kept { LOW_PORTS } else { NONE }, "{name}");
    }
    for change in [
        "ip link set lo down",
        "ip route del local 198.18.0.0/15 dev lo table local",
        "ip address add 192.0.2.1/32 dev lo",
    ] {
        let said = sh(&sandbox, change).await.refused();
        assert!(said.contains("not permitted"), "{change}: {said}");
    }
}

/// Answers one request with a word; gives back its port.
async fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut peer, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(peer.read_u8().await.unwrap());
        }
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\narrived";
        peer.write_all(answer.as_bytes()).await.unwrap();
    });
    port
}

#[tokio::test]
async fn without_rights_the_proxy_works_and_what_does_not_is_said() {
    let port = server().await;
    let policy = format!(
        r#"{{"kind":"static","rules":[{{"host":"127.0.0.1","ports":[{port}],"scheme":"http",
            "inward":["127.0.0.1/32"]}}]}}"#
    );
    let sandbox = sandbox(ChannelDoors::WithoutRights, &policy).await;
    let said = sandbox.receipt().controls.network.detail;
    for part in [
        "not everything without it",
        "cannot route the addresses of names",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for (name, mask) in masks(&sandbox, "self").await {
        assert_eq!(mask, NONE, "{name} of a command");
    }
    let ask = |url: &str| {
        format!(
            "
import socket
s = socket.create_connection(('127.0.0.1', 3128), 20)
s.sendall(b'GET {url} HTTP/1.1\\r\\nHost: ' + b'{url}'.split(b'/')[2] + b'\\r\\nConnection: close\\r\\n\\r\\n')
while data := s.recv(4096): print(data.decode())"
        )
    };
    let answer = python(&sandbox, &ask(&format!("http://127.0.0.1:{port}/")))
        .await
        .ok();
    assert!(answer.contains("arrived"), "{answer}");
    let answer = python(&sandbox, &ask("http://example.com/")).await.ok();
    assert!(answer.contains("not_listed"), "{answer}");
    // At once: nobody is there whose answer could be awaited.
    let said = python(
        &sandbox,
        "import socket; socket.create_connection(('198.18.0.1', 80), 20)",
    )
    .await
    .refused();
    assert!(said.contains("unreachable"), "{said}");
}
