//! The compiled policy against one that looks at every rule, one after the other.

use namzu_types::{EgressPolicy, EgressRule};

use crate::policy::testing::Random;
use crate::policy::{Pattern, Question, Schemes, Snapshot, decide};
use crate::{Host, Reason, Scheme, is_host_allowed};

const NAMES: &[&str] = &[
    "a.test",
    "b.a.test",
    "c.b.a.test",
    "aa.test",
    "x.y",
    "b.x.y",
    "c.b.x.y",
    "single",
    "93.184.216.34",
    "93.184.216.35",
    "93.1.1.1",
    "[2606:4700::1]",
];
const PATTERNS: &[&str] = &[
    "a.test",
    "*.a.test",
    "**.a.test",
    ".a.test",
    "b.a.test",
    "*.b.a.test",
    "**.b.a.test",
    "*.x.y",
    "x.y",
    "**.b.x.y",
    "single",
    "93.184.216.34",
    "93.184.216.0/24",
    "93.0.0.0/8",
    "2606:4700::/32",
];
const PORTS: &[u16] = &[80, 443, 8443];
const SCHEMES: &[Scheme] = &[Scheme::Https, Scheme::Http, Scheme::Tcp];
const METHODS: &[&str] = &["GET", "POST"];
const PATHS: &[&str] = &["/", "/v1", "/v1/a", "/v10", "/v1/../a"];

fn some<T: Clone>(random: &mut Random, of: &[T]) -> Vec<T> {
    of.iter()
        .filter(|_| random.below(3) == 0)
        .cloned()
        .collect()
}

fn texts(of: Vec<&str>) -> Vec<String> {
    of.into_iter().map(str::to_owned).collect()
}

fn random_rule(random: &mut Random) -> EgressRule {
    let scheme = *random.pick(SCHEMES);
    let pattern = *random.pick(PATTERNS);
    let mut rule = EgressRule {
        host: pattern.to_owned(),
        scheme,
        ports: some(random, PORTS),
        ..EgressRule::default()
    };
    if scheme == Scheme::Tcp && rule.ports.is_empty() {
        rule.ports.push(443);
    }
    let seen =
        scheme == Scheme::Http || (scheme == Scheme::Https && !pattern.starts_with(['9', '2']));
    if seen {
        rule.methods = texts(some(random, METHODS));
        rule.paths = texts(some(random, &PATHS[..3]));
    }
    rule
}

/// What the documentation says, written down without thought for speed.
fn model(rules: &[EgressRule], denied: &[String], question: &Question<'_>) -> (Reason, Schemes) {
    let names = |pattern: &str| Pattern::parse(pattern).unwrap().matches(question.host);
    if denied.iter().any(|pattern| names(pattern)) {
        return (Reason::DeniedHost, Schemes::NONE);
    }
    let mut reason = match question.host {
        Host::Name(_) => (0, Reason::NotListed),
        Host::Address(_) => (0, Reason::AddressLiteral),
    };
    let mut schemes = Schemes::NONE;
    for rule in rules.iter().filter(|rule| names(&rule.host)) {
        let ports = match (rule.ports.as_slice(), rule.scheme) {
            ([], Scheme::Https) => &[443],
            ([], Scheme::Http) => &[80],
            (ports, _) => ports,
        };
        let answer = if question.port.is_some_and(|port| !ports.contains(&port)) {
            (1, Reason::PortNotListed)
        } else {
            schemes = schemes.with(rule.scheme);
            request(rule, question)
        };
        reason = reason.max(answer);
    }
    (reason.1, schemes)
}

fn request(rule: &EgressRule, question: &Question<'_>) -> (u8, Reason) {
    let below = |path: &str, prefix: &str| {
        let slashed = format!("{}/", prefix.trim_end_matches('/'));
        path == prefix || path.starts_with(&slashed)
    };
    if question.scheme.is_some_and(|scheme| scheme != rule.scheme) {
        return (2, Reason::SchemeNotListed);
    }
    if let (Some((method, path)), true) = (question.request, rule.scheme != Scheme::Tcp) {
        if !rule.methods.is_empty() && !rule.methods.iter().any(|own| own == method) {
            return (3, Reason::MethodNotListed);
        }
        let named = rule.paths.iter().any(|own| below(path, own));
        if !rule.paths.is_empty() && (path.contains("..") || !named) {
            return (4, Reason::PathNotListed);
        }
    }
    (5, Reason::Allowed)
}

#[test]
fn decisions_are_those_of_a_naive_model() {
    let mut random = Random::new(1);
    let (mut compiled, mut allowed) = (0, 0);
    for _ in 0..3_000 {
        let rules: Vec<_> = (0..random.below(8))
            .map(|_| random_rule(&mut random))
            .collect();
        let denied: Vec<_> = (0..random.below(2))
            .map(|_| (*random.pick(PATTERNS)).to_owned())
            .collect();
        let policy = EgressPolicy::Static {
            allowed_hosts: Vec::new(),
            rules: rules.clone(),
            denied_hosts: denied.clone(),
            credentials: std::collections::BTreeMap::new(),
            limits: namzu_types::EgressLimits::default(),
        };
        // Rules that say the same are drawn now and then.
        let Ok(snapshot) = Snapshot::compile(&policy, 1) else {
            continue;
        };
        compiled += 1;
        for _ in 0..40 {
            let host = Host::parse(random.pick::<&str>(NAMES)).unwrap();
            let request = (*random.pick(METHODS), *random.pick(PATHS));
            let question = Question {
                host: &host,
                port: (random.below(8) > 0).then(|| *random.pick(PORTS)),
                scheme: (random.below(3) > 0).then(|| *random.pick(SCHEMES)),
                request: (random.below(3) > 0).then_some(request),
            };
            let verdict = decide(&snapshot, &question);
            let expected = model(&rules, &denied, &question);
            assert_eq!(
                (verdict.reason, verdict.schemes),
                expected,
                "{question:?} {rules:#?}"
            );
            assert_eq!(
                verdict.rule.is_some(),
                !matches!(verdict.reason, Reason::NotListed | Reason::AddressLiteral)
            );
            allowed += u32::from(verdict.allows());
        }
    }
    assert!(compiled > 2_000 && allowed > 10_000, "{compiled} {allowed}");
}

#[test]
fn plain_patterns_answer_as_their_policy_does() {
    let mut random = Random::new(2);
    for _ in 0..2_000 {
        let patterns = some(&mut random, PATTERNS);
        let policy = EgressPolicy::hosts(patterns.iter().copied());
        let Ok(snapshot) = Snapshot::compile(&policy, 1) else {
            continue;
        };
        for name in NAMES {
            let host = Host::parse(name).unwrap();
            let question = Question {
                host: &host,
                port: Some(443),
                scheme: Some(Scheme::Https),
                request: None,
            };
            let allowed = decide(&snapshot, &question).allows();
            assert_eq!(
                is_host_allowed(name, &patterns),
                allowed,
                "{name} {patterns:?}"
            );
        }
    }
}
