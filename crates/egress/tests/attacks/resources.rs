//! 103 to 108, 118 and 119: time, memory and descriptors.

use std::net::Shutdown;
use std::time::Duration;

use namzu_types::{EgressLimits, EgressPolicy, EgressScheme};

use crate::bench::{Bench, List, Place, rule, rules, strings};
use crate::doors::{Door, Outcome};
use crate::wire::{End, Wire};

/// More than any deadline of the boundary for somebody who stalls.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn list(list: &mut List) {
    slow(list);
    many(list);
    ends(list);
}

fn slow(list: &mut List) {
    for (name, bytes) in [
        ("nothing", &b""[..]),
        (
            "half_a_head",
            b"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed",
        ),
        ("half_a_connect", b"CONNECT allowed.test:443 HT"),
        ("half_a_greeting_of_socks", b"\x05\x02\0"),
        (
            "half_a_request_of_socks",
            b"\x05\x01\0\x05\x01\0\x03\x20allowed",
        ),
    ] {
        list.add(format!("103_{name}_is_not_waited_for"), move |bench| {
            let place = Place::open(bench);
            let mut wire = place.proxy();
            wire.send(bytes);
            let (_, end) = wire.rest(PATIENCE);
            assert_ne!(end, End::Open);
            place.silent();
        });
    }
    for door in [Door::Connect, Door::Named] {
        list.add(
            format!("103_half_a_hello_is_not_waited_for::{}", door.name()),
            move |bench| {
                let place = Place::open(bench);
                let mut wire = crate::binding::tls::opened(&place, door, "allowed.test");
                wire.send(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03");
                let (_, end) = wire.rest(PATIENCE);
                assert_ne!(end, End::Open);
                place.unreached();
            },
        );
    }
    list.add("103_a_hello_that_never_ends", |bench| {
        let place = Place::open(bench);
        let mut wire = place.tunnel("allowed.test", 443);
        let record = [
            &b"\x16\x03\x01\x40\0"[..],
            &[1, 0xff, 0xff, 0xff],
            &[0; 16380],
        ]
        .concat();
        for _ in 0..64 {
            wire.send(&record);
        }
        let (_, end) = wire.rest(PATIENCE);
        assert_ne!(end, End::Open);
        place.unreached();
    });
    list.add(
        "103_a_name_that_does_not_resolve_is_not_waited_for",
        |bench| {
            let place = Place::open(bench);
            let silence = namzu_testkit::network::Record::Silence;
            place.zone.set("allowed.test", silence);
            let outcome = place.attempt(Door::Connect, "allowed.test", "443");
            // A tunnel is opened before it is known what will be spoken in it.
            assert!(outcome.is_refused(), "{outcome:?}");
            place.unreached();
        },
    );
}

fn limited(limits: EgressLimits) -> EgressPolicy {
    EgressPolicy::Static {
        allowed_hosts: strings(&["allowed.test"]),
        rules: Vec::new(),
        denied_hosts: Vec::new(),
        credentials: std::collections::BTreeMap::new(),
        limits,
    }
}

fn many(list: &mut List) {
    list.add("106_one_sandbox_does_not_take_the_others_flows", |bench| {
        let limits = EgressLimits {
            flows: Some(10),
            flows_per_second: Some(10_000),
            ..EgressLimits::default()
        };
        let greedy = Place::with(bench, |_| limited(limits));
        let other = Place::open(bench);
        let held: Vec<(Wire, u16)> = (0..50)
            .map(|_| {
                let mut wire = greedy.proxy();
                wire.send("CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n");
                let status = wire.head().map_or(0, |reply| reply.status);
                (wire, status)
            })
            .collect();
        let passed = held.iter().filter(|(_, status)| *status == 200).count();
        assert_eq!(passed, 10);
        assert!(
            held.iter()
                .all(|(_, status)| matches!(status, 0 | 200 | 429 | 503))
        );
        let outcome = other.attempt(Door::Connect, "allowed.test", "443");
        assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
        drop(held);
    });
    list.add("106_a_thousand_connections_that_say_nothing", |bench| {
        let greedy = Place::open(bench);
        let other = Place::open(bench);
        let held: Vec<Wire> = (0..1000).map(|_| greedy.proxy()).collect();
        let outcome = other.attempt(Door::Connect, "allowed.test", "443");
        assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
        drop(held);
        greedy.silent();
    });
    list.add("106_new_flows_have_a_rate", |bench| {
        let limits = EgressLimits {
            flows: Some(10_000),
            flows_per_second: Some(5),
            ..EgressLimits::default()
        };
        let place = Place::with(bench, |_| limited(limits));
        let mut refused = 0;
        let mut held = Vec::new();
        for _ in 0..200 {
            let mut wire = place.proxy();
            wire.send("CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n");
            if wire.head().is_ok_and(|reply| reply.status == 429) {
                refused += 1;
            }
            held.push(wire);
        }
        assert!(refused > 0);
    });
    list.add("106_a_quota_of_bytes_ends_a_tunnel", |bench| {
        let limits = EgressLimits {
            bytes_up: Some(100_000),
            ..EgressLimits::default()
        };
        let place = Place::with(bench, |_| {
            let mut raw = rule("db.test");
            raw.scheme = EgressScheme::Tcp;
            raw.ports = vec![5432];
            let mut policy = rules(vec![raw]);
            if let EgressPolicy::Static { limits: of, .. } = &mut policy {
                *of = limits;
            }
            policy
        });
        let mut wire = place.tunnel("db.test", 5432);
        let socket = wire.socket().try_clone().unwrap();
        let sending = std::thread::spawn(move || {
            use std::io::Write;
            let mut socket = socket;
            let chunk = [b'x'; 10_000];
            // Until the boundary has had enough, or far beyond that.
            (0..1000)
                .take_while(|_| socket.write_all(&chunk).is_ok())
                .count()
        });
        let (_, end) = wire.rest(PATIENCE);
        assert_ne!(end, End::Open);
        assert!(sending.join().unwrap() < 1000);
        let received = place.one().bytes.len();
        // What one reading takes beyond the quota at most.
        assert!(received < 100_000 + (1 << 20), "{received}");
    });
}

fn ends(list: &mut List) {
    list.add("118_each_direction_ends_by_itself", |bench| {
        let place = raw(bench);
        let mut wire = place.tunnel("db.test", 5432);
        let message = vec![b'x'; 300_000];
        let socket = wire.socket().try_clone().unwrap();
        let sending = {
            let message = message.clone();
            std::thread::spawn(move || {
                use std::io::Write;
                let mut socket = socket;
                socket.write_all(&message).unwrap();
                socket.shutdown(Shutdown::Write).unwrap();
            })
        };
        // The server sends all of it back, and ends when it has seen the end.
        let (echoed, end) = wire.rest(PATIENCE);
        sending.join().unwrap();
        assert_eq!(end, End::Closed);
        assert_eq!(echoed, message);
    });
    list.add_alone("119_resets_leak_nothing", |bench| {
        let place = raw(bench);
        let warm = |count: usize| {
            for at in 0..count {
                let mut wire = place.tunnel("db.test", 5432);
                wire.send(vec![b'x'; 100_000]);
                if at % 2 == 0 {
                    // Ended with bytes that were not read: the kernel resets it.
                    wire.exactly(1000).unwrap();
                }
                drop(wire);
            }
        };
        warm(20);
        // Those of the tests before are closed one after another.
        let before = settled(200);
        warm(400);
        let after = settled(before + 20);
        assert!(after <= before + 20, "{before} descriptors became {after}");
    });
}

fn raw(bench: &std::sync::Arc<Bench>) -> Place {
    Place::with(bench, |_| {
        let mut raw = rule("db.test");
        raw.scheme = EgressScheme::Tcp;
        raw.ports = vec![5432];
        let mut policy = rules(vec![raw]);
        if let EgressPolicy::Static { limits, .. } = &mut policy {
            limits.flows_per_second = Some(100_000);
        }
        policy
    })
}

/// How many descriptors are open, once they are no more than `few`, or will not be.
fn settled(few: usize) -> usize {
    let count = || std::fs::read_dir("/proc/self/fd").map_or(usize::MAX, Iterator::count);
    let deadline = std::time::Instant::now() + PATIENCE;
    while count() > few && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    count()
}
