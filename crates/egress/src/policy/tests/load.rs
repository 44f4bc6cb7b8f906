//! What is refused when a policy is loaded.

use serde_json::json;

use crate::policy::testing::{ask, reasons, refused, snapshot};
use crate::policy::{MAX_ENTRIES, MAX_PORTS, MAX_RULES_PER_HOST, Snapshot};

fn hosts(patterns: &[&str], words: &str) {
    for pattern in patterns {
        refused(
            json!({"allowedHosts": [pattern]}),
            &[("allowedHosts[0]", words)],
        );
        let rule = json!({"rules": [{"host": pattern}]});
        refused(rule, &[("rules[0].host", words)]);
    }
}

#[test]
fn patterns_that_name_everybody_are_refused() {
    hosts(&["*", "**"], "names every host");
    hosts(
        &[
            "*.com",
            "**.com",
            ".com",
            "*.co.uk",
            "*.github.io",
            ".github.io",
            "*.s3.amazonaws.com",
        ],
        "too broad",
    );
    hosts(
        &["*.kawasaki.jp", "*.foo.kawasaki.jp", "*.cloudfront.net"],
        "too broad",
    );
    hosts(
        &["0.0.0.0/0", "16.0.0.0/7", "::/0", "2000::/3", "2600::/15"],
        "too broad",
    );
}

#[test]
fn a_public_suffix_may_be_named_itself() {
    snapshot(
        json!({"allowedHosts": ["github.io", "com", "*.example.github.io", "*.example.com", "17.0.0.0/8"]}),
    );
}

#[test]
fn what_is_no_pattern_is_refused() {
    hosts(
        &[
            "a.*.test", "a*.test", "*a.test", "***.test", "*.*.test", "*..test", "a.test.*",
        ],
        "",
    );
    hosts(
        &[
            "https://a.test",
            "a.test/",
            "a.test:443",
            "u@a.test",
            " a.test",
            "a.test ",
            "a?b",
            "10.0.0.0/33",
        ],
        "is no host name",
    );
    hosts(
        &[
            "",
            ".",
            "..",
            "a..b",
            "-a.test",
            "a%2e.test",
            "0xa9fea9fe",
            "2852039166",
            "0177.0.0.1",
            "*.1",
        ],
        "is no host name",
    );
    hosts(&["93.184.216.34/24"], "`93.184.216.0/24` is what it covers");
    hosts(&["::ffff:93.184.216.0/120"], "write it as IPv4");
}

#[test]
fn names_in_unicode_are_read_at_load_alone() {
    let listed = snapshot(json!({"allowedHosts": ["bücher.test", "*.пример.test", "日本.test"]}));
    for host in [
        "xn--bcher-kva.test",
        "a.xn--e1afmkfd.test",
        "xn--wgv71a.test",
    ] {
        assert!(ask(&listed, host, 443).allows(), "{host}");
    }
    hosts(
        &[
            "ａllowed.test",
            "allowed。test",
            "a\u{200d}b.test",
            "a\u{ad}b.test",
            "\u{301}a.test",
        ],
        "is no host name",
    );
}

#[test]
fn patterns_that_look_like_another_are_refused() {
    // A Cyrillic `а` among Latin letters, all of Cyrillic look-alikes, a Greek omicron.
    hosts(
        &["pаypal.test", "аррӏе.test", "gοοgle.test"],
        "looks like a name in another script",
    );
    snapshot(json!({"allowedHosts": ["xn--pypal-4ve.test"]}));
}

#[test]
fn addresses_that_nothing_may_reach_are_refused() {
    hosts(
        &[
            "169.254.169.254",
            "169.254.0.0/16",
            "fe80::1",
            "::ffff:169.254.169.254",
            "168.63.129.16",
            "0.0.0.0",
            "2002::1",
        ],
        "nothing in a sandbox may reach",
    );
}

#[test]
fn private_addresses_and_names_need_inward() {
    hosts(
        &[
            "10.0.0.1",
            "192.168.0.0/16",
            "127.0.0.1",
            "[::1]",
            "fd12:3456:789a::/48",
        ],
        "needs `inward`",
    );
    hosts(
        &[
            "localhost",
            "*.internal",
            "x.local",
            "x.home.arpa",
            "*.corporate",
        ],
        "needs `inward`",
    );
    let covered = json!({"rules": [
        {"host": "10.0.0.1", "inward": ["10.0.0.0/24"]},
        {"host": "*.internal", "inward": ["10.0.0.0/24"]},
        {"host": "*.corporate", "inward": ["10.0.0.0/24"]},
    ]});
    snapshot(covered);
    let elsewhere = json!({"rules": [{"host": "10.0.1.1", "inward": ["10.0.0.0/24"]}]});
    refused(
        elsewhere,
        &[("rules[0].host", "needs `inward` with `10.0.1.1/32`")],
    );
}

#[test]
fn inward_ranges_are_private_and_no_metadata() {
    for (range, words) in [
        ("8.8.8.0/24", "is not private"),
        ("9.0.0.0/7", "bits beyond its prefix"),
        ("8.0.0.0/6", "is not private"),
        ("0.0.0.0/0", "touches"),
        ("169.254.0.0/16", "touches"),
        ("100.64.0.0/10", "touches `100.100.100.200/32`"),
        ("fc00::/7", "touches"),
        ("fd00:ec2::254", "touches"),
        ("::/0", "touches"),
        ("ff00::/8", "is not private"),
        ("lan", "is no range"),
        ("10.0.0.0/33", "is no range"),
    ] {
        let document = json!({"rules": [{"host": "a.test", "inward": [range]}]});
        refused(document, &[("rules[0].inward[0]", words)]);
    }
    let fine = [
        "10.0.0.0/8",
        "127.0.0.1",
        "::1",
        "100.64.0.0/11",
        "fd12:3456:789a::/48",
    ];
    snapshot(json!({"rules": [{"host": "a.test", "inward": fine}]}));
}

#[test]
fn ports_are_named_for_tcp_and_are_ports() {
    refused(
        json!({"rules": [{"host": "a.test", "scheme": "tcp"}]}),
        &[("rules[0].ports", "needs its ports")],
    );
    refused(
        json!({"rules": [{"host": "a.test", "ports": [0, 443]}]}),
        &[("rules[0].ports", "0 is no port")],
    );
    refused(
        json!({"rules": [{"host": "a.test", "ports": [1, 2, 1]}]}),
        &[("rules[0].ports", "twice")],
    );
}

#[test]
fn there_are_only_so_many_ports() {
    let last = 1000 + u16::try_from(MAX_PORTS).unwrap();
    let most: Vec<u16> = (1000..last).collect();
    snapshot(json!({"rules": [{"host": "a.test", "ports": most}]}));
    let document = json!({"rules": [{"host": "a.test", "ports": most}, {"host": "b.test"}]});
    refused(document, &[("rules", "65 different ports")]);
}

#[test]
fn methods_are_tokens_that_are_forwarded() {
    let document = json!({"rules": [{"host": "a.test", "methods": ["GET", "get", "TRACE", "CONNECT", "A B", "", "GET"]}]});
    refused(
        document,
        &[
            ("rules[0].methods[1]", "lower case"),
            ("rules[0].methods[2]", "never forwarded"),
            ("rules[0].methods[3]", "never forwarded"),
            ("rules[0].methods[4]", "no HTTP method"),
            ("rules[0].methods[5]", "no HTTP method"),
            ("rules[0].methods[6]", "twice"),
        ],
    );
}

#[test]
fn paths_are_absolute_and_plain() {
    for path in ["", "v1", "*"] {
        let document = json!({"rules": [{"host": "a.test", "paths": [path]}]});
        refused(
            document,
            &[("rules[0].paths[0]", "does not start with `/`")],
        );
    }
    for path in [
        "/a/../b", "/a//b", "/%2e%2e", "/a%2fb", "/a\\b", "/.", "/a?b", "/a#b", "/é", "/a b",
    ] {
        let document = json!({"rules": [{"host": "a.test", "paths": [path]}]});
        refused(document, &[("rules[0].paths[0]", "is no plain path")]);
    }
}

#[test]
fn what_needs_requests_to_be_seen_is_refused_where_they_are_not() {
    let tcp = json!({"rules": [{"host": "a.test", "scheme": "tcp", "ports": [1], "methods": ["GET"], "paths": ["/"]}]});
    refused(
        tcp,
        &[("rules[0].methods", "`tcp`"), ("rules[0].paths", "`tcp`")],
    );
    for tls in ["terminate", "passthrough"] {
        let http = json!({"rules": [{"host": "a.test", "scheme": "http", "tls": tls}]});
        refused(http, &[("rules[0].tls", "means nothing")]);
    }
    let closed = json!({"rules": [{"host": "a.test", "tls": "passthrough", "methods": ["GET"]}]});
    refused(closed, &[("rules[0].tls", "is `passthrough`, but")]);
    let address = json!({"rules": [{"host": "93.184.216.34", "methods": ["GET"]}]});
    refused(address, &[("rules[0].host", "TLS ends only for names")]);
}

#[test]
fn tls_is_not_both_ended_and_passed_through() {
    let document = json!({"rules": [
        {"host": "a.test", "tls": "passthrough", "ports": [443, 8443]},
        {"host": "a.test", "tls": "terminate", "ports": [8443]},
        {"host": "a.test", "tls": "terminate", "ports": [9443]},
    ]});
    refused(document, &[("rules[1].tls", "see `rules[0]`")]);
}

#[test]
fn what_is_said_twice_is_refused() {
    refused(
        json!({"allowedHosts": ["a.test", "A.test."]}),
        &[("allowedHosts[1]", "is there already, at [0]")],
    );
    refused(
        json!({"allowedHosts": [".a.test", "**.a.test"]}),
        &[("allowedHosts[1]", "is there already")],
    );
    refused(
        json!({"deniedHosts": ["a.test", "a.test"]}),
        &[("deniedHosts[1]", "is there already")],
    );
    let rules = json!({"rules": [
        {"host": "a.test", "methods": ["GET", "PUT"]},
        {"host": "a.test", "methods": ["PUT", "GET"], "ports": [443]},
        {"host": "a.test", "methods": ["GET"]},
    ]});
    refused(rules, &[("rules[1]", "says what `rules[0]` says")]);
}

#[test]
fn nothing_is_too_broad_to_be_denied() {
    let listed = snapshot(
        json!({"allowedHosts": ["a.com"], "deniedHosts": ["*.com", "10.0.0.0/7", "localhost"]}),
    );
    assert!(!ask(&listed, "a.com", 443).allows());
    refused(
        json!({"deniedHosts": ["*", "a*b"]}),
        &[
            ("deniedHosts[0]", "every host"),
            ("deniedHosts[1]", "whole labels"),
        ],
    );
}

#[test]
fn limits_let_something_flow() {
    let document = json!({"limits": {"flows": 0, "bytesUp": 0, "bytesDown": 1}});
    refused(
        document,
        &[("limits.flows", "is 0"), ("limits.bytesUp", "is 0")],
    );
}

#[test]
fn every_reason_is_given_up_to_a_point() {
    let many: Vec<_> = (0..100).map(|index| format!("a{index}:1")).collect();
    let found = reasons(json!({"allowedHosts": many}));
    assert_eq!(found.len(), 65);
    assert_eq!(found[64], "and 36 more");
    assert_eq!(reasons(json!({"allowedHosts": many[..64]})).len(), 64);
}

#[test]
fn there_are_only_so_many_rules() {
    let rules: Vec<_> = (0..=MAX_RULES_PER_HOST)
        .map(|index| json!({"host": "a.test", "paths": [format!("/{index}")]}))
        .collect();
    snapshot(json!({"rules": rules[..MAX_RULES_PER_HOST]}));
    let last = format!("rules[{MAX_RULES_PER_HOST}].host");
    refused(json!({"rules": rules}), &[(&last, "more than 64 rules")]);
    let hosts: Vec<_> = (0..=MAX_ENTRIES)
        .map(|index| format!("a{index}.test"))
        .collect();
    let too_many = namzu_types::EgressPolicy::hosts(hosts);
    assert!(Snapshot::compile(&too_many, 1).unwrap_err()[0].contains("there may be 20000"));
}

#[test]
fn a_resolver_has_no_snapshot_before_it_is_asked() {
    let resolver = json!({"kind": "resolver", "resolve": {"env": "HOSTS"}});
    let resolver = serde_json::from_value(resolver).unwrap();
    assert!(Snapshot::compile(&resolver, 1).is_err());
}
