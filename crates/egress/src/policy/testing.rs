//! What tests of policies share.

use namzu_types::EgressPolicy;
use serde_json::Value;

use super::{Question, Snapshot, Verdict, decide};
use crate::{Host, Scheme};

/// Numbers that are the same in every run (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = u64::try_from(bound).unwrap();
        usize::try_from((mixed ^ (mixed >> 31)) % bound).unwrap()
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// The policy of a JSON document, `kind` apart.
pub(super) fn policy(mut document: Value) -> EgressPolicy {
    document["kind"] = "static".into();
    serde_json::from_value(document).unwrap()
}

pub(super) fn snapshot(document: Value) -> Snapshot {
    Snapshot::compile(&policy(document), 1).unwrap()
}

/// Asks for `host:port`, and no more.
pub(super) fn ask(snapshot: &Snapshot, host: &str, port: u16) -> Verdict {
    let host = Host::parse(host).unwrap();
    let question = Question {
        host: &host,
        port: Some(port),
        scheme: None,
        request: None,
    };
    decide(snapshot, &question)
}

/// Asks for what is spoken too.
pub(super) fn ask_for(
    snapshot: &Snapshot,
    host: &str,
    port: u16,
    scheme: Scheme,
    request: Option<(&str, &str)>,
) -> Verdict {
    let host = Host::parse(host).unwrap();
    let question = Question {
        host: &host,
        port: Some(port),
        scheme: Some(scheme),
        request,
    };
    decide(snapshot, &question)
}

/// Why it is refused.
pub(super) fn reasons(document: Value) -> Vec<String> {
    Snapshot::compile(&policy(document), 1).unwrap_err()
}

/// `document` is refused for these, each at this place and with these words in it.
pub(super) fn refused(document: Value, expected: &[(&str, &str)]) {
    let found = reasons(document);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((at, words), reason) in expected.iter().zip(&found) {
        assert!(reason.starts_with(&format!("`{at}`: ")), "{at}: {reason}");
        assert!(reason.contains(words), "{words}: {reason}");
    }
}
