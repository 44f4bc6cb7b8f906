//! The rows of the attack list that a policy answers.

use serde_json::json;

use crate::policy::testing::{ask, snapshot};
use crate::policy::{Snapshot, Verdict};
use crate::{Reason, is_host_allowed};

fn listed() -> Snapshot {
    snapshot(json!({"allowedHosts": ["allowed.test", "*.wild.test"]}))
}

fn reason(host: &str, port: u16) -> Reason {
    ask(&listed(), host, port).reason
}

#[test]
fn row_01_and_02_every_spelling_of_an_allowed_name_is_allowed() {
    for host in ["allowed.test", "ALLOWED.TEST", "allowed.test."] {
        assert_eq!(reason(host, 443), Reason::Allowed, "{host}");
    }
}

#[test]
fn row_04_to_06_names_that_hold_an_allowed_one_are_denied() {
    for host in [
        "evilallowed.test",
        "notwild.test",
        "allowed.test.evil.test",
        "x.allowed.test",
        "test",
    ] {
        assert_eq!(reason(host, 443), Reason::NotListed, "{host}");
    }
}

#[test]
fn row_07_a_wildcard_does_not_name_its_apex() {
    assert_eq!(reason("wild.test", 443), Reason::NotListed);
    assert_eq!(reason("a.wild.test", 443), Reason::Allowed);
    assert_eq!(reason("a.b.c.wild.test", 443), Reason::Allowed);
}

#[test]
fn a_wildcard_stands_for_no_more_than_a_name_needs() {
    let long = format!("{0}.{0}.files.test", "d".repeat(60));
    let hashed = "images.6aa30f8b08e16409b46e0173d6de2f56.files.test";
    for pattern in ["*.files.test", "**.files.test", ".files.test"] {
        let rules = snapshot(json!({"allowedHosts": [pattern]}));
        assert_eq!(ask(&rules, &long, 443).reason, Reason::NameTooLong);
        assert!(!is_host_allowed(&long, &[pattern]), "{pattern}");
        assert_eq!(ask(&rules, hashed, 443).reason, Reason::Allowed);
        let named = snapshot(json!({"allowedHosts": [pattern, long]}));
        assert_eq!(
            ask(&named, &long, 443).reason,
            Reason::Allowed,
            "whoever writes a rule may write any name"
        );
    }
}

#[test]
fn row_18_a_look_alike_is_another_name() {
    assert_eq!(reason("xn--llowed-4wf.test", 443), Reason::NotListed);
}

#[test]
fn row_20_a_single_label_needs_an_exact_rule() {
    assert_eq!(reason("metadata", 443), Reason::NotListed);
    let exact = snapshot(json!({"allowedHosts": ["kubernetes"]}));
    assert_eq!(ask(&exact, "kubernetes", 443).reason, Reason::Allowed);
    assert_eq!(ask(&exact, "metadata", 443).reason, Reason::NotListed);
    let all = Snapshot::compile(&namzu_types::EgressPolicy::AllowAll, 1).unwrap();
    assert_eq!(ask(&all, "metadata", 443).reason, Reason::NotListed);
}

#[test]
fn row_21_names_that_lead_inward_need_a_rule_that_says_so() {
    let names = [
        "localhost",
        "a.localhost",
        "ip6-localhost",
        "host.docker.internal",
        "metadata.google.internal",
        "printer.local",
        "1.0.0.127.in-addr.arpa",
        "x.onion",
    ];
    let all = Snapshot::compile(&namzu_types::EgressPolicy::AllowAll, 1).unwrap();
    for name in names {
        assert_eq!(ask(&all, name, 443).reason, Reason::NotListed, "{name}");
        let unsaid = json!({"kind": "static", "allowedHosts": [name]});
        let policy = serde_json::from_value(unsaid).unwrap();
        assert!(Snapshot::compile(&policy, 1).is_err(), "{name}");
        let said = snapshot(json!({"rules": [{"host": name, "inward": ["10.1.0.0/16"]}]}));
        assert_eq!(ask(&said, name, 443).reason, Reason::Allowed, "{name}");
    }
}

#[test]
fn row_22_and_23_other_ports_of_an_allowed_name_are_denied() {
    for port in [22, 25, 6379, 8443] {
        assert_eq!(
            reason("allowed.test", port),
            Reason::PortNotListed,
            "{port}"
        );
    }
    let ssh =
        snapshot(json!({"rules": [{"host": "allowed.test", "scheme": "tcp", "ports": [22]}]}));
    assert_eq!(ask(&ssh, "allowed.test", 22).reason, Reason::Allowed);
    assert_eq!(ask(&ssh, "allowed.test", 443).reason, Reason::PortNotListed);
}

#[test]
fn row_26_an_address_needs_a_rule_that_names_it() {
    for host in [
        "93.184.216.34",
        "[2606:4700::1111]",
        "[::ffff:93.184.216.34]",
    ] {
        assert_eq!(reason(host, 443), Reason::AddressLiteral, "{host}");
    }
    let named = snapshot(json!({"allowedHosts": ["93.184.216.34", "2606:4700::/32"]}));
    for host in [
        "93.184.216.34",
        "[2606:4700::1111]",
        "[::ffff:93.184.216.34]",
    ] {
        assert_eq!(ask(&named, host, 443).reason, Reason::Allowed, "{host}");
    }
    assert_eq!(
        ask(&named, "93.184.216.35", 443).reason,
        Reason::AddressLiteral
    );
}

#[test]
fn row_49_a_rule_says_which_private_ranges_its_name_may_lead_to() {
    let rules = json!({"rules": [
        {"host": "db.test", "scheme": "tcp", "ports": [5432], "inward": ["10.1.0.0/16"]},
        {"host": "*.test.example", "inward": ["10.2.0.0/16"]},
        {"host": "a.test.example", "inward": ["fd12:3456:789a::/48"]},
        {"host": "open.test"},
    ]});
    let rules = snapshot(rules);
    let inward = |verdict: Verdict| {
        let mut texts: Vec<_> = verdict.inward.iter().map(ToString::to_string).collect();
        texts.sort();
        texts
    };
    assert_eq!(inward(ask(&rules, "db.test", 5432)), ["10.1.0.0/16"]);
    assert_eq!(inward(ask(&rules, "open.test", 443)), [""; 0]);
    assert_eq!(inward(ask(&rules, "b.test.example", 443)), ["10.2.0.0/16"]);
    let both = ["10.2.0.0/16", "fd12:3456:789a::/48"];
    assert_eq!(inward(ask(&rules, "a.test.example", 443)), both);
    assert_eq!(
        inward(ask(&rules, "db.test", 443)),
        [""; 0],
        "a denial opens nothing"
    );
}

#[test]
fn a_policy_that_denies_all_denies_all() {
    let none = Snapshot::compile(&namzu_types::EgressPolicy::DenyAll, 4).unwrap();
    for host in ["allowed.test", "127.0.0.1", "[::1]"] {
        let verdict = ask(&none, host, 443);
        assert_eq!((verdict.reason, verdict.generation), (Reason::DenyAll, 4));
    }
    assert!(none.ports().is_empty());
}

#[test]
fn an_empty_static_policy_denies_all() {
    let none = snapshot(json!({}));
    assert_eq!(ask(&none, "allowed.test", 443).reason, Reason::NotListed);
}

#[test]
fn a_name_of_very_many_labels_is_answered() {
    let deep = format!("{}allowed.test", "a.".repeat(120));
    assert_eq!(reason(&deep, 443), Reason::NotListed);
    let deep = format!("{}wild.test", "a.".repeat(120));
    assert_eq!(reason(&deep, 443), Reason::NameTooLong);
}
