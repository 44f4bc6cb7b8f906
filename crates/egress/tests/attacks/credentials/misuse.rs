//! 89 to 92, and 102: secrets where they do not belong, that come back, or that are gone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use namzu_testkit::network::Seen;
use namzu_types::{EgressCredential, EgressPolicy, ValueSource};

use super::{ask, reason, standin};
use crate::bench::{API_SECRET, GIT_SECRET, List, Place, usual};
use crate::doors::{Door, Outcome, answered};

pub(super) fn list(list: &mut List) {
    misused(list);
    echoed(list);
    missing(list);
}

fn misused(list: &mut List) {
    for host in ["inner.test", "api.test"] {
        for way in ["bearer", "basic", "cookie"] {
            list.add(
                format!("092_a_stand_in_for_{host}_as_{way}::intercepted"),
                move |bench| {
                    let place = Place::open(bench);
                    let standin = standin(&place);
                    let field = match way {
                        "bearer" => format!("Authorization: Bearer {standin}\r\n"),
                        "basic" => {
                            format!(
                                "Authorization: Basic {}\r\n",
                                STANDARD.encode(format!("x:{standin}"))
                            )
                        }
                        _ => format!("Cookie: a=b; t={standin}\r\n"),
                    };
                    let outcome = ask(&place, host, "GET /", &field);
                    assert_eq!(reason(&outcome), (403, "credential_misuse"));
                    for seen in place.reached() {
                        assert!(seen.bytes.is_empty(), "{seen:?}");
                    }
                },
            );
        }
    }
    list.add("092_a_stand_in_in_the_clear::absolute", |bench| {
        let place = Place::open(bench);
        let mut wire = place.proxy();
        wire.send(format!(
            "GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nX-Token: {}\r\n\r\n",
            standin(&place)
        ));
        let outcome = answered(&mut wire);
        assert_eq!(reason(&outcome), (403, "credential_misuse"));
        place.unreached();
    });
    list.add("092_a_stand_in_in_the_clear::named", |bench| {
        let place = Place::open(bench);
        let mut wire = place.named("allowed.test", 80);
        wire.send(format!(
            "GET / HTTP/1.1\r\nHost: allowed.test\r\nX-Token: {}\r\n\r\n",
            standin(&place)
        ));
        let outcome = answered(&mut wire);
        assert_eq!(reason(&outcome), (403, "credential_misuse"));
        place.unreached();
    });
    list.add("091_a_redirect_is_not_followed::intercepted", |bench| {
        let place = Place::open(bench);
        let outcome = ask(&place, "api.test", "GET /redirect", "");
        let Outcome::Http(reply) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(reply.status, 302);
        assert_eq!(reply.header("location"), Some("http://evil.test/stolen"));
        assert_eq!(place.zone.asked(), ["api.test"]);
        place.one();
    });
}

fn echoed(list: &mut List) {
    for door in [Door::Absolute, Door::Named, Door::Intercepted] {
        list.add(format!("089_trace::{}", door.name()), move |bench| {
            for method in ["TRACE", "TRACK"] {
                let place = Place::open(bench);
                let mut wire = match door {
                    Door::Named => place.named("allowed.test", 80),
                    Door::Intercepted => place.intercepted("api.test"),
                    _ => place.proxy(),
                };
                let (target, host) = match door {
                    Door::Absolute => ("http://allowed.test/", "allowed.test"),
                    Door::Named => ("/", "allowed.test"),
                    _ => ("/", "api.test"),
                };
                wire.send(format!(
                    "{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"
                ));
                let outcome = answered(&mut wire);
                assert_eq!(reason(&outcome).0, 405, "{method}");
                for seen in place.reached() {
                    assert!(seen.bytes.is_empty(), "{seen:?}");
                }
            }
        });
    }
    list.add(
        "090_an_echo_does_not_give_the_secret::intercepted",
        |bench| {
            let place = Place::open(bench);
            let mut wire = place.intercepted("api.test");
            wire.send("GET /echo HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: gzip\r\n\r\n");
            let reply = wire.reply().unwrap();
            assert_eq!(reply.status, 200);
            assert!(place.one().text().contains(API_SECRET), "it was sent");
            let shown = format!("{}{}", reply.head, reply.body);
            assert!(!shown.contains(API_SECRET), "{shown}");
            assert!(
                shown
                    .to_ascii_lowercase()
                    .contains("authorization: bearer ***"),
                "{shown}"
            );
        },
    );
    list.add(
        "090_an_echo_of_an_exchanged_secret_gives_the_stand_in::intercepted",
        |bench| {
            let place = Place::open(bench);
            let standin = standin(&place);
            let mut wire = place.intercepted("git.test");
            let basic = STANDARD.encode(format!("x:{standin}"));
            wire.send(format!(
                "GET /echo HTTP/1.1\r\nHost: git.test\r\nX-Token: {standin}\r\n\
             Authorization: Basic {basic}\r\n\r\n"
            ));
            let reply = wire.reply().unwrap();
            let shown = format!("{}{}", reply.head, reply.body);
            assert!(!shown.contains(GIT_SECRET), "{shown}");
            assert!(shown.contains(&standin), "{shown}");
            let secret = STANDARD.encode(format!("x:{GIT_SECRET}"));
            assert!(!shown.contains(&secret[4..secret.len() - 4]), "{shown}");
        },
    );
}

fn missing(list: &mut List) {
    list.add("102_a_secret_that_is_gone_denies::intercepted", |bench| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, API_SECRET).unwrap();
        let place = Place::with(bench, |_| {
            with_api(ValueSource::File(path.to_str().unwrap().to_owned()))
        });
        let outcome = ask(&place, "api.test", "GET /", "");
        assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
        std::fs::remove_file(&path).unwrap();
        // It is looked at once a second: until then the old one goes on being sent.
        let denied = loop {
            let outcome = ask(
                &place,
                "api.test",
                "GET /",
                "Authorization: Bearer mine\r\n",
            );
            if outcome.is_refused() {
                break outcome;
            }
        };
        assert_eq!(reason(&denied), (403, "credential_missing"));
        for seen in place.reached() {
            assert!(!seen.text().contains("mine"), "it passed without");
        }
        std::fs::write(&path, "rotated-secret").unwrap();
        while ask(&place, "api.test", "GET /", "").is_refused() {}
        let seen = place.reached();
        let rotated = |seen: &Seen| seen.text().contains("Bearer rotated-secret\r\n");
        assert!(seen.iter().any(rotated), "{seen:?}");
    });
    list.add("102_a_policy_with_a_broken_source_is_refused", |bench| {
        let refused = Place::try_with(bench, |_| {
            with_api(ValueSource::File("/nonexistent/token".to_owned()))
        });
        let Err(err) = refused else {
            panic!("it was admitted");
        };
        let text = format!("{err:?}");
        assert!(text.contains("/nonexistent/token"), "{text}");
    });
}

fn with_api(source: ValueSource) -> EgressPolicy {
    let mut policy = usual();
    if let EgressPolicy::Static { credentials, .. } = &mut policy {
        let header = "authorization".to_owned();
        let format = "Bearer {}".to_owned();
        let api = EgressCredential::Inject {
            source,
            header,
            format,
        };
        credentials.insert("api".to_owned(), api);
    }
    policy
}
