//! The usual names and policy.

use std::collections::BTreeMap;

use namzu_testkit::network::{Block, Record, Zone};
use namzu_types::{
    EgressCredential, EgressLimits, EgressPolicy, EgressRule, EgressScheme, EgressTls, Secret,
    ValueSource,
};

/// What the `api` credential is.
pub(crate) const API_SECRET: &str = "api-secret-0123456789";

/// What the `git` credential is.
pub(crate) const GIT_SECRET: &str = "git-secret-abcdefghijklmnopqrstuvwxyz-0123456789";

/// The variable that has the stand-in of `git`.
pub(crate) const GIT_ENV: &str = "GIT_TOKEN";

/// The names of a test: all others lead to the attacker.
pub(crate) fn zone(block: Block) -> Zone {
    let zone = Zone::default();
    for (name, last) in [
        ("allowed.test", 1),
        ("inner.test", 2),
        ("api.test", 3),
        ("git.test", 4),
        ("ssh.test", 5),
        ("other.test", 6),
        ("a.wild.test", 7),
        ("read.test", 8),
    ] {
        zone.host(name, block.v4(last));
    }
    zone.otherwise(Record::Addresses(vec![block.v4(66).into()]));
    zone
}

/// The usual policy.
pub(crate) fn usual() -> EgressPolicy {
    EgressPolicy::Static {
        allowed_hosts: strings(&["allowed.test", "other.test", "*.wild.test"]),
        rules: vec![
            EgressRule {
                tls: EgressTls::Terminate,
                ..rule("inner.test")
            },
            EgressRule {
                credential: Some("api".to_owned()),
                ..rule("api.test")
            },
            EgressRule {
                credential: Some("git".to_owned()),
                ..rule("git.test")
            },
            EgressRule {
                ports: vec![22],
                scheme: EgressScheme::Tcp,
                ..rule("ssh.test")
            },
            EgressRule {
                methods: strings(&["GET"]),
                paths: strings(&["/public/"]),
                ..rule("read.test")
            },
        ],
        denied_hosts: strings(&["denied.wild.test"]),
        credentials: credentials(),
        limits: EgressLimits::default(),
    }
}

fn credentials() -> BTreeMap<String, EgressCredential> {
    let api = EgressCredential::Inject {
        source: ValueSource::Value(Secret::new(API_SECRET)),
        header: "authorization".to_owned(),
        format: "Bearer {}".to_owned(),
    };
    let git = EgressCredential::Sentinel {
        source: ValueSource::Value(Secret::new(GIT_SECRET)),
        env: GIT_ENV.to_owned(),
    };
    BTreeMap::from([("api".to_owned(), api), ("git".to_owned(), git)])
}

pub(crate) fn rule(host: &str) -> EgressRule {
    EgressRule {
        host: host.to_owned(),
        ..EgressRule::default()
    }
}

/// A policy of rules alone.
pub(crate) fn rules(rules: Vec<EgressRule>) -> EgressPolicy {
    EgressPolicy::Static {
        allowed_hosts: Vec::new(),
        rules,
        denied_hosts: Vec::new(),
        credentials: BTreeMap::new(),
        limits: EgressLimits::default(),
    }
}

pub(crate) fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
