//! What the helper says, and what is made of it.

use std::fs::File;

use super::*;

fn socket() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

fn door(port: u16) -> (u16, std::net::TcpListener) {
    (port, socket().into())
}

#[test]
fn a_packet_is_understood_whole_or_not_at_all() {
    let [high, low] = 443_u16.to_be_bytes();
    assert!(matches!(
        parse(&[b'N', high, low], Some(socket()), true),
        Ok(Packet::Door(b'N', 443, _))
    ));
    assert!(matches!(parse(b".", None, true), Ok(Packet::End)));
    assert!(matches!(
        parse(b"!no\x1b[2J", None, true),
        Ok(Packet::Failed(text)) if text == "no [2J"
    ));
    for (bytes, socket, alone) in [
        (&b""[..], None, true),
        (b".", Some(socket()), true),
        (b"N\x01\xbb", None, true),
        (b"N\x01\xbb", Some(socket()), false),
        (b"N\x01", Some(socket()), true),
        (b"x\x01\xbb", Some(socket()), true),
        (b"..", None, true),
        (b"?no", Some(socket()), true),
    ] {
        parse(bytes, socket, alone).unwrap_err();
    }
}

#[test]
fn what_nobody_asked_for_is_no_door() {
    let mut doors = Doors::default();
    for (kind, port) in [(b'P', 80), (b'T', PROXY_PORT), (b'U', 80), (b'x', 80)] {
        put(&mut doors, kind, port, socket()).unwrap_err();
    }
    doors.named = vec![door(80)];
    check(&doors, false, &BTreeSet::from([80])).unwrap();
    check(&doors, true, &BTreeSet::from([80])).unwrap_err();
    check(&doors, false, &BTreeSet::from([80, 443])).unwrap_err();
    check(&doors, false, &BTreeSet::from([443])).unwrap_err();
    doors.named.push(door(80));
    check(&doors, false, &BTreeSet::from([80])).unwrap_err();
}

/// What a helper that is another program, or is given another namespace, comes to.
async fn asked(program: OwnedFd, netns: &str) -> Error {
    let netns = File::open(netns).unwrap();
    let helper = Helper::start(&program, netns.into()).unwrap();
    helper.ask(true, &BTreeSet::new()).await.unwrap_err()
}

#[tokio::test]
async fn a_helper_that_dies_is_a_failure() {
    let program = File::open("/bin/true").unwrap().into();
    let failed = asked(program, "/proc/self/ns/net").await;
    assert!(matches!(failed, Error::Doors(_)), "{failed}");
}

#[tokio::test]
async fn the_hosts_own_network_gets_no_door() {
    let worker = namzu_worker_image::memfd().unwrap();
    let refused = asked(worker, "/proc/self/ns/net").await;
    assert!(matches!(refused, Error::Joining(_)), "{refused}");
}

#[tokio::test]
async fn what_is_no_network_gets_no_door() {
    for other in ["/dev/null", "/proc/self/ns/ipc"] {
        let worker = namzu_worker_image::memfd().unwrap();
        let refused = asked(worker, other).await;
        assert!(matches!(refused, Error::Joining(_)), "{refused}");
    }
}
