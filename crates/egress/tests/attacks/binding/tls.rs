//! 84, 85 and 87: TLS whose name is not the one that the connection was opened for.

use std::time::Duration;

use crate::bench::{List, Place};
use crate::doors::{Door, answered};
use crate::wire::{End, Wire};

/// TLS whose name is not the one that the connection was opened for.
pub(super) fn list(list: &mut List) {
    for door in [Door::Connect, Door::Socks, Door::Named] {
        for (name, host) in [
            ("084_the_server_name_of_a_denied_host", "evil.test"),
            ("084_the_server_name_of_another_allowed_host", "other.test"),
            ("084_a_server_name_below", "a.allowed.test"),
        ] {
            list.add(format!("{name}::{}", door.name()), move |bench| {
                let place = Place::open(bench);
                let tls = opened(&place, door, "allowed.test").tls(place.trust(), host, &[]);
                assert!(tls.is_err(), "the handshake went on");
                assert!(place.reached().iter().all(|seen| seen.bytes.is_empty()));
                assert!(
                    place
                        .reached()
                        .iter()
                        .all(|seen| seen.server_name.is_none())
                );
            });
        }
        list.add(
            format!("084_no_server_name::{}", door.name()),
            move |bench| {
                let place = Place::open(bench);
                let wire = opened(&place, door, "allowed.test");
                assert!(
                    wire.tls_without_name(place.trust(), "allowed.test")
                        .is_err()
                );
                assert!(place.reached().iter().all(|seen| seen.bytes.is_empty()));
            },
        );
        list.add(
            format!("084_something_else_than_tls_or_http::{}", door.name()),
            move |bench| {
                let place = Place::open(bench);
                let mut wire = opened(&place, door, "allowed.test");
                wire.send(b"SSH-2.0-mine\r\n\0\0\0\x0c");
                let (_, end) = wire.rest(Duration::from_secs(30));
                assert_ne!(end, End::Open);
                place.unreached();
            },
        );
        list.add(
            format!("084_http_in_the_clear_on_443::{}", door.name()),
            move |bench| {
                let place = Place::open(bench);
                let mut wire = opened(&place, door, "allowed.test");
                wire.send("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n");
                let outcome = answered(&mut wire);
                assert!(outcome.is_refused(), "{outcome:?}");
                place.unreached();
            },
        );
        for (name, hello) in [
            (
                "087_a_hello_with_another_inner_name",
                hello("evil.test", true),
            ),
            (
                "085_a_hello_with_two_names",
                hello_of(&["allowed.test", "evil.test"], false),
            ),
            (
                "085_a_hello_with_a_nul_in_its_name",
                hello("allowed.test\0.evil.test", false),
            ),
            (
                "085_a_hello_with_an_address_as_name",
                hello("45.0.0.1", false),
            ),
            ("085_a_hello_with_an_empty_name", hello("", false)),
        ] {
            list.add(format!("{name}::{}", door.name()), move |bench| {
                let place = Place::open(bench);
                let mut wire = opened(&place, door, "allowed.test");
                wire.send(&hello);
                let (answer, end) = wire.rest(Duration::from_secs(30));
                assert_ne!(end, End::Open, "{answer:?}");
                // An alert, or nothing; no hello of a server.
                assert_ne!(answer.first(), Some(&22), "{answer:?}");
                assert!(
                    place
                        .reached()
                        .iter()
                        .all(|seen| seen.server_name.is_none())
                );
            });
        }
        list.add(
            format!(
                "087_a_hello_with_the_right_name_and_a_made_up_inner_one::{}",
                door.name()
            ),
            move |bench| {
                let place = Place::open(bench);
                let mut wire = opened(&place, door, "allowed.test");
                wire.send(hello("allowed.test", true));
                let first = wire.exactly(1).expect("an answer of the server");
                // A hello, or an alert for what the made-up hello lacks; from the server, which saw it.
                assert!(matches!(first[0], 21 | 22), "{first:?}");
                assert_eq!(place.reached().len(), 1);
            },
        );
        list.add(
            format!("085_a_hello_in_single_bytes::{}", door.name()),
            move |bench| {
                let place = Place::open(bench);
                let mut wire = opened(&place, door, "allowed.test");
                for byte in hello("evil.test", false) {
                    wire.send([byte]);
                }
                let (answer, end) = wire.rest(Duration::from_secs(30));
                assert_ne!(end, End::Open);
                assert_ne!(answer.first(), Some(&22), "{answer:?}");
                assert!(
                    place
                        .reached()
                        .iter()
                        .all(|seen| seen.server_name.is_none())
                );
            },
        );
    }
}

/// A way to port 443 that was let through.
pub(crate) fn opened(place: &Place, door: Door, host: &str) -> Wire {
    match door {
        Door::Socks => {
            let mut wire = place.proxy();
            let target = crate::doors::Target::Domain(host.as_bytes().to_vec());
            let code = crate::doors::socks(&mut wire, &target, 443);
            assert_eq!(code.expect("an answer of SOCKS"), 0);
            wire
        }
        Door::Named => place.named(host, 443),
        _ => place.tunnel(host, 443),
    }
}

fn hello(name: &str, inner: bool) -> Vec<u8> {
    hello_of(&[name], inner)
}

/// A ClientHello of TLS 1.2, with another one inside (ECH) or not.
fn hello_of(names: &[&str], inner: bool) -> Vec<u8> {
    let vector = |bytes: &[u8]| {
        let mut all = u16::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
        all.extend_from_slice(bytes);
        all
    };
    let extension = |kind: u16, body: &[u8]| {
        let mut all = kind.to_be_bytes().to_vec();
        all.extend(vector(body));
        all
    };
    let listed: Vec<u8> = names
        .iter()
        .flat_map(|name| [vec![0], vector(name.as_bytes())].concat())
        .collect();
    let mut extensions = extension(0, &vector(&listed));
    // Groups, points and signatures, so that a server has something to go on.
    extensions.extend(extension(10, &vector(&[0, 29, 0, 23])));
    extensions.extend(extension(11, &[1, 0]));
    extensions.extend(extension(13, &vector(&[4, 3, 8, 4, 4, 1])));
    if inner {
        // Outer; HKDF-SHA256 and AES-128-GCM; a configuration; a key; what is inside.
        let mut body = vec![0, 0, 1, 0, 1, 7];
        body.extend(vector(&[9; 32]));
        body.extend(vector(&[7; 128]));
        extensions.extend(extension(0xfe0d, &body));
    }
    let mut body = vec![3, 3];
    body.extend([5; 32]);
    body.push(0);
    body.extend(vector(&[0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x2c, 0xcc, 0xa9]));
    body.extend([1, 0]);
    body.extend(vector(&extensions));
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let handshake = [&[1], &length[1..], &body[..]].concat();
    [&[22, 3, 1][..], &vector(&handshake)].concat()
}
