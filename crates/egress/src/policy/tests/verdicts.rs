//! Which rule decides, why, and what it says of the connection.

use serde_json::{Value, json};

use crate::policy::testing::{ask, ask_for, snapshot};
use crate::policy::{Question, Schemes, Snapshot, decide};
use crate::{Host, Reason, Scheme};

fn rules(rules: &Value) -> Snapshot {
    let credential = json!({"mode": "inject", "source": {"env": "T"}, "header": "authorization"});
    let mut document = json!({"rules": rules.clone()});
    for rule in document["rules"].clone().as_array().unwrap() {
        if let Some(name) = rule["credential"].as_str() {
            document["credentials"][name] = credential.clone();
        }
    }
    snapshot(document)
}

/// The reason, and the rule that decides.
fn get(snapshot: &Snapshot, method: &str, path: &str) -> (Reason, String) {
    let verdict = ask_for(
        snapshot,
        "api.test",
        443,
        Scheme::Https,
        Some((method, path)),
    );
    let rule = verdict.rule.map(|rule| rule.id.to_string());
    (verdict.reason, rule.unwrap_or_default())
}

#[test]
fn a_plain_host_means_https_and_http() {
    let listed = snapshot(json!({"allowedHosts": ["a.test"]}));
    let https = ask(&listed, "a.test", 443);
    assert_eq!(https.schemes, Schemes::NONE.with(Scheme::Https));
    assert!(!https.terminate);
    assert_eq!(
        ask(&listed, "a.test", 80).schemes,
        Schemes::NONE.with(Scheme::Http)
    );
    let mixed = ask_for(&listed, "a.test", 80, Scheme::Https, None);
    assert_eq!(mixed.reason, Reason::SchemeNotListed);
    assert_eq!(listed.ports(), [80, 443]);
    assert_eq!(https.rule.unwrap().id.as_ref(), "allowedHosts[0]");
}

#[test]
fn a_look_up_of_a_name_asks_about_any_port() {
    let listed = rules(&json!([{"host": "a.test", "scheme": "tcp", "ports": [22, 5432]}]));
    for (name, reason) in [("a.test", Reason::Allowed), ("b.test", Reason::NotListed)] {
        let host = Host::parse(name).unwrap();
        let question = Question {
            host: &host,
            port: None,
            scheme: None,
            request: None,
        };
        assert_eq!(decide(&listed, &question).reason, reason);
    }
    assert_eq!(listed.ports(), [22, 5432]);
}

#[test]
fn what_is_denied_is_denied_whatever_allows_it() {
    let listed = snapshot(json!({
        "allowedHosts": ["*.a.test", "bad.a.test", "93.184.216.0/24"],
        "deniedHosts": ["bad.a.test", "**.worse.a.test", "93.184.216.34"],
    }));
    for (host, reason) in [
        ("good.a.test", Reason::Allowed),
        ("bad.a.test", Reason::DeniedHost),
        ("x.bad.a.test", Reason::Allowed),
        ("worse.a.test", Reason::DeniedHost),
        ("x.y.worse.a.test", Reason::DeniedHost),
        ("93.184.216.33", Reason::Allowed),
        ("93.184.216.34", Reason::DeniedHost),
    ] {
        assert_eq!(ask(&listed, host, 443).reason, reason, "{host}");
    }
    let rule = ask(&listed, "bad.a.test", 443).rule.unwrap();
    assert_eq!(rule.id.as_ref(), "deniedHosts[0]");
    let operator = ["2001:db8:64::/96".parse().unwrap()];
    let denies = |address: &str| listed.denies_address(address.parse().unwrap(), &operator);
    assert!(denies("93.184.216.34"));
    assert!(denies("::ffff:93.184.216.34"));
    assert!(denies("64:ff9b::93.184.216.34"));
    assert!(
        denies("2001:db8:64::93.184.216.34"),
        "the operator's prefix"
    );
    assert!(!denies("2001:db8:65::93.184.216.34"), "a prefix of nobody");
    assert!(!denies("93.184.216.33"));
}

#[test]
fn the_closest_rule_that_allows_decides() {
    let listed = rules(&json!([
        {"host": "**.test.example"},
        {"host": "*.b.test.example"},
        {"host": "**.b.test.example"},
        {"host": "b.test.example"},
    ]));
    for (host, rule) in [
        ("test.example", "rules[0]"),
        ("a.test.example", "rules[0]"),
        ("b.test.example", "rules[3]"),
        ("a.b.test.example", "rules[1]"),
    ] {
        assert_eq!(
            ask(&listed, host, 443).rule.unwrap().id.as_ref(),
            rule,
            "{host}"
        );
    }
}

#[test]
fn a_longer_prefix_is_the_closer_range() {
    let listed = rules(
        &json!([{"host": "93.0.0.0/8"}, {"host": "93.184.216.34"}, {"host": "93.184.0.0/16"}]),
    );
    for (host, rule) in [
        ("93.184.216.34", "rules[1]"),
        ("93.184.1.1", "rules[2]"),
        ("93.1.1.1", "rules[0]"),
    ] {
        assert_eq!(
            ask(&listed, host, 443).rule.unwrap().id.as_ref(),
            rule,
            "{host}"
        );
    }
}

#[test]
fn a_request_passes_if_any_rule_lets_it() {
    let listed = rules(&json!([
        {"host": "api.test", "methods": ["GET"]},
        {"host": "api.test", "paths": ["/upload"]},
        {"host": "**.api.test", "methods": ["PUT"], "paths": ["/wide"]},
    ]));
    let allowed = |rule: &str| (Reason::Allowed, rule.to_owned());
    assert_eq!(get(&listed, "GET", "/any"), allowed("rules[0]"));
    assert_eq!(get(&listed, "POST", "/upload/x"), allowed("rules[1]"));
    assert_eq!(get(&listed, "PUT", "/wide"), allowed("rules[2]"));
    assert_eq!(get(&listed, "POST", "/any").0, Reason::PathNotListed);
    let only = rules(&json!([{"host": "api.test", "methods": ["GET"]}]));
    assert_eq!(
        get(&only, "POST", "/any"),
        (Reason::MethodNotListed, "rules[0]".into())
    );
    assert_eq!(get(&only, "get", "/any").0, Reason::MethodNotListed);
    assert_eq!(get(&only, "HEAD", "/any").0, Reason::MethodNotListed);
}

#[test]
fn the_credential_is_that_of_the_closest_rule_that_allows() {
    let listed = rules(&json!([
        {"host": "*.x.test", "credential": "wide"},
        {"host": "api.x.test", "paths": ["/v1"], "credential": "one"},
        {"host": "api.x.test", "paths": ["/v1/admin"], "credential": "two"},
        {"host": "api.x.test", "paths": ["/v1/public"]},
    ]));
    for (path, credential) in [
        ("/other", Some("wide")),
        ("/v1/a", Some("one")),
        ("/v1/admin/b", Some("two")),
        ("/v1/public", None),
    ] {
        let verdict = ask_for(
            &listed,
            "api.x.test",
            443,
            Scheme::Https,
            Some(("GET", path)),
        );
        let rule = verdict.rule.unwrap();
        assert_eq!(rule.credential.as_deref(), credential, "{path}");
    }
}

#[test]
fn a_rule_with_a_credential_beats_a_plain_one_for_the_same_host() {
    let listed = snapshot(json!({
        "allowedHosts": ["api.test"],
        "rules": [{"host": "api.test", "credential": "key"}],
        "credentials": {"key": {"mode": "sentinel", "source": {"env": "T"}, "env": "API_KEY"}},
    }));
    assert_eq!(get(&listed, "GET", "/").1, "rules[0]");
    assert!(ask(&listed, "api.test", 443).terminate);
    assert!(listed.terminates());
    let plain = ask_for(&listed, "api.test", 80, Scheme::Http, Some(("GET", "/")));
    assert_eq!(plain.rule.unwrap().credential, None);
}

#[test]
fn row_89_trace_and_connect_are_never_forwarded() {
    let listed = snapshot(json!({"allowedHosts": ["api.test"]}));
    let all = Snapshot::compile(&namzu_types::EgressPolicy::AllowAll, 1).unwrap();
    for method in ["TRACE", "trace", "TRACK", "Track", "CONNECT"] {
        assert_eq!(get(&listed, method, "/").0, Reason::TraceRefused);
        assert_eq!(get(&all, method, "/").0, Reason::TraceRefused);
    }
}

#[test]
fn a_path_prefix_ends_at_a_segment() {
    let listed = rules(&json!([{"host": "api.test", "paths": ["/v1", "/files/"]}]));
    for path in [
        "/v1",
        "/v1/",
        "/v1/a",
        "/files/",
        "/files/a",
        "/v1/%41",
        "/v1/a;b=c",
        "/v1/...",
    ] {
        assert_eq!(get(&listed, "GET", path).0, Reason::Allowed, "{path}");
    }
    for path in [
        "/v10", "/v1;x", "/", "/files", "/V1", "/a/v1", "v1", "*", "", "/%761",
    ] {
        assert_eq!(get(&listed, "GET", path).0, Reason::PathNotListed, "{path}");
    }
}

#[test]
fn a_path_that_servers_read_differently_satisfies_no_restricted_rule() {
    let listed = rules(&json!([{"host": "api.test", "paths": ["/"]}]));
    for path in [
        "/v1/../admin",
        "/..",
        "/.",
        "/v1/./a",
        "/v1//a",
        "//",
        "/v1/%2e%2e/a",
        "/v1/%2E./a",
        "/v1%2fadmin",
        "/v1/%5c..",
        "/v1\\a",
        "/v1/..;/a",
        "/v1/.;x/a",
        "/v1/..%3bx/a",
        "/v1/..%3B/a",
        "/v1/..%20/a",
        "/%252e%252e/",
        "/%00",
        "/%0a",
        "/%",
        "/%4",
        "/%zz",
        "/a b",
        "/é",
        "/%c0%ae",
        "/v1/%e0%80%ae%E0%80%AE/a",
        "/v1%e0%80%afadmin",
        "/v1%f0%80%80%afadmin",
        "/a?b",
        "/a#b",
        "/%+1",
    ] {
        assert_eq!(get(&listed, "GET", path).0, Reason::PathNotListed, "{path}");
    }
    for path in [
        "/.git/config",
        "/a..b/...c",
        "/a%20b",
        "/%e0%b8%81",
        "/%f0%9f%98%80",
        "/a;v=1/b",
    ] {
        assert_eq!(get(&listed, "GET", path).0, Reason::Allowed, "{path}");
    }
    let open = snapshot(json!({"allowedHosts": ["api.test"]}));
    assert_eq!(get(&open, "GET", "/v1/../admin").0, Reason::Allowed);
}

#[test]
fn a_closer_passthrough_keeps_tls_closed() {
    let listed = rules(&json!([
        {"host": "*.x.test", "methods": ["GET"]},
        {"host": "pinned.x.test", "tls": "passthrough"},
        {"host": "seen.x.test", "tls": "terminate", "ports": [8443]},
        {"host": "seen.x.test", "tls": "passthrough", "ports": [9443]},
        {"host": "plain.x.test"},
    ]));
    for (host, port, terminate) in [
        ("any.x.test", 443, true),
        ("pinned.x.test", 443, false),
        ("seen.x.test", 8443, true),
        ("seen.x.test", 9443, false),
        ("plain.x.test", 443, true),
    ] {
        assert_eq!(
            ask(&listed, host, port).terminate,
            terminate,
            "{host}:{port}"
        );
    }
}

#[test]
fn a_policy_that_allows_all_ends_no_tls_and_names_common_ports() {
    let all = Snapshot::compile(&namzu_types::EgressPolicy::AllowAll, 1).unwrap();
    for (host, port) in [("a.test", 1), ("93.184.216.34", 6379), ("10.0.0.1", 443)] {
        let verdict = ask(&all, host, port);
        assert!(verdict.allows() && verdict.schemes == Schemes::ALL && !verdict.terminate);
    }
    assert_eq!(all.ports(), [22, 80, 443]);
    assert!(!all.terminates());
}

#[test]
fn an_answer_of_a_resolver_is_a_list_of_hosts() {
    let answer = |lines: &[&str]| {
        let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        Snapshot::from_hosts(&lines, 3)
    };
    let hosts = answer(&["a.test", "", " *.b.test ", "a.test"]).unwrap();
    assert_eq!(hosts.generation, 3);
    assert!(ask(&hosts, "a.test", 443).allows());
    assert!(ask(&hosts, "x.b.test", 80).allows());
    assert!(!ask(&hosts, "b.test", 443).allows());
    assert_eq!(answer(&[]).unwrap().ports(), [80, 443]);
    let faults = answer(&["a.test", "*", "https://x", "localhost"]).unwrap_err();
    assert_eq!(faults.len(), 3);
    assert!(faults[0].starts_with("`resolve[1]`: "), "{faults:?}");
}
