//! What the self-test asks for, and how it judges what comes.

use namzu_types::EgressRule;

use super::*;

fn failed() -> Outcome {
    Outcome::Failed {
        error: "unreachable".to_owned(),
        addresses: vec![],
    }
}

fn silent() -> Outcome {
    Outcome::Silent { addresses: vec![] }
}

fn reached(addresses: &[&str]) -> Outcome {
    Outcome::Reached {
        addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
    }
}

#[test]
fn no_target_is_anybody_elses() {
    for claim in denied(&[]) {
        let (Try::Tcp { to } | Try::Udp { to }) = claim.one else {
            panic!("{claim:?}");
        };
        let set_aside = match to.ip() {
            IpAddr::V4(four) => four.is_documentation() || four.is_link_local(),
            IpAddr::V6(six) => six.segments()[..2] == [0x2001, 0xdb8],
        };
        assert!(set_aside, "{to}");
    }
    assert!(STRANGER.ends_with(".invalid"));
}

#[test]
fn what_is_denied_must_be_refused_at_once() {
    for claim in denied(&[(true, "127.0.0.1:9".parse().unwrap())]) {
        assert_eq!(judge(&claim, &failed()), None);
        assert!(judge(&claim, &silent()).is_some(), "{claim:?}");
        assert!(judge(&claim, &reached(&[])).is_some(), "{claim:?}");
    }
}

#[test]
fn a_denied_name_must_stay_unknown() {
    let claim = name(STRANGER, 443, Must::StayUnknown);
    assert_eq!(judge(&claim, &failed()), None);
    // Where nothing answers names at all, a look-up takes its time.
    assert_eq!(judge(&claim, &silent()), None);
    assert!(judge(&claim, &reached(&["198.18.0.1"])).is_some());
    let resolved = Outcome::Failed {
        error: "refused".to_owned(),
        addresses: vec!["198.18.0.1".parse().unwrap()],
    };
    assert!(judge(&claim, &resolved).is_some());
}

#[test]
fn an_allowed_name_must_lead_to_the_boundary() {
    let claim = name("a.test", 443, Must::Pass);
    assert_eq!(judge(&claim, &reached(&["198.19.255.254"])), None);
    for outcome in [
        reached(&[]),
        reached(&["198.20.0.1"]),
        reached(&["198.18.0.1", "192.0.2.1"]),
        reached(&["::1"]),
        failed(),
        silent(),
    ] {
        assert!(judge(&claim, &outcome).is_some(), "{outcome:?}");
    }
}

#[test]
fn only_a_full_name_is_tried() {
    let with = |hosts: &[&str], rules: Vec<EgressRule>| {
        let mut policy = EgressPolicy::hosts(hosts.iter().copied());
        if let EgressPolicy::Static { rules: place, .. } = &mut policy {
            *place = rules;
        }
        allowed(&policy)
    };
    assert_eq!(with(&["*.a.test", ".b.test", "192.0.2.1"], vec![]), []);
    let found = with(&["*.a.test", "c.test"], vec![]);
    assert_eq!(found, [("c.test".to_owned(), 443)]);
    let rule = |scheme, ports: &[u16]| EgressRule {
        host: "d.test".to_owned(),
        scheme,
        ports: ports.to_vec(),
        ..EgressRule::default()
    };
    for (rule, port) in [
        (rule(EgressScheme::Http, &[]), 80),
        (rule(EgressScheme::Https, &[]), 443),
        (rule(EgressScheme::Tcp, &[22, 5432]), 22),
    ] {
        assert_eq!(with(&[], vec![rule]), [("d.test".to_owned(), port)]);
    }
    assert_eq!(allowed(&EgressPolicy::DenyAll), []);
}
