//! The egress boundary's doors: what reaches them, and what cannot touch them.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;

use namzu_core::egress::{Doors, PROXY_PORT, WiredFile, Wiring};
use namzu_types::{EgressPolicy, ErrorCode, SandboxSpec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

use crate::support::{Host, Ran, Wired, doors, python, sh, wired};

fn tokio_listener(listener: std::net::TcpListener) -> TcpListener {
    // They come non-blocking.
    TcpListener::from_std(listener).unwrap()
}

async fn hello(listener: &TcpListener) -> (SocketAddr, String) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut said = [0; 5];
    stream.read_exact(&mut said).await.unwrap();
    stream.write_all(b"there").await.unwrap();
    let local = stream.local_addr().unwrap();
    (local, String::from_utf8_lossy(&said).into_owned())
}

/// Says hello to an address, and prints the answer or the error's name.
fn greet(address: &str, port: u16) -> String {
    format!(
        "
import errno, socket
try:
    s = socket.create_connection(('{address}', {port}), 20)
    s.sendall(b'hello')
    print(s.recv(5).decode())
except OSError as e:
    print(errno.errorcode.get(e.errno, e))"
    )
}

fn only(doors: Doors) -> Vec<(u16, std::net::TcpListener)> {
    assert!(doors.proxy.is_empty() && doors.dns_tcp.is_empty() && doors.dns_udp.is_empty());
    doors.named
}

#[tokio::test]
async fn nothing_but_the_doors_leads_anywhere() {
    let Wired { sandbox, gate } = wired(SandboxSpec::default(), doors()).await;
    let open = gate.open(&[443]).await.unwrap();
    let script = "
import errno, socket
def outcome(family, kind, address):
    s = socket.socket(family, kind)
    s.settimeout(20)
    try:
        s.connect(address)
        s.send(b'x')
        s.recv(1)
        return 'reached'
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
tcp, udp = socket.SOCK_STREAM, socket.SOCK_DGRAM
print(outcome(socket.AF_INET, tcp, ('1.1.1.1', 443)))
print(outcome(socket.AF_INET, udp, ('1.1.1.1', 53)))
print(outcome(socket.AF_INET, tcp, ('169.254.169.254', 80)))
print(outcome(socket.AF_INET, udp, ('198.18.0.9', 443)))
print(outcome(socket.AF_INET, tcp, ('198.18.0.9', 444)))
print(outcome(socket.AF_INET, tcp, ('198.20.0.1', 443)))
print(outcome(socket.AF_INET6, tcp, ('2606:4700::1111', 443)))
print(outcome(socket.AF_INET6, udp, ('::ffff:1.1.1.1', 53)))";
    let said = python(&sandbox, script).await.ok();
    let outcomes: Vec<&str> = said.lines().collect();
    assert_eq!(outcomes[..3], ["ENETUNREACH"; 3]);
    assert_eq!(outcomes[3..5], ["ECONNREFUSED"; 2]);
    assert_eq!(outcomes[5], "ENETUNREACH");
    for outcome in &outcomes[6..] {
        assert!(["ENETUNREACH", "EADDRNOTAVAIL"].contains(outcome), "{said}");
    }
    let devices = sh(&sandbox, "cut -s -d: -f1 /proc/net/dev | tr -d ' '");
    assert_eq!(devices.await.ok(), "lo\n");
    drop(open);
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn a_connection_to_the_address_of_a_name_arrives_with_that_address() {
    let Wired { sandbox, gate } = wired(SandboxSpec::default(), doors()).await;
    let mut open = gate.open(&[443, 5432]).await.unwrap();
    let ports: Vec<u16> = open.named.iter().map(|(port, _)| *port).collect();
    assert_eq!(ports, [443, 5432]);
    let proxy = tokio_listener(open.proxy.remove(0));
    for (port, listener) in open.named {
        let listener = tokio_listener(listener);
        // The last is no name's, and its holder can tell.
        for address in ["198.18.0.1", "198.19.255.254", "127.0.0.1"] {
            let script = greet(address, port);
            let (ran, heard) = tokio::join!(python(&sandbox, &script), hello(&listener));
            assert_eq!(ran.ok(), "there\n");
            let ip: Ipv4Addr = address.parse().unwrap();
            assert_eq!(heard, ((ip, port).into(), "hello".to_owned()));
        }
    }
    let script = greet("127.0.0.1", PROXY_PORT);
    let (ran, heard) = tokio::join!(python(&sandbox, &script), hello(&proxy));
    assert_eq!(ran.ok(), "there\n");
    assert_eq!(heard.0, (Ipv4Addr::LOCALHOST, PROXY_PORT).into());
    sandbox.destroy().await.unwrap();
}

/// Answers questions until the command ends.
async fn answered(door: &UdpSocket, command: impl Future<Output = Ran>) -> (Ran, Vec<String>) {
    let mut names = Vec::new();
    let mut command = pin!(command);
    loop {
        tokio::select! {
            ran = &mut command => return (ran, names),
            name = answer(door) => names.push(name),
        }
    }
}

/// Answers one question: the address is 198.18.7.7.
async fn answer(door: &UdpSocket) -> String {
    let mut question = [0; 512];
    let (length, who) = door.recv_from(&mut question).await.unwrap();
    let name: Vec<u8> = question[12..length]
        .iter()
        .copied()
        .take_while(|byte| *byte != 0)
        .collect();
    let asked = &question[12..12 + name.len() + 1 + 4];
    let wants_v4 = asked.ends_with(&[0, 1, 0, 1]);
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(wants_v4), 0, 0, 0, 0]);
    answer.extend(asked);
    if wants_v4 {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 7, 7]);
    }
    door.send_to(&answer, who).await.unwrap();
    String::from_utf8_lossy(&name).into_owned()
}

#[tokio::test]
async fn a_name_is_asked_for_at_the_door_and_nowhere_else() {
    let wiring = Wiring {
        files: vec![file("/etc/resolv.conf", "nameserver 127.0.0.1\n")],
        ..doors()
    };
    let Wired { sandbox, gate } = wired(SandboxSpec::default(), wiring).await;
    let mut open = gate.open(&[]).await.unwrap();
    let door = UdpSocket::from_std(open.dns_udp.remove(0)).unwrap();
    // Of the second kind is whoever asks for addresses that this machine can use.
    for database in ["ahostsv4", "ahosts", "hosts"] {
        let script = format!("getent {database} api.example");
        let (ran, names) = answered(&door, sh(&sandbox, &script)).await;
        assert!(ran.ok().contains("198.18.7.7 "), "{database}");
        assert!(!names.is_empty());
        assert!(names.iter().all(|name| name == "\u{3}api\u{7}example"));
    }
    let tcp = tokio_listener(open.dns_tcp.remove(0));
    let script = greet("127.0.0.1", 53);
    let (ran, _) = tokio::join!(python(&sandbox, &script), hello(&tcp));
    assert_eq!(ran.ok(), "there\n");
    sandbox.destroy().await.unwrap();
}

fn file(path: &str, contents: &str) -> WiredFile {
    WiredFile {
        path: path.to_owned(),
        contents: contents.as_bytes().into(),
    }
}

#[tokio::test]
async fn what_the_boundary_wires_is_found_inside_and_cannot_be_changed() {
    let wiring = Wiring {
        env: [("A", "wired"), ("B", "wired")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        files: vec![
            file("/etc/resolv.conf", "nameserver 127.0.0.1\n"),
            file("/etc/namzu/deep/ca.pem", "a certificate\n"),
            file("/etc/hosts", "127.0.0.1 wired\n"),
            file("/etc/ssl/certs/ca-certificates.crt", "a bundle\n"),
            file("/etc/ssl/certs/no-such-file", "nowhere\n"),
        ],
        ..doors()
    };
    let spec = SandboxSpec {
        env: [("B".to_owned(), "asked".to_owned())].into(),
        ..SandboxSpec::default()
    };
    let Wired { sandbox, .. } = wired(spec, wiring).await;
    let said = sh(
        &sandbox,
        "echo $A $B; cat /etc/resolv.conf /etc/namzu/deep/ca.pem /etc/hosts",
    );
    let wanted = "wired asked\nnameserver 127.0.0.1\na certificate\n127.0.0.1 wired\n";
    assert_eq!(said.await.ok(), wanted);
    if std::path::Path::new("/etc/ssl/certs/ca-certificates.crt").is_file() {
        let bundle = sh(&sandbox, "cat /etc/ssl/certs/ca-certificates.crt");
        assert_eq!(bundle.await.ok(), "a bundle\n");
    }
    for change in [
        "echo x > /etc/resolv.conf",
        "rm /etc/resolv.conf",
        "chmod u+w /etc/namzu/deep/ca.pem && echo x > /etc/namzu/deep/ca.pem",
        "mv /etc/namzu /etc/other",
    ] {
        sh(&sandbox, change).await.refused();
    }
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn a_port_is_opened_when_it_is_asked_for_and_once() {
    let Wired { sandbox, gate } = wired(SandboxSpec::default(), doors()).await;
    let first = gate.open(&[]).await.unwrap();
    assert_eq!((first.proxy.len(), first.named.len()), (1, 0));
    let refused = python(&sandbox, &greet("198.18.0.1", 443)).await.ok();
    assert_eq!(refused, "ECONNREFUSED\n");
    let second = only(gate.open(&[443]).await.unwrap());
    assert_eq!(second.len(), 1);
    // Neither again, nor where the loopback's doors are in the way.
    assert_eq!(
        only(gate.open(&[443, 53, PROXY_PORT]).await.unwrap()).len(),
        0
    );
    let third = only(gate.open(&[443, 80]).await.unwrap());
    assert_eq!(third[0].0, 80);
    let refused = gate.open(&[0]).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::BackendFailed);
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn doors_can_be_opened_in_a_sandbox_that_was_made_without() {
    let deny_all = SandboxSpec {
        egress: Some(EgressPolicy::DenyAll),
        ..SandboxSpec::default()
    };
    let Wired { sandbox, gate } = wired(deny_all, Wiring::default()).await;
    let unreachable = python(&sandbox, &greet("198.18.0.1", 443)).await.ok();
    assert_eq!(unreachable, "ENETUNREACH\n");
    let mut open = gate.open(&[443]).await.unwrap();
    let listener = tokio_listener(open.named.remove(0).1);
    let script = greet("198.18.0.1", 443);
    let (ran, _) = tokio::join!(python(&sandbox, &script), hello(&listener));
    assert_eq!(ran.ok(), "there\n");
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn code_inside_can_neither_take_nor_share_a_door() {
    let Wired { sandbox, gate } = wired(SandboxSpec::default(), doors()).await;
    let mut open = gate.open(&[443, 5432]).await.unwrap();
    let script = "
import errno, socket
for port, kind, addresses in [
    (3128, socket.SOCK_STREAM, ['127.0.0.1', '0.0.0.0']),
    (53, socket.SOCK_STREAM, ['127.0.0.1', '0.0.0.0']),
    (53, socket.SOCK_DGRAM, ['127.0.0.1', '0.0.0.0', '127.0.0.2']),
    (443, socket.SOCK_STREAM, ['127.0.0.1', '0.0.0.0', '198.18.0.1']),
    (5432, socket.SOCK_STREAM, ['127.0.0.1', '0.0.0.0', '198.18.0.1', '198.19.0.1']),
]:
    for address in addresses:
        for family in (socket.AF_INET, socket.AF_INET6):
            for reuse in [[], [socket.SO_REUSEADDR], [socket.SO_REUSEPORT], [socket.SO_REUSEADDR, socket.SO_REUSEPORT]]:
                s = socket.socket(family, kind)
                if family == socket.AF_INET6:
                    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                for option in reuse:
                    s.setsockopt(socket.SOL_SOCKET, option, 1)
                at = '::ffff:' + address if family == socket.AF_INET6 else address
                try:
                    s.bind((at, port))
                    if kind == socket.SOCK_STREAM:
                        s.listen()
                    print('taken', at, port, reuse)
                except OSError as e:
                    assert e.errno in (errno.EADDRINUSE, errno.EACCES), e
s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
try:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(('::', 5432))
    s.listen()
    print('taken')
except OSError as e:
    assert e.errno == errno.EADDRINUSE, e
print('done')";
    assert_eq!(python(&sandbox, script).await.ok(), "done\n");
    let listener = tokio_listener(open.named.remove(1).1);
    let script = greet("198.18.0.1", 5432);
    let (ran, _) = tokio::join!(python(&sandbox, &script), hello(&listener));
    assert_eq!(ran.ok(), "there\n");
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn a_port_that_code_inside_holds_is_a_failure_that_can_be_tried_again() {
    let Wired { sandbox, gate } = wired(SandboxSpec::default(), Wiring::default()).await;
    let hold = "
import os, socket, time
s = socket.create_server(('127.0.0.1', 3128))
open('/tmp/held', 'w').close()
while os.path.exists('/tmp/held'):
    time.sleep(0.01)
s.close()
open('/tmp/closed', 'w').close()";
    let holder = namzu_client::ExecRequest::new(["python3", "-c", hold]);
    let holder = sandbox.spawn(holder).await.unwrap();
    sh(&sandbox, "while ! test -e /tmp/held; do :; done")
        .await
        .ok();
    let refused = gate.open(&[443]).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::BackendFailed);
    assert!(refused.to_string().contains("3128"), "{refused}");
    // What could be opened was closed again.
    let closed = python(&sandbox, &greet("198.18.0.1", 443)).await.ok();
    assert_eq!(closed, "ECONNREFUSED\n");
    sh(
        &sandbox,
        "rm /tmp/held; while ! test -e /tmp/closed; do :; done",
    )
    .await
    .ok();
    drop(holder);
    let open = gate.open(&[443]).await.unwrap();
    assert_eq!((open.proxy.len(), open.named.len()), (1, 1));
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn code_inside_can_change_neither_the_route_nor_the_loopback() {
    let Wired { sandbox, gate } = wired(SandboxSpec::default(), doors()).await;
    let open = gate.open(&[443]).await.unwrap();
    let script = "
import os, socket, struct
def ask(kind, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack('=IHHII', 16 + len(body), kind, 5, 1, 0) + body)
    return os.strerror(-struct.unpack('=i', s.recv(4096)[16:20])[0])
route = struct.pack('=BBBBBBBBI', 2, 15, 0, 0, 255, 4, 254, 2, 0)
route += struct.pack('=HH4B', 8, 1, 198, 18, 0, 0) + struct.pack('=HHI', 8, 4, 1)
down = struct.pack('=BBHiII', 0, 0, 0, 1, 0, 1)
address = struct.pack('=BBBBI', 2, 8, 0, 254, 1) + struct.pack('=HH4B', 8, 2, 127, 0, 0, 1)
for kind, body in [(25, route), (16, down), (21, address), (24, route)]:
    try:
        print(ask(kind, body))
    except OSError as e:
        print(e.strerror)";
    let said = python(&sandbox, script).await.ok();
    assert_eq!(said.lines().count(), 4);
    for line in said.lines() {
        assert!(
            ["Operation not permitted", "Permission denied"].contains(&line),
            "{said}"
        );
    }
    drop(open);
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn a_helper_is_out_of_reach_of_code_inside_and_goes_when_it_is_done() {
    let Wired { sandbox, gate } = wired(SandboxSpec::default(), doors()).await;
    let host = Host::of(&sandbox).await;
    // It stands in the sandbox's network now, where this user may see that.
    host.helpers_if_visible(|count| count == 1).await;
    let seen = sh(
        &sandbox,
        "ls /proc | grep -c '^[0-9]'; kill -9 -1; kill -9 1",
    )
    .await;
    // PID 1, the shell, and what it runs.
    assert!(
        ["3\n", "4\n"].iter().any(|it| seen.text.starts_with(it)),
        "{seen:?}"
    );
    let open = gate.open(&[]).await.unwrap();
    assert_eq!(open.proxy.len(), 1);
    // By the time it has answered it is gone.
    assert_eq!(host.helpers(), 0);
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn no_door_is_opened_in_a_sandbox_that_has_ended() {
    for wiring in [doors(), Wiring::default()] {
        let Wired { sandbox, gate } = wired(SandboxSpec::default(), wiring).await;
        sandbox.destroy().await.unwrap();
        let lost = gate.open(&[443]).await.unwrap_err();
        assert_eq!(lost.code(), ErrorCode::SandboxLost);
    }
}

#[tokio::test]
async fn doors_that_are_dropped_are_shut() {
    let Wired { sandbox, gate } = wired(SandboxSpec::default(), doors()).await;
    drop(gate.open(&[443]).await.unwrap());
    for address in [("198.18.0.1", 443), ("127.0.0.1", PROXY_PORT)] {
        let said = python(&sandbox, &greet(address.0, address.1)).await.ok();
        assert_eq!(said, "ECONNREFUSED\n");
    }
    sandbox.destroy().await.unwrap();
}
