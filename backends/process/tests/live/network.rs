//! What can be reached.

use std::net::TcpListener;

use namzu_types::{EgressPolicy, SandboxSpec};

use crate::support::{python, sandbox, sh};

#[tokio::test]
async fn deny_all_is_what_omitting_means_and_reaches_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sandbox = sandbox(SandboxSpec::default()).await;
    for address in [
        format!("('127.0.0.1', {port})"),
        "('1.1.1.1', 53)".to_owned(),
    ] {
        let said = python(
            &sandbox,
            &format!("import socket; socket.create_connection({address}, 5)"),
        )
        .await
        .refused();
        assert!(
            said.contains("Connection refused") || said.contains("Network is unreachable"),
            "{said}"
        );
    }
    let devices = sh(&sandbox, "cut -s -d: -f1 /proc/net/dev | tr -d ' '")
        .await
        .ok();
    assert_eq!(devices, "lo\n");
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn deny_all_blocks_a_raw_socket() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    for socket in [
        "socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP",
        "socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6",
        "socket.AF_PACKET, socket.SOCK_RAW, 3",
        "socket.AF_VSOCK, socket.SOCK_STREAM, 0",
        "socket.AF_ALG, socket.SOCK_SEQPACKET, 0",
        "socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_USERSOCK",
    ] {
        python(&sandbox, &format!("import socket; socket.socket({socket})"))
            .await
            .refused();
    }
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn the_loopback_inside_works() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    let script = "
import socket
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
client.sendall(b'hello')
print(server.accept()[0].recv(5).decode(), socket.gethostbyname('localhost'))";
    assert_eq!(python(&sandbox, script).await.ok(), "hello 127.0.0.1\n");
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn allow_all_is_the_hosts_network_and_the_receipt_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sandbox = sandbox(SandboxSpec {
        egress: Some(EgressPolicy::AllowAll),
        ..SandboxSpec::default()
    })
    .await;
    python(
        &sandbox,
        &format!("import socket; socket.create_connection(('127.0.0.1', {port}), 5)"),
    )
    .await
    .ok();
    let network = &sandbox.receipt().controls.network;
    assert_eq!(network.strength, namzu_types::Strength::None);
    sandbox.destroy().await.unwrap();
}
