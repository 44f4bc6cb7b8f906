//! 79, and 89 to 102: secrets.

mod misuse;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use namzu_types::{EgressPolicy, EgressScheme};

use crate::bench::{API_SECRET, GIT_ENV, GIT_SECRET, List, Place, rule, usual};
use crate::doors::{Door, Outcome, answered};

/// The stand-in that programs inside hold.
fn standin(place: &Place) -> String {
    place.egress.wiring().env[GIT_ENV].clone()
}

/// Sends a request within TLS that the boundary ends.
fn ask(place: &Place, host: &str, line: &str, fields: &str) -> Outcome {
    let mut wire = place.intercepted(host);
    wire.send(format!("{line} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
    answered(&mut wire)
}

fn reason(outcome: &Outcome) -> (u16, &str) {
    match outcome {
        Outcome::Http(reply) => (reply.status, reply.reason()),
        other => panic!("{other:?}"),
    }
}

/// No server got either secret.
fn no_secret_went_out(place: &Place) {
    for seen in place.reached() {
        let text = seen.text();
        assert!(
            !text.contains(API_SECRET) && !text.contains(GIT_SECRET),
            "{seen:?}"
        );
    }
}

pub(crate) fn list(list: &mut List) {
    injected(list);
    exchanged(list);
    misuse::list(list);
}

fn injected(list: &mut List) {
    list.add("control::a_secret_is_injected::intercepted", |bench| {
        let place = Place::open(bench);
        let outcome = ask(&place, "api.test", "GET /", "");
        assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
        let text = place.one().text().to_ascii_lowercase();
        assert!(
            text.contains(&format!("authorization: bearer {API_SECRET}\r\n")),
            "{text}"
        );
    });
    list.add(
        "094_the_header_comes_from_inside_too::intercepted",
        |bench| {
            let place = Place::open(bench);
            let fields = "Authorization: Bearer mine\r\nAUTHORIZATION: Basic bWluZQ==\r\n\
                      X-Kept: yes\r\n";
            let outcome = ask(&place, "api.test", "GET /", fields);
            assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
            let text = place.one().text().to_ascii_lowercase();
            assert_eq!(text.matches("authorization").count(), 1, "{text}");
            assert!(!text.contains("mine") && !text.contains("bwluzq"), "{text}");
        },
    );
    list.add("094_connection_names_the_header::intercepted", |bench| {
        let place = Place::open(bench);
        let fields = "Connection: close, Authorization\r\n";
        let outcome = ask(&place, "api.test", "GET /", fields);
        assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
        let text = place.one().text();
        assert!(text.contains(API_SECRET), "{text}");
    });
    for (name, host) in [
        ("079_another_tenant", "evil.test"),
        ("079_another_host", "allowed.test"),
    ] {
        list.add(
            format!("{name}_does_not_get_the_secret::intercepted"),
            move |bench| {
                let place = Place::open(bench);
                let mut wire = place.intercepted("api.test");
                wire.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
                assert_eq!(wire.reply().unwrap().status, 421);
                no_secret_went_out(&place);
            },
        );
    }
    list.add(
        "079_an_absolute_target_does_not_get_the_secret::intercepted",
        |bench| {
            let place = Place::open(bench);
            for target in [
                "https://evil.test/",
                "http://api.test/",
                "https://allowed.test/",
            ] {
                let mut wire = place.intercepted("api.test");
                wire.send(format!("GET {target} HTTP/1.1\r\nHost: api.test\r\n\r\n"));
                assert!(answered(&mut wire).is_refused(), "{target}");
            }
            no_secret_went_out(&place);
        },
    );
    list.add("096_no_secret_in_the_clear", |bench| {
        let place = Place::open(bench);
        for door in [Door::Absolute, Door::Connect, Door::Socks, Door::Named] {
            let outcome = place.attempt(door, "api.test", "80");
            assert!(outcome.is_refused(), "{door:?}: {outcome:?}");
        }
        place.unreached();
    });
    list.add("096_a_rule_for_a_secret_in_the_clear_is_refused", |bench| {
        let refused = Place::try_with(bench, |_| {
            let mut policy = usual();
            if let EgressPolicy::Static { rules, .. } = &mut policy {
                let mut clear = rule("clear.test");
                clear.scheme = EgressScheme::Http;
                clear.credential = Some("api".to_owned());
                rules.push(clear);
            }
            policy
        });
        assert!(refused.is_err());
    });
    list.add("096_no_secret_on_another_port", |bench| {
        let place = Place::open(bench);
        for door in [Door::Connect, Door::Socks] {
            let outcome = place.attempt(door, "api.test", "8443");
            assert!(outcome.is_denied(), "{door:?}: {outcome:?}");
        }
        place.unreached();
    });
    list.add(
        "096_no_secret_for_another_rule_of_the_host::intercepted",
        |bench| {
            let place = Place::with(bench, |_| {
                let mut policy = usual();
                if let EgressPolicy::Static { rules, .. } = &mut policy {
                    for rule in rules.iter_mut().filter(|rule| rule.host == "api.test") {
                        rule.paths = vec!["/v1/".to_owned()];
                        rule.methods = vec!["GET".to_owned()];
                    }
                    let mut open = rule("api.test");
                    open.tls = namzu_types::EgressTls::Terminate;
                    open.paths = vec!["/open/".to_owned()];
                    rules.push(open);
                }
                policy
            });
            let outcome = ask(&place, "api.test", "GET /v1/a", "");
            assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
            let outcome = ask(&place, "api.test", "GET /open/a", "");
            assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
            for line in [
                "GET /v2/a",
                "POST /v1/a",
                "GET /v1/../v2/a",
                "GET /v1/%2e%2e/v2/a",
                "GET /v1/..%2fv2/a",
                "GET /v1//../../v2",
                "GET /v1",
                "GET /V1/a",
            ] {
                let outcome = ask(&place, "api.test", line, "");
                assert!(outcome.is_refused(), "{line}: {outcome:?}");
            }
            let text: Vec<String> = place.reached().iter().map(|seen| seen.text()).collect();
            for seen in text.iter().filter(|text| text.contains("/open/")) {
                assert!(
                    !seen
                        .split("GET /open/")
                        .nth(1)
                        .unwrap()
                        .contains(API_SECRET),
                    "{seen}"
                );
            }
            let all = text.concat();
            assert!(!all.contains("/v2") && !all.contains("POST"), "{all}");
        },
    );
    for (name, host) in [
        (
            "086_a_server_with_a_certificate_for_another",
            "a.wrong-name.test",
        ),
        (
            "086_a_server_that_nobody_vouches_for",
            "a.wrong-authority.test",
        ),
    ] {
        list.add(
            format!("{name}_gets_no_secret::intercepted"),
            move |bench| {
                let place = Place::with(bench, |_| {
                    let mut policy = usual();
                    if let EgressPolicy::Static { rules, .. } = &mut policy {
                        let mut wrong = rule(host);
                        wrong.credential = Some("api".to_owned());
                        rules.push(wrong);
                    }
                    policy
                });
                let wire = place.tunnel(host, 443);
                if let Ok(mut wire) = wire.tls(place.trust(), host, &["http/1.1"]) {
                    wire.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
                    let outcome = answered(&mut wire);
                    let (status, reason) = reason(&outcome);
                    assert_eq!((status, reason), (502, "upstream_tls"));
                }
                for seen in place.reached() {
                    assert!(seen.bytes.is_empty(), "{seen:?}");
                }
            },
        );
    }
}

fn exchanged(list: &mut List) {
    list.add("control::a_stand_in_is_exchanged::intercepted", |bench| {
        let place = Place::open(bench);
        let standin = standin(&place);
        let basic = STANDARD.encode(format!("x:{standin}"));
        let fields = format!("Authorization: Basic {basic}\r\nX-Token: {standin}\r\n");
        let outcome = ask(&place, "git.test", "GET /", &fields);
        assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
        let text = place.one().text();
        assert!(
            text.contains(&STANDARD.encode(format!("x:{GIT_SECRET}"))),
            "{text}"
        );
        assert!(
            text.contains(GIT_SECRET) && !text.contains(&standin),
            "{text}"
        );
    });
    list.add("095_the_secret_is_nowhere_inside", |bench| {
        let place = Place::open(bench);
        let wiring = place.egress.wiring();
        for value in wiring.env.values() {
            assert!(!value.contains(GIT_SECRET) && !value.contains(API_SECRET));
        }
        for file in &wiring.files {
            let text = String::from_utf8_lossy(&file.contents);
            assert!(
                !text.contains(GIT_SECRET) && !text.contains(API_SECRET),
                "{}",
                file.path
            );
        }
        assert!(standin(&place).starts_with("namzu_"));
    });
    list.add(
        "095_a_stand_in_of_another_sandbox_is_worth_nothing::intercepted",
        |bench| {
            let (place, other) = (Place::open(bench), Place::open(bench));
            assert_ne!(standin(&place), standin(&other));
            let fields = format!("X-Token: {}\r\n", standin(&other));
            let _ = ask(&place, "git.test", "GET /", &fields);
            no_secret_went_out(&place);
        },
    );
}
