//! 79 to 88, 93, 98, 101 and 113: whose request it is.

mod forms;
mod h2;
pub(crate) mod tls;

use std::time::Duration;

use crate::bench::{List, Place};
use crate::doors::{Door, Outcome, answered};
use crate::framing::open;
use crate::wire::End;

pub(crate) fn list(list: &mut List) {
    hosts(list);
    tls::list(list);
    forms::list(list);
    headers(list);
    upgrades(list);
    h2::list(list);
}

/// Asks the proxy, and gives the answer.
fn ask(place: &Place, request: &str) -> Outcome {
    let mut wire = place.proxy();
    wire.send(request);
    answered(&mut wire)
}

fn hosts(list: &mut List) {
    list.add("079_a_host_that_is_not_the_targets::absolute", |bench| {
        let place = Place::open(bench);
        let outcome = ask(
            &place,
            "GET http://allowed.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        );
        match outcome {
            Outcome::Passed(_) => {
                let text = place.one().text().to_ascii_lowercase();
                assert!(
                    text.contains("host: allowed.test\r\n") && !text.contains("evil"),
                    "{text}"
                );
            }
            Outcome::Http(reply) => {
                assert!(matches!(reply.status, 400 | 421), "{}", reply.head);
                place.silent();
            }
            other => panic!("{other:?}"),
        }
    });
    list.add(
        "080_a_denied_target_with_an_allowed_host::absolute",
        |bench| {
            let place = Place::open(bench);
            let outcome = ask(
                &place,
                "GET http://evil.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
            );
            assert!(outcome.is_refused(), "{outcome:?}");
            place.silent();
        },
    );
    list.add("081_another_port_in_the_host::absolute", |bench| {
        let place = Place::open(bench);
        let outcome = ask(
            &place,
            "GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test:22\r\n\r\n",
        );
        match outcome {
            Outcome::Passed(_) => {
                let text = place.one().text().to_ascii_lowercase();
                assert!(
                    text.contains("host: allowed.test\r\n") && !text.contains(":22"),
                    "{text}"
                );
            }
            Outcome::Http(reply) => {
                assert!(matches!(reply.status, 400 | 421), "{}", reply.head);
                place.silent();
            }
            other => panic!("{other:?}"),
        }
    });
    list.add("082_a_path_alone_to_the_proxy::absolute", |bench| {
        let place = Place::open(bench);
        for target in [
            "/",
            "*",
            "//allowed.test/",
            "allowed.test/",
            "allowed.test:80",
        ] {
            let outcome = ask(
                &place,
                &format!("GET {target} HTTP/1.1\r\nHost: allowed.test\r\n\r\n"),
            );
            let Outcome::Http(reply) = outcome else {
                panic!("{target}: {outcome:?}");
            };
            assert_eq!(reply.status, 400, "{target}");
        }
        place.silent();
    });
    list.add(
        "083_a_host_that_is_not_the_one_of_connect::connect",
        |bench| {
            let place = Place::open(bench);
            let mut wire = place.proxy();
            wire.send("CONNECT evil.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n");
            assert_eq!(wire.reply().unwrap().status, 403);
            place.silent();
            let mut wire = place.proxy();
            wire.send("CONNECT allowed.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n");
            let reply = wire.head().unwrap();
            // The target wins, or both are refused.
            assert!(matches!(reply.status, 200 | 400 | 421), "{}", reply.head);
            assert!(!place.zone.asked().contains(&"evil.test".to_owned()));
        },
    );
    for (name, host) in [
        ("086_a_denied_host", "evil.test"),
        ("086_an_allowed_host", "allowed.test"),
        ("086_another_port", "inner.test:8443"),
        ("086_a_name_below", "a.inner.test"),
    ] {
        list.add(
            format!("{name}_inside_tls_of_another::intercepted"),
            move |bench| {
                let place = Place::open(bench);
                let mut wire = place.intercepted("inner.test");
                wire.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
                let reply = wire.reply().unwrap();
                assert_eq!((reply.status, reply.reason()), (421, "host_mismatch"));
                place.silent();
            },
        );
    }
    list.add("086_another_target_inside_tls::intercepted", |bench| {
        let place = Place::open(bench);
        for target in [
            "https://evil.test/",
            "http://inner.test/",
            "https://inner.test:8443/",
        ] {
            let mut wire = place.intercepted("inner.test");
            wire.send(format!("GET {target} HTTP/1.1\r\nHost: inner.test\r\n\r\n"));
            let outcome = answered(&mut wire);
            assert!(
                outcome.is_malformed() || outcome.is_denied(),
                "{target}: {outcome:?}"
            );
        }
        place.silent();
    });
    list.add("086_a_tunnel_in_a_tunnel::intercepted", |bench| {
        let place = Place::open(bench);
        for target in ["evil.test:443", "inner.test:443"] {
            let mut wire = place.intercepted("inner.test");
            wire.send(format!(
                "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
            ));
            let outcome = answered(&mut wire);
            assert!(outcome.is_refused(), "{outcome:?}");
        }
        place.silent();
    });
    list.add("113_a_relay_inside::connect", |bench| {
        // Whoever relays inside has the same door as everybody else there.
        let place = Place::open(bench);
        let denied = place.attempt(Door::Connect, "evil.test", "443");
        assert!(denied.is_denied(), "{denied:?}");
        let mut outer = place.tunnel("allowed.test", 443);
        outer.send("CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n");
        let (answer, end) = outer.rest(Duration::from_secs(30));
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
        assert_ne!(end, End::Open);
        place.unreached();
    });
}

/// What one connection's headers are not for the next.
fn headers(list: &mut List) {
    list.add("098_proxy_headers_stay_here::absolute", |bench| {
        let place = Place::open(bench);
        let outcome = ask(
            &place,
            "GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\
             Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\n\
             Connection: keep-alive, X-Mine, Host\r\nX-Mine: hop\r\nKeep-Alive: 5\r\n\
             TE: trailers, gzip\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\
             X-Kept: yes\r\n\r\n",
        );
        match outcome {
            Outcome::Passed(_) => {}
            // An upgrade that is not carried may be refused.
            Outcome::Http(reply) => return assert_eq!(reply.status, 501),
            other => panic!("{other:?}"),
        }
        let text = place.one().text().to_ascii_lowercase();
        for gone in [
            "proxy-",
            "x-mine",
            "h2c",
            "http2-settings",
            "c2vjcmv0",
            "keep-alive:",
        ] {
            assert!(!text.contains(gone), "{gone}: {text}");
        }
        assert!(
            text.contains("x-kept: yes") && text.contains("host: allowed.test"),
            "{text}"
        );
    });
    list.add("098_proxy_headers_stay_here::connect", |bench| {
        let place = Place::open(bench);
        let mut wire = place.proxy();
        wire.send(
            "CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\
             Proxy-Authorization: Basic c2VjcmV0\r\n\r\n",
        );
        assert_eq!(wire.head().unwrap().status, 200);
        let mut wire = wire.tls(place.trust(), "allowed.test", &[]).unwrap();
        wire.send("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n");
        assert_eq!(wire.reply().unwrap().status, 200);
        assert!(!place.one().text().contains("c2VjcmV0"));
    });
}

fn upgrades(list: &mut List) {
    for door in [Door::Absolute, Door::Named, Door::Intercepted] {
        list.add(
            format!("101_a_websocket_is_carried_or_refused::{}", door.name()),
            move |bench| {
                let place = Place::open(bench);
                let (mut wire, target, host) = open(&place, door);
                wire.send(format!(
                    "GET {target}/upgrade HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
                ));
                let reply = wire.head().unwrap();
                if reply.status == 501 {
                    return place.unreached();
                }
                assert_eq!(reply.status, 101, "{}", reply.head);
                // From here on nobody reads requests: not even what looks like one.
                let frame = b"\x81\x85\0\0\0\0GET http://evil.test/ HTTP/1.1\r\n\r\n";
                wire.send(frame);
                assert_eq!(wire.exactly(frame.len()).unwrap(), frame);
                place.one();
            },
        );
        list.add(
            format!("101_other_upgrades_are_not_carried::{}", door.name()),
            move |bench| {
                let place = Place::open(bench);
                for other in ["h2c", "TLS/1.0", "connect-udp", "websocket, h2c"] {
                    let (mut wire, target, host) = open(&place, door);
                    wire.send(format!(
                        "GET {target}/upgrade HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\n\
                     Upgrade: {other}\r\n\r\n"
                    ));
                    let reply = wire.head().unwrap();
                    assert_ne!(reply.status, 101, "{other}");
                }
                for seen in place.reached() {
                    let text = seen.text().to_ascii_lowercase();
                    assert!(!text.contains("upgrade:"), "{text}");
                }
            },
        );
    }
}
