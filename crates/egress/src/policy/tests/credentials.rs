//! What is refused of credentials when a policy is loaded.

use serde_json::{Value, json};

use crate::policy::testing::{refused, snapshot};

fn credential(credential: &Value, rule: &Value) -> Value {
    let mut rule = rule.clone();
    rule["host"] = "a.test".into();
    rule["credential"] = "key".into();
    json!({"rules": [rule], "credentials": {"key": credential}})
}

fn inject(header: &str, format: &str) -> Value {
    json!({"mode": "inject", "source": {"env": "T"}, "header": header, "format": format})
}

#[test]
fn a_secret_goes_over_verified_tls_only() {
    let good = inject("authorization", "Bearer {}");
    snapshot(credential(&good, &json!({})));
    let http = credential(&good, &json!({"scheme": "http"}));
    refused(http, &[("rules[0].credential", "only over `https`")]);
    let tcp = credential(&good, &json!({"scheme": "tcp", "ports": [1]}));
    refused(tcp, &[("rules[0].credential", "only over `https`")]);
    let closed = credential(&good, &json!({"tls": "passthrough"}));
    refused(closed, &[("rules[0].tls", "`passthrough`")]);
}

#[test]
fn credentials_and_rules_know_each_other() {
    let unknown = json!({"rules": [{"host": "a.test", "credential": "none"}]});
    refused(
        unknown,
        &[("rules[0].credential", "`none` is no credential")],
    );
    let unused = json!({"credentials": {"key": inject("authorization", "{}")}});
    refused(unused, &[("credentials.key", "no rule uses it")]);
}

#[test]
fn headers_that_frame_or_route_carry_no_credential() {
    for header in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "connection",
        "proxy-authorization",
        "te",
        "upgrade",
    ] {
        let document = credential(&inject(header, "{}"), &json!({}));
        refused(
            document,
            &[("credentials.key.header", "no credential is carried in")],
        );
    }
    for header in ["", "a b", "a:", ":path", "a\r\nb", "é"] {
        let document = credential(&inject(header, "{}"), &json!({}));
        refused(
            document,
            &[("credentials.key.header", "is no header's name")],
        );
    }
}

#[test]
fn formats_hold_the_secret_once_and_one_line() {
    for (format, words) in [
        ("Bearer", "`{}` once"),
        ("{} {}", "`{}` once"),
        ("{}\r\nx: y", "visible ASCII"),
        ("{}\u{e9}", "visible ASCII"),
    ] {
        let document = credential(&inject("authorization", format), &json!({}));
        refused(document, &[("credentials.key.format", words)]);
    }
}

#[test]
fn stand_ins_are_in_variables_of_their_own() {
    let sentinel = |env: &str| json!({"mode": "sentinel", "source": {"env": "T"}, "env": env});
    snapshot(credential(&sentinel("API_KEY"), &json!({})));
    for (env, words) in [
        ("", "no name"),
        ("1A", "no name"),
        ("A-B", "no name"),
        ("A=B", "no name"),
        ("A\0", "no name"),
        ("PATH", "meaning of its own"),
        ("LD_PRELOAD", "meaning of its own"),
        ("https_proxy", "meaning of its own"),
    ] {
        let document = credential(&sentinel(env), &json!({}));
        refused(document, &[("credentials.key.env", words)]);
    }
    let two = json!({
        "rules": [{"host": "a.test", "credential": "a"}, {"host": "b.test", "credential": "b"}],
        "credentials": {"a": sentinel("KEY"), "b": sentinel("KEY")},
    });
    refused(two, &[("credentials.b.env", "another credential")]);
}
