//! 116 and 117: policies that are asked for, and that change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use namzu_types::{Callback, EgressPolicy, EgressScheme, ValueSource};

use crate::bench::{List, Place, rule, rules};
use crate::doors::{Door, Outcome};
use crate::wire::{End, Wire};

pub(crate) fn list(list: &mut List) {
    nothing(list);
    resolvers(list);
    narrowing(list);
    methods(list);
}

/// What needs sockets that were made inside: over the channel, whoever serves holds the sandbox.
pub(crate) fn list_sockets(list: &mut List) {
    list.add(
        "117_a_sandbox_that_ends_takes_its_tunnels_with_it",
        |bench| {
            let place = Place::with(bench, |_| two());
            let mut wire = stream(&place, Door::Connect, "gone.test");
            let Place { egress, room, .. } = place;
            drop(egress);
            let (_, end) = wire.rest(Duration::from_secs(30));
            assert_ne!(end, End::Open);
            drop(room);
        },
    );
}

fn nothing(list: &mut List) {
    for door in [Door::Connect, Door::Socks, Door::Absolute, Door::Named] {
        list.add(
            format!("116_deny_all_lets_nothing_out::{}", door.name()),
            move |bench| {
                let place = Place::with(bench, |_| EgressPolicy::DenyAll);
                for host in ["allowed.test", "45.0.0.1", "localhost", "169.254.169.254"] {
                    let port = if door == Door::Absolute { "80" } else { "443" };
                    let outcome = place.attempt(door, host, port);
                    assert!(
                        outcome.is_denied() || outcome.is_malformed(),
                        "{host}: {outcome:?}"
                    );
                }
                place.silent();
            },
        );
    }
}

fn asked(
    answer: impl Fn(usize) -> Result<&'static str, &'static str> + Send + Sync + 'static,
) -> EgressPolicy {
    let count = AtomicUsize::new(0);
    EgressPolicy::Resolver {
        resolve: ValueSource::Callback(Callback::new(move || {
            let answer = answer(count.fetch_add(1, Ordering::SeqCst));
            async move { answer.map(str::to_owned).map_err(Into::into) }
        })),
    }
}

fn resolvers(list: &mut List) {
    for door in [Door::Connect, Door::Socks, Door::Absolute, Door::Named] {
        let port = if door == Door::Absolute { "80" } else { "443" };
        list.add(
            format!("control::a_resolvers_hosts_pass::{}", door.name()),
            move |bench| {
                let place = Place::with(bench, |_| asked(|_| Ok("allowed.test\n*.wild.test\n")));
                let outcome = place.attempt(door, "allowed.test", port);
                assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
                let outcome = place.attempt(door, "evil.test", port);
                assert!(outcome.is_denied(), "{outcome:?}");
            },
        );
        list.add(
            format!("116_a_resolver_that_fails_denies::{}", door.name()),
            move |bench| {
                let Ok(place) = Place::try_with(bench, |_| asked(|_| Err("no answer"))) else {
                    return;
                };
                let outcome = place.attempt(door, "allowed.test", port);
                assert!(outcome.is_refused(), "{outcome:?}");
                place.silent();
            },
        );
        list.add(
            format!("116_a_resolver_that_hangs_denies::{}", door.name()),
            move |bench| {
                let policy = EgressPolicy::Resolver {
                    resolve: ValueSource::Callback(Callback::new(std::future::pending)),
                };
                let Ok(place) = Place::try_with(bench, |_| policy) else {
                    return;
                };
                let outcome = place.attempt(door, "allowed.test", port);
                assert!(outcome.is_refused(), "{outcome:?}");
                place.silent();
            },
        );
        list.add(
            format!("116_a_resolver_that_panics_denies::{}", door.name()),
            move |bench| {
                let policy = asked(|_| panic!("a resolver that panics"));
                let Ok(place) = Place::try_with(bench, |_| policy) else {
                    return;
                };
                let outcome = place.attempt(door, "allowed.test", port);
                assert!(outcome.is_refused(), "{outcome:?}");
                place.silent();
            },
        );
        list.add(
            format!(
                "116_a_resolver_that_answers_too_broadly_denies::{}",
                door.name()
            ),
            move |bench| {
                for answer in [
                    "*",
                    "*.com\nallowed.test",
                    "allowed.test\nhttp://x/",
                    "0.0.0.0/0",
                ] {
                    let Ok(place) = Place::try_with(bench, |_| asked(move |_| Ok(answer))) else {
                        continue;
                    };
                    let outcome = place.attempt(door, "evil.test", port);
                    assert!(outcome.is_refused(), "{answer}: {outcome:?}");
                    place.silent();
                }
            },
        );
    }
}

/// A rule goes away while bytes flow.
fn narrowing(list: &mut List) {
    for door in [Door::Connect, Door::Socks, Door::Named] {
        list.add(
            format!("117_a_tunnel_ends_when_its_rule_goes::{}", door.name()),
            move |bench| {
                let place = Place::with(bench, |_| two());
                let mut gone = stream(&place, door, "gone.test");
                let mut stays = stream(&place, door, "stays.test");
                let only = rules(vec![tcp("stays.test")]);
                let change = bench
                    .runtime
                    .block_on(place.egress.set_policy(&only))
                    .unwrap();
                assert_eq!((change.generation, change.kept, change.cut), (2, 1, 1));
                let (_, end) = gone.rest(Duration::from_secs(30));
                assert_ne!(end, End::Open, "it lives on");
                stays.send("still\n");
                assert_eq!(stays.until(b"\n").unwrap(), b"still\n");
                let outcome = place.attempt(door, "gone.test", "5432");
                assert!(outcome.is_denied(), "{outcome:?}");
            },
        );
        list.add(
            format!("117_a_wider_policy_ends_nothing::{}", door.name()),
            move |bench| {
                let place = Place::with(bench, |_| rules(vec![tcp("stays.test")]));
                let mut stays = stream(&place, door, "stays.test");
                let change = bench
                    .runtime
                    .block_on(place.egress.set_policy(&two()))
                    .unwrap();
                assert_eq!((change.kept, change.cut), (1, 0));
                stays.send("still\n");
                assert_eq!(stays.until(b"\n").unwrap(), b"still\n");
            },
        );
    }
    list.add(
        "117_a_keep_alive_connection_is_judged_anew::absolute",
        |bench| {
            let place = Place::open(bench);
            let request = "GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n";
            judged_anew(&place, place.proxy(), request);
        },
    );
    list.add(
        "117_a_connection_in_tls_is_judged_anew::intercepted",
        |bench| {
            let place = Place::open(bench);
            let request = "GET / HTTP/1.1\r\nHost: inner.test\r\n\r\n";
            judged_anew(&place, place.intercepted("inner.test"), request);
        },
    );
    list.add("117_a_policy_that_is_refused_changes_nothing", |bench| {
        let place = Place::open(bench);
        let bad = EgressPolicy::hosts(["*"]);
        assert!(
            bench
                .runtime
                .block_on(place.egress.set_policy(&bad))
                .is_err()
        );
        let outcome = place.attempt(Door::Connect, "allowed.test", "443");
        assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
        let outcome = place.attempt(Door::Connect, "evil.test", "443");
        assert!(outcome.is_denied(), "{outcome:?}");
    });
    list.add(
        "117_while_policies_change_no_flow_of_a_denied_host_passes",
        |bench| {
            let place = Arc::new(Place::with(bench, |_| rules(vec![tcp("stays.test")])));
            let done = Arc::new(AtomicBool::new(false));
            let trying = {
                let (place, done) = (Arc::clone(&place), Arc::clone(&done));
                std::thread::spawn(move || {
                    while !done.load(Ordering::SeqCst) {
                        let outcome = place.attempt(Door::Connect, "evil.test", "5432");
                        assert!(outcome.is_denied(), "{outcome:?}");
                    }
                })
            };
            for at in 0..50 {
                let policy = if at % 2 == 0 {
                    two()
                } else {
                    rules(vec![tcp("stays.test")])
                };
                bench
                    .runtime
                    .block_on(place.egress.set_policy(&policy))
                    .unwrap();
            }
            done.store(true, Ordering::SeqCst);
            trying.join().unwrap();
            place.silent();
        },
    );
}

/// A request that was allowed on a connection is not, once the policy has changed.
fn judged_anew(place: &Place, mut wire: Wire, request: &str) {
    wire.send(request);
    assert_eq!(wire.reply().unwrap().status, 200);
    let only = EgressPolicy::hosts(["other.test"]);
    let changed = place.egress.set_policy(&only);
    place.bench.runtime.block_on(changed).unwrap();
    wire.send(request);
    let refused = wire.reply().map_or(true, |reply| reply.status == 403);
    assert!(refused);
    assert_eq!(place.one().text().matches("GET ").count(), 1);
}

fn tcp(host: &str) -> namzu_types::EgressRule {
    let mut rule = rule(host);
    rule.scheme = EgressScheme::Tcp;
    rule.ports = vec![5432];
    rule
}

fn two() -> EgressPolicy {
    rules(vec![tcp("stays.test"), tcp("gone.test")])
}

/// A tunnel through which bytes flow.
fn stream(place: &Place, door: Door, host: &str) -> Wire {
    let mut wire = match door {
        Door::Socks => {
            let mut wire = place.proxy();
            let target = crate::doors::Target::Domain(host.as_bytes().to_vec());
            assert_eq!(crate::doors::socks(&mut wire, &target, 5432).unwrap(), 0);
            wire
        }
        Door::Named => place.named(host, 5432),
        _ => place.tunnel(host, 5432),
    };
    wire.send("ping\n");
    assert_eq!(wire.until(b"\n").unwrap(), b"ping\n");
    wire
}

/// Rules that say what may be asked for.
fn methods(list: &mut List) {
    for (name, line, reason) in [
        ("another_method", "POST /public/a", "method_not_listed"),
        (
            "a_method_in_lower_case",
            "get /public/a",
            "method_not_listed",
        ),
        ("another_path", "GET /private/a", "path_not_listed"),
        (
            "a_path_that_begins_alike",
            "GET /publicity",
            "path_not_listed",
        ),
        (
            "a_path_that_climbs",
            "GET /public/../private/a",
            "path_not_listed",
        ),
        (
            "an_encoded_path_that_climbs",
            "GET /public/%2e%2e/private/a",
            "path_not_listed",
        ),
        (
            "an_encoded_slash",
            "GET /public/..%2Fprivate/a",
            "path_not_listed",
        ),
        (
            "a_backslash",
            "GET /public/..\\private/a",
            "path_not_listed",
        ),
    ] {
        list.add(format!("097_{name}::intercepted"), move |bench| {
            let place = Place::open(bench);
            let mut wire = place.intercepted("read.test");
            wire.send(format!("{line} HTTP/1.1\r\nHost: read.test\r\n\r\n"));
            let reply = wire.reply().unwrap();
            assert!(matches!(reply.status, 400 | 403), "{}", reply.head);
            if reply.status == 403 {
                assert_eq!(reply.reason(), reason);
            }
            for seen in place.reached() {
                assert!(seen.bytes.is_empty(), "{seen:?}");
            }
        });
    }
    list.add(
        "control::an_allowed_method_and_path_pass::intercepted",
        |bench| {
            let place = Place::open(bench);
            let mut wire = place.intercepted("read.test");
            wire.send("GET /public/a?q=../x HTTP/1.1\r\nHost: read.test\r\n\r\n");
            assert_eq!(wire.reply().unwrap().status, 200);
            let seen = place.one();
            assert!(
                seen.text().starts_with("GET /public/a?q=../x HTTP/1.1\r\n"),
                "{}",
                seen.text()
            );
        },
    );
}
