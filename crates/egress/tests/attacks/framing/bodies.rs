//! 70 to 77, 104 and 105: bodies, several requests, and large ones.

use super::{TAIL, WAYS, open, written};
use crate::bench::{List, Place};
use crate::doors::{Door, Outcome, answered};

pub(super) fn list(list: &mut List) {
    chunks(list);
    one_by_one(list);
    large(list);
}

/// Bodies in chunks: what is sent on is framed anew, and what is malformed ends the connection.
fn chunks(list: &mut List) {
    for door in WAYS {
        list.add(
            format!("070_a_body_of_get_is_framed_anew::{}", door.name()),
            |bench| {
                let place = Place::open(bench);
                let (mut wire, target, host) = open(&place, *door);
                let request = "GET {T}/ HTTP/1.1\r\nHost: {H}\r\nTransfer-Encoding: Chunked\r\n\r\n\
                           05;ext=\"a;b\"\r\nhello\r\n000\r\nX-Trailer: a\r\n\r\n";
                wire.send(written(request.as_bytes(), target, host));
                let outcome = answered(&mut wire);
                assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
                let seen = place.one().text();
                assert!(!seen.contains("ext=") && !seen.contains("05"), "{seen}");
                assert!(seen.contains("\r\n5\r\nhello\r\n"), "{seen}");
            },
        );
        for (name, body) in [
            ("070_a_chunk_of_no_length", "\r\nhello\r\n0\r\n\r\n"),
            (
                "070_a_chunk_of_a_negative_length",
                "-5\r\nhello\r\n0\r\n\r\n",
            ),
            ("070_a_chunk_of_a_signed_length", "+5\r\nhello\r\n0\r\n\r\n"),
            ("070_a_chunk_of_0x5", "0x5\r\nhello\r\n0\r\n\r\n"),
            (
                "070_a_chunk_of_65_bits",
                "10000000000000005\r\nhello\r\n0\r\n\r\n",
            ),
            ("070_a_space_before_a_length", " 5\r\nhello\r\n0\r\n\r\n"),
            ("070_a_chunk_that_is_too_long", "5\r\nhello!\r\n0\r\n\r\n"),
            ("070_a_chunk_that_ends_in_lf", "5\nhello\n0\n\n"),
            (
                "070_a_bare_cr_in_an_extension",
                "5;a\rb\r\nhello\r\n0\r\n\r\n",
            ),
            ("070_a_bare_lf_in_an_extension", "5;a\nhello\r\n0\r\n\r\n"),
        ] {
            list.add(format!("{name}::{}", door.name()), move |bench| {
                let place = Place::open(bench);
                let (mut wire, target, host) = open(&place, *door);
                let head = "POST {T}/ HTTP/1.1\r\nHost: {H}\r\nTransfer-Encoding: chunked\r\n\r\n";
                wire.send(written(
                    format!("{head}{body}{TAIL}").as_bytes(),
                    target,
                    host,
                ));
                let outcome = answered(&mut wire);
                assert!(outcome.is_refused(), "{outcome:?}");
                wire.ended();
                // The head may have gone out by then; neither the end of a body nor a second request has.
                for seen in place.reached() {
                    let text = seen.text();
                    assert!(!text.contains("smuggled"), "{text}");
                    assert!(!text.ends_with("0\r\n\r\n"), "{text}");
                }
            });
        }
        list.add(format!("076_trailers_that_matter_are_dropped::{}", door.name()), |bench| {
            let place = Place::open(bench);
            let (mut wire, target, host) = open(&place, *door);
            let request = "POST {T}/ HTTP/1.1\r\nHost: {H}\r\nTransfer-Encoding: chunked\r\n\r\n\
                           0\r\nAuthorization: Bearer forged\r\nHost: evil.test\r\n\
                           Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
            wire.send(written(request.as_bytes(), target, host));
            let outcome = answered(&mut wire);
            match &outcome {
                Outcome::Passed(_) => {}
                Outcome::Http(reply) => assert_eq!(reply.status, 400),
                _ => panic!("{outcome:?}"),
            }
            for seen in place.reached() {
                let text = seen.text().to_ascii_lowercase();
                for forged in ["forged", "evil.test", "content-length"] {
                    assert!(!text.contains(forged), "{text}");
                }
            }
        });
    }
}

/// Several requests on one connection.
fn one_by_one(list: &mut List) {
    list.add(
        "073_a_denied_request_after_an_allowed_one::absolute",
        |bench| {
            let place = Place::open(bench);
            let mut wire = place.proxy();
            wire.send(
                "GET http://allowed.test/one HTTP/1.1\r\nHost: allowed.test\r\n\r\n\
             GET http://evil.test/two HTTP/1.1\r\nHost: evil.test\r\n\r\n\
             GET http://allowed.test/three HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
            );
            assert_eq!(wire.reply().unwrap().status, 200);
            let denied = wire.reply().unwrap();
            assert_eq!((denied.status, denied.reason()), (403, "not_listed"));
            // Whether it goes on or not: the third goes to its own host, or nowhere.
            let _ = wire.rest(std::time::Duration::from_secs(1));
            assert_eq!(
                place
                    .zone
                    .asked()
                    .iter()
                    .filter(|name| *name == "evil.test")
                    .count(),
                0
            );
            for seen in place.reached() {
                assert_eq!(seen.to.ip(), place.block.v4(1));
                assert!(!seen.text().contains("/two"), "{}", seen.text());
            }
        },
    );
    for door in [Door::Named, Door::Intercepted] {
        list.add(format!("073_another_host_on_the_same_connection::{}", door.name()), move |bench| {
            let place = Place::open(bench);
            let (mut wire, _, host) = open(&place, door);
            wire.send(format!(
                "GET /one HTTP/1.1\r\nHost: {host}\r\n\r\nGET /two HTTP/1.1\r\nHost: other.test\r\n\r\n"
            ));
            assert_eq!(wire.reply().unwrap().status, 200);
            assert_eq!(wire.reply().unwrap().status, 421);
            for seen in place.reached() {
                assert!(!seen.text().contains("/two"), "{}", seen.text());
            }
        });
    }
    list.add("073_a_body_that_looks_like_a_request::absolute", |bench| {
        let place = Place::open(bench);
        let mut wire = place.proxy();
        let body = "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n";
        wire.send(format!(
            "POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(wire.reply().unwrap().status, 200);
        wire.finish();
        wire.ended();
        assert!(place.one().text().ends_with(body));
    });
    list.add("074_early_bytes_after_a_denied_connect::connect", |bench| {
        let place = Place::open(bench);
        let mut wire = place.proxy();
        wire.send(
            "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n\
             GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        );
        assert_eq!(wire.reply().unwrap().status, 403);
        wire.ended();
        place.silent();
    });
    list.add("074_a_body_on_connect::connect", |bench| {
        let place = Place::open(bench);
        for field in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
            let mut wire = place.proxy();
            wire.send(format!(
                "CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\n{field}\r\n\r\n"
            ));
            // Refused, or the bytes after the head are the tunnel's: never a body that is skipped.
            let reply = wire.head().unwrap();
            assert!(matches!(reply.status, 200 | 400), "{}", reply.head);
        }
        place.unreached();
    });
    for door in WAYS {
        list.add(
            format!("077_expect_is_answered_after_the_policy::{}", door.name()),
            |bench| {
                let place = Place::open(bench);
                let (mut wire, target, _) = open(&place, *door);
                let target = if target.is_empty() {
                    ""
                } else {
                    "http://evil.test"
                };
                wire.send(format!(
                    "POST {target}/ HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 5\r\n\
                 Expect: 100-continue\r\n\r\n"
                ));
                let reply = wire.head().unwrap();
                assert!(matches!(reply.status, 403 | 421), "{}", reply.head);
                place.silent();
            },
        );
        list.add(
            format!("077_expect_that_is_allowed_goes_on::{}", door.name()),
            |bench| {
                let place = Place::open(bench);
                let (mut wire, target, host) = open(&place, *door);
                wire.send(format!(
                    "POST {target}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\
                 Expect: 100-continue\r\n\r\n"
                ));
                assert_eq!(wire.head().unwrap().status, 100);
                wire.send("hello");
                assert_eq!(wire.reply().unwrap().status, 200);
                assert!(place.one().text().ends_with("hello"));
            },
        );
    }
}

fn large(list: &mut List) {
    let header = format!("X-Large: {}\r\n", "a".repeat(100 * 1024));
    let many: String = (0..5000).map(|at| format!("X-{at}: a\r\n")).collect();
    for (name, target, fields) in [
        ("104_a_header_of_100_kib", "/".to_owned(), header),
        (
            "104_a_target_of_100_kib",
            format!("/{}", "a".repeat(100 * 1024)),
            String::new(),
        ),
        ("105_5000_headers", "/".to_owned(), many),
    ] {
        for door in WAYS {
            let (path, fields) = (target.clone(), fields.clone());
            list.add(format!("{name}::{}", door.name()), move |bench| {
                let place = Place::open(bench);
                let (mut wire, target, host) = open(&place, *door);
                wire.send(format!(
                    "GET {target}{path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"
                ));
                let reply = wire.reply().unwrap();
                assert!(matches!(reply.status, 431 | 414), "{}", reply.head);
                wire.ended();
                place.unreached();
            });
        }
        let (path, fields) = (target, fields_of(name));
        list.add(format!("{name}::connect"), move |bench| {
            let place = Place::open(bench);
            let mut wire = place.proxy();
            let target = if path == "/" {
                "allowed.test:443"
            } else {
                path.as_str()
            };
            wire.send(format!(
                "CONNECT {target} HTTP/1.1\r\nHost: allowed.test\r\n{fields}\r\n"
            ));
            let reply = wire.reply().unwrap();
            assert!(matches!(reply.status, 431 | 414), "{}", reply.head);
            wire.ended();
            place.unreached();
        });
    }
}

fn fields_of(name: &str) -> String {
    match name {
        "105_5000_headers" => (0..5000).map(|at| format!("X-{at}: a\r\n")).collect(),
        "104_a_header_of_100_kib" => format!("X-Large: {}\r\n", "a".repeat(100 * 1024)),
        _ => String::new(),
    }
}
