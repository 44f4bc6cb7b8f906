//! 45 to 57: names and what they lead to.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use namzu_testkit::network::Record;
use namzu_types::{EgressLimits, EgressPolicy};

use crate::bench::{List, Place, strings};
use crate::doors::{A, Door, Outcome, query};
use crate::wire::Wire;

pub(crate) fn list(list: &mut List) {
    rebinding(list);
    chains(list);
    look_ups(list);
    messages(list);
    beside_the_doors(list);
}

fn rebinding(list: &mut List) {
    for (name, turns) in [
        ("045_rebinding_to_loopback", ["45.0.0.9", "127.0.0.1"]),
        ("045_rebinding_to_metadata", ["45.0.0.9", "169.254.169.254"]),
        ("045_rebinding_to_private", ["45.0.0.9", "10.0.0.1"]),
    ] {
        for door in [Door::Connect, Door::Socks, Door::Named, Door::Absolute] {
            list.add(format!("{name}::{}", door.name()), move |bench| {
                let place = Place::open(bench);
                let second: Ipv4Addr = turns[1].parse().unwrap();
                let turns = vec![vec![place.block.v4(9).into()], vec![second.into()]];
                place.zone.set("lead.wild.test", Record::InTurn(turns));
                let port = if door == Door::Absolute { "80" } else { "443" };
                // What is looked at is what is dialled: nothing is asked in between.
                let first = place.attempt(door, "lead.wild.test", port);
                assert!(matches!(first, Outcome::Passed(_)), "{first:?}");
                assert_eq!(place.zone.asked().len(), 1);
                let then = place.attempt(door, "lead.wild.test", port);
                if matches!(then, Outcome::Passed(_)) {
                    // Over the connection that there was: nobody was asked where to.
                    assert_eq!(place.zone.asked().len(), 1, "{then:?}");
                } else {
                    assert!(then.is_denied(), "{then:?}");
                    assert_eq!(place.zone.asked().len(), 2);
                }
                assert_eq!(place.one().to.ip(), place.block.v4(9));
            });
        }
    }
}

fn chains(list: &mut List) {
    for door in Door::ALL {
        list.add(
            format!("048_an_alias_of_an_internal_name::{}", door.name()),
            move |bench| {
                let place = Place::open(bench);
                let name = if *door == Door::Intercepted {
                    "inner.test"
                } else {
                    "alias.wild.test"
                };
                place
                    .zone
                    .set(name, Record::Alias("db.corp.internal".to_owned()));
                place.zone.host("db.corp.internal", place.block.private(1));
                let (door, port) = match door {
                    Door::Intercepted => (Door::Connect, "443"),
                    Door::Absolute => (*door, "80"),
                    _ => (*door, "443"),
                };
                let outcome = place.attempt(door, name, port);
                assert!(outcome.is_denied(), "{outcome:?}");
                place.unreached();
            },
        );
    }
    list.add("048_an_alias_of_a_denied_name_that_is_public", |bench| {
        // Who answers for an allowed name may send elsewhere in public: its owner says so.
        let place = Place::open(bench);
        place
            .zone
            .set("cdn.wild.test", Record::Alias("edge.evil.test".to_owned()));
        place.zone.host("edge.evil.test", place.block.v4(9));
        let outcome = place.attempt(Door::Connect, "cdn.wild.test", "443");
        assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
        assert_eq!(place.one().server_name.as_deref(), Some("cdn.wild.test"));
    });
}

fn look_ups(list: &mut List) {
    for (name, host) in [
        ("051_a_secret_in_a_denied_name", "c2VjcmV0.evil.test"),
        (
            "051_a_secret_below_a_denied_name",
            "c2VjcmV0.denied.wild.test",
        ),
    ] {
        for door in Door::ALL {
            list.add(
                format!("{name}_is_not_looked_up::{}", door.name()),
                move |bench| {
                    let place = Place::with(bench, |_| {
                        let mut policy = crate::bench::usual();
                        if let EgressPolicy::Static { denied_hosts, .. } = &mut policy {
                            denied_hosts.push("*.denied.wild.test".to_owned());
                        }
                        policy
                    });
                    let port = if *door == Door::Absolute { "80" } else { "443" };
                    let outcome = place.attempt(*door, host, port);
                    assert!(outcome.is_denied(), "{outcome:?}");
                    place.silent();
                },
            );
        }
    }
    list.add("051_a_denied_look_up_says_why", |bench| {
        let place = Place::open(bench);
        let message = with_edns(query(&[b"evil", b"test"], A));
        let answer = place.ask_udp(&message).unwrap();
        assert_eq!(answer.code, 3);
        // An Extended DNS Error, in which there is text.
        let text = String::from_utf8_lossy(&answer.bytes).into_owned();
        assert!(
            text.contains("not_listed") || text.contains("policy"),
            "{text:?}"
        );
        place.silent();
    });
    list.add("051_deny_all_answers_no_name", |bench| {
        let place = Place::with(bench, |_| EgressPolicy::DenyAll);
        for host in ["allowed.test", "dns.google", "localhost"] {
            assert!(place.resolve(host).is_err(), "{host}");
        }
        place.silent();
    });
    list.add("052_many_names_below_a_wildcard", |bench| {
        let place = Place::with(bench, |_| limited(10));
        let answered: Vec<bool> = (0..30)
            .map(|at| place.resolve(&format!("data-{at}.wild.test")).is_ok())
            .collect();
        let passed = answered.iter().filter(|passed| **passed).count();
        assert_eq!(passed, 10, "{answered:?}");
        // A name that was asked for already is no new one.
        assert!(place.resolve("data-1.wild.test").is_ok());
        // And nothing of all this left the host.
        place.silent();
    });
    list.add("052_many_names_by_connect", |bench| {
        let place = Place::with(bench, |_| limited(10));
        let passed = (0..20)
            .map(|at| place.attempt(Door::Connect, &format!("data-{at}.wild.test"), "443"))
            .filter(|outcome| matches!(outcome, Outcome::Passed(_)))
            .count();
        assert_eq!(passed, 10);
        assert_eq!(place.zone.asked().len(), 10);
    });
    list.add(
        "052_two_wildcard_names_have_two_addresses_that_stay",
        |bench| {
            let place = Place::open(bench);
            let one = place.resolve("one.wild.test").unwrap();
            let two = place.resolve("two.wild.test").unwrap();
            assert_ne!(one, two);
            assert_eq!(place.resolve("one.wild.test"), Ok(one));
            let [198, 18 | 19, ..] = one.octets() else {
                panic!("{one} is no address of a name");
            };
            place.silent();
        },
    );
}

fn limited(names: u32) -> EgressPolicy {
    EgressPolicy::Static {
        allowed_hosts: strings(&["*.wild.test"]),
        rules: Vec::new(),
        denied_hosts: Vec::new(),
        credentials: std::collections::BTreeMap::new(),
        limits: EgressLimits {
            names_per_minute: Some(names),
            ..EgressLimits::default()
        },
    }
}

fn messages(list: &mut List) {
    let name: &[&[u8]] = &[b"allowed", b"test"];
    for (label, kind) in [
        ("any", 255),
        ("txt", 16),
        ("null", 10),
        ("axfr", 252),
        ("ixfr", 251),
        ("mx", 15),
        ("srv", 33),
        ("https", 65),
        ("key", 25),
        ("private", 65280),
    ] {
        let message = query(name, kind);
        list.add(format!("055_type_{label}"), move |bench| {
            let place = Place::open(bench);
            let answer = place.ask_udp(&message).unwrap();
            assert_eq!(answer.records, 0, "{answer:?}");
            // What would be of any length is refused; of the rest an allowed name just has none.
            let long = matches!(label, "any" | "null" | "axfr" | "ixfr");
            assert!(matches!(answer.code, 4 | 5) || !long, "{answer:?}");
            place.silent();
        });
    }
    let question = query(name, A);
    let changed = |at: usize, value: u8| {
        let mut message = question.clone();
        message[at] = value;
        message
    };
    let mut two = query(name, A);
    two[5] = 2;
    two.extend_from_slice(&question[12..]);
    let mut looped = question[..12].to_vec();
    looped.extend([0xc0, 12, 0, 1, 0, 1]);
    let mut pointing = question[..12].to_vec();
    pointing.extend([3, b'a', b'b', b'c', 0xc0, 0xff, 0, 1, 0, 1]);
    let mut chaos = question.clone();
    *chaos.last_mut().unwrap() = 3;
    let mut long = question[..12].to_vec();
    for _ in 0..5 {
        long.push(63);
        long.extend([b'a'; 63]);
    }
    long.extend([0, 0, 1, 0, 1]);
    for (label, message) in [
        ("no_question", changed(5, 0)),
        ("two_questions", two),
        ("an_answer_of_its_own", changed(2, 0x81)),
        ("a_notify", changed(2, 0x21)),
        ("an_update", changed(2, 0x29)),
        ("answers_inside", changed(7, 1)),
        ("a_name_that_points_to_itself", looped),
        ("a_name_that_points_beyond", pointing),
        ("the_chaos_class", chaos),
        ("a_name_of_320", long),
        ("half_a_header", question[..6].to_vec()),
        ("half_a_question", question[..20].to_vec()),
        (
            "bytes_after_the_question",
            [&question[..], b"data"].concat(),
        ),
        ("nothing", vec![]),
    ] {
        for tcp in [false, true] {
            let message = message.clone();
            let way = if tcp { "tcp" } else { "udp" };
            list.add(format!("055_{label}::{way}"), move |bench| {
                let place = Place::open(bench);
                let answer = if tcp {
                    place.ask_tcp(&message)
                } else {
                    place.ask_udp(&message)
                };
                // An error, or silence: some of these are no questions.
                if let Ok(answer) = answer {
                    assert_ne!(answer.code, 0, "{answer:?}");
                    assert_eq!(answer.records, 0, "{answer:?}");
                }
                place.silent();
                assert!(place.resolve("allowed.test").is_ok(), "it serves on");
            });
        }
    }
    list.add("055_bytes_in_a_label_that_are_no_name", |bench| {
        let place = Place::open(bench);
        for label in [&b"a\0b"[..], b"a.b", b"\xff\xfe", b"a b", b"-a", b"a@b"] {
            let answer = place.ask_udp(&query(&[label, b"wild", b"test"], A));
            if let Ok(answer) = answer {
                assert_eq!(answer.records, 0, "{label:?}: {answer:?}");
                assert_ne!(answer.code, 0, "{label:?}");
            }
        }
        place.silent();
    });
    list.add(
        "055_a_stalled_question_over_tcp_does_not_stop_others",
        |bench| {
            let place = Place::open(bench);
            let mut stalled = Wire::new(place.dial("127.0.0.1:53".parse().unwrap()).unwrap());
            stalled.send([0, 40, 1]);
            let question = query(&[b"allowed", b"test"], A);
            assert_eq!(place.ask_tcp(&question).unwrap().code, 0);
            assert!(place.resolve("allowed.test").is_ok());
            place.silent();
        },
    );
}

fn beside_the_doors(list: &mut List) {
    for port in [53, 443] {
        list.add(
            format!("053_udp_{port}_to_somebody_else_has_no_route"),
            move |bench| {
                let place = Place::open(bench);
                let to = (place.block.v4(66), port);
                let sent = place
                    .room
                    .udp(to)
                    .and_then(|socket| socket.send(b"question"));
                assert_unreachable(sent.map(|_| ()));
                place.silent();
            },
        );
    }
    for port in [53, 853, 443, 80] {
        list.add(
            format!("057_tcp_{port}_to_an_address_has_no_route"),
            move |bench| {
                let place = Place::open(bench);
                for last in [1, 66] {
                    let to = SocketAddr::new(place.block.v4(last).into(), port);
                    assert_unreachable(place.room.connect(to).map(|_| ()));
                    let to = SocketAddr::new(place.block.v6(last.into()).into(), port);
                    assert_unreachable(place.room.connect(to).map(|_| ()));
                }
                place.silent();
            },
        );
    }
    list.add("057_the_address_of_an_allowed_name::connect", |bench| {
        let place = Place::open(bench);
        let real = place.block.v4(1).to_string();
        for door in Door::AUTHORITY {
            let outcome = place.attempt(*door, &real, "443");
            assert!(outcome.is_denied(), "{door:?}: {outcome:?}");
        }
        place.silent();
    });
    for (name, host) in [
        ("053_dns_over_tls", "dns.google:853"),
        ("053_doh", "dns.google:443"),
    ] {
        list.add(name, move |bench| {
            let place = Place::open(bench);
            let (host, port) = host.split_once(':').unwrap();
            for door in [Door::Connect, Door::Socks] {
                let outcome = place.attempt(door, host, port);
                assert!(outcome.is_denied(), "{door:?}: {outcome:?}");
            }
            place.silent();
        });
    }
    list.add("056_an_address_that_stands_for_no_name", |bench| {
        let place = Place::open(bench);
        for address in ["198.18.0.200", "198.19.255.255", "198.18.0.0", "127.0.0.1"] {
            let to = format!("{address}:443").parse().unwrap();
            if let Ok(stream) = place.dial(to) {
                let mut wire = Wire::new(stream);
                wire.send("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n");
                let outcome = crate::doors::answered(&mut wire);
                assert!(outcome.is_refused(), "{address}: {outcome:?}");
            }
        }
        place.silent();
    });
    list.add("056_the_address_of_one_name_used_for_another", |bench| {
        let place = Place::open(bench);
        // As a poisoned hosts file has it: the address is the name, whatever the program thinks.
        let mut wire = place.named("allowed.test", 80);
        wire.send("GET / HTTP/1.1\r\nHost: other.test\r\n\r\n");
        let outcome = crate::doors::answered(&mut wire);
        assert!(outcome.is_refused(), "{outcome:?}");
        let address = place.resolve("allowed.test").unwrap();
        let stream = place.dial(SocketAddr::new(address.into(), 443)).unwrap();
        let tls = Wire::new(stream).tls(place.trust(), "other.test", &[]);
        assert!(tls.is_err());
        assert!(place.reached().iter().all(|seen| seen.bytes.is_empty()));
    });
}

fn assert_unreachable(result: io::Result<()>) {
    let err = result.expect_err("there is a route");
    assert_eq!(err.kind(), io::ErrorKind::NetworkUnreachable, "{err}");
}

fn with_edns(mut message: Vec<u8>) -> Vec<u8> {
    message[11] = 1;
    message.extend([0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
    message
}
