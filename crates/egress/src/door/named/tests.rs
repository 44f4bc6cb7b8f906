//! Connections to the addresses of names.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::Name;
use crate::boundary::ForwardedDoor;
use crate::door::{forwarded, serve as serve_doors};
use crate::place::testing::{Table, place, policy};

const RULES: &str = r#"{"kind": "static", "allowedHosts": ["api.example.com"]}"#;

fn admitting() -> Arc<Place> {
    place(&policy(RULES), Table::default())
}

/// The address that `name` has in `place`, with a port.
fn address(place: &Place, name: &str, port: u16) -> SocketAddrV4 {
    let address = place.names.address(&Name::parse(name).unwrap()).unwrap();
    SocketAddrV4::new(address, port)
}

/// What a program that connects to `at` and says `sent` is told, and whether it is reset.
async fn told(place: &Arc<Place>, at: SocketAddrV4, sent: &[u8]) -> (Vec<u8>, bool) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let (program, inside) = tokio::join!(TcpStream::connect(to), listener.accept());
    let (mut program, inside) = (program.unwrap(), Inside::Tcp(inside.unwrap().0));
    let served = tokio::spawn(serve_at(Arc::clone(place), inside, at));
    // A reset may come first.
    let _ = program.write_all(sent).await;
    let mut read = Vec::new();
    let reset = program.read_to_end(&mut read).await.is_err();
    drop(program);
    served.await.unwrap();
    (read, reset)
}

#[tokio::test]
async fn an_address_that_stands_for_no_name_is_reset() {
    let place = admitting();
    for at in ["127.0.0.1:443", "198.18.9.9:443", "192.0.2.1:80"] {
        let (read, reset) = told(&place, at.parse().unwrap(), b"").await;
        assert!(read.is_empty() && reset, "{at}");
    }
}

#[tokio::test]
async fn a_refusal_is_told_in_the_words_of_what_is_spoken() {
    let place = admitting();
    // It had an address under an earlier policy.
    let at = |port| address(&place, "evil.test", port);
    let (read, _) = told(&place, at(80), b"GET / HTTP/1.1\r\nhost: evil.test\r\n\r\n").await;
    let read = String::from_utf8(read).unwrap();
    assert!(read.starts_with("HTTP/1.1 403 "), "{read}");
    assert!(read.contains("x-egress-reason: not_listed\r\n"), "{read}");
    let (read, _) = told(&place, at(443), b"\x16\x03\x01\x02\0\x01\0\x01\xfc").await;
    assert_eq!(read, [21, 3, 3, 0, 2, 2, 49]);
    let (read, _) = told(&place, at(22), b"SSH-2.0-OpenSSH_9.2\r\n").await;
    assert!(read.starts_with(b"SSH-2.0-"), "{read:?}");
    assert!(
        String::from_utf8_lossy(&read).contains("not_listed"),
        "{read:?}"
    );
    let (read, reset) = told(&place, at(5432), b"\0\0\0\x08\x04\xd2\x16\x2f").await;
    assert!(read.is_empty() && reset);
}

#[tokio::test]
async fn an_allowed_name_is_no_more_than_that_on_another_port() {
    let place = admitting();
    let at = address(&place, "api.example.com", 8080);
    let (read, _) = told(&place, at, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let read = String::from_utf8(read).unwrap();
    assert!(
        read.contains("x-egress-reason: port_not_listed\r\n"),
        "{read}"
    );
}

#[tokio::test]
async fn a_forwarded_address_is_a_claim_that_is_looked_up_and_no_more() {
    let place = admitting();
    for at in ["127.0.0.1:443", "198.18.9.9:443", "169.254.169.254:80"] {
        let (mut program, inner) = tokio::io::duplex(64);
        let door = ForwardedDoor::Named(at.parse().unwrap());
        forwarded::serve(Arc::clone(&place), door, Box::new(inner)).await;
        assert!(program.read_u8().await.is_err(), "{at}");
    }
}

#[tokio::test]
async fn doors_that_are_dropped_end_what_came_by_them() {
    let place = admitting();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let doors = namzu_core::egress::Doors {
        dns_tcp: vec![listener],
        ..namzu_core::egress::Doors::default()
    };
    let served = serve_doors(&place, doors).unwrap();
    let mut program = TcpStream::connect(to).await.unwrap();
    // Garbage is answered, so it is being served.
    program
        .write_all(&[&[0, 12][..], &[0; 12]].concat())
        .await
        .unwrap();
    assert_eq!(program.read_u16().await.unwrap(), 12);
    drop(served);
    let mut rest = Vec::new();
    let _ = program.read_to_end(&mut rest).await;
    assert_eq!(rest.len(), 12);
    assert!(TcpStream::connect(to).await.is_err());
}
