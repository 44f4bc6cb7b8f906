//! Policies of any text, and what is asked of them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_egress::policy::{Pattern, Question, Snapshot, decide};
use namzu_egress::{Host, Reason, Scheme};
use namzu_types::{EgressLimits, EgressPolicy, EgressRule};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (asked, path, prefix) = (line(), line(), line());
    let (denied, restricted) = (line(), line());
    let patterns: Vec<String> = lines.take(8).map(str::to_owned).collect();
    for pattern in &patterns {
        if let Ok(read) = Pattern::parse(pattern) {
            assert_eq!(Pattern::parse(&read.to_string()), Ok(read));
        }
    }
    let policy = EgressPolicy::Static {
        allowed_hosts: patterns,
        rules: vec![EgressRule {
            host: restricted.to_owned(),
            paths: vec![prefix.to_owned()],
            inward: vec!["10.0.0.0/8".to_owned()],
            ..EgressRule::default()
        }],
        denied_hosts: vec![denied.to_owned()],
        credentials: std::collections::BTreeMap::new(),
        limits: EgressLimits::default(),
    };
    let (Ok(snapshot), Ok(host)) = (Snapshot::compile(&policy, 1), Host::parse(asked)) else {
        return;
    };
    let question = Question {
        host: &host,
        port: Some(443),
        scheme: Some(Scheme::Https),
        request: Some(("GET", path)),
    };
    let verdict = decide(&snapshot, &question);
    let named = |pattern: &str| Pattern::parse(pattern).is_ok_and(|read| read.matches(&host));
    if named(denied) {
        assert_eq!(verdict.reason, Reason::DeniedHost);
    }
    if !verdict.allows() {
        assert!(verdict.inward.is_empty());
        return;
    }
    let rule = verdict.rule.expect("no rule, no way out");
    assert!(named(&rule.pattern));
    if let [own] = &rule.paths[..] {
        assert!(path.starts_with(&**own) && path.starts_with('/'));
        assert!(!path.split('/').any(|segment| segment == ".."));
    }
    // What is known later never allows what was denied before.
    for (scheme, request) in [(None, None), (Some(Scheme::Https), None)] {
        let earlier = Question {
            scheme,
            request,
            ..question
        };
        assert!(decide(&snapshot, &earlier).allows());
    }
});
