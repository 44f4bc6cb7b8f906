//! The one function that lets anything out.

use std::cell::Cell;
use std::sync::Arc;

use ipnet::IpNet;

use super::table::Closeness;
use super::{Listed, Mode, Question, Rule, Schemes, Snapshot, Verdict, path, pattern, special};
use crate::{Host, Reason, Scheme};

/// Decides. The only function that lets anything out.
///
/// Of the rules that name the host any one may allow; what none allows is denied, and what `deniedHosts`
/// names is denied whatever allows it. Costs a hash per label and allocates nothing, but where rules of
/// different inward ranges allow at once.
#[must_use]
pub fn decide(snapshot: &Snapshot, question: &Question<'_>) -> Verdict {
    let verdict = match &snapshot.mode {
        Mode::DenyAll => denial(snapshot, Reason::DenyAll),
        Mode::AllowAll => everything(snapshot, question),
        Mode::Listed(listed) => listed.decide(snapshot, question),
    };
    match refused(&verdict, question) {
        Some(reason) => Verdict {
            reason,
            inward: Arc::clone(&snapshot.nowhere),
            ..verdict
        },
        None => verdict,
    }
}

/// Why something may not pass although a rule allows it.
fn refused(verdict: &Verdict, question: &Question<'_>) -> Option<Reason> {
    if !verdict.allows() {
        return None;
    }
    match question.request {
        // Either would hand a reflection, or a tunnel, to whoever holds no more than a request.
        Some((method, _)) if is_never_forwarded(method) => return Some(Reason::TraceRefused),
        _ => {}
    }
    let overfull = matches!(
        (question.host, &verdict.rule),
        (Host::Name(name), Some(rule)) if pattern::overfills(name, &rule.pattern)
    );
    overfull.then_some(Reason::NameTooLong)
}

/// Whether no rule lets a request with `method` pass. In any spelling: some servers do not look at the case.
#[must_use]
pub fn is_never_forwarded(method: &str) -> bool {
    // TRACK is TRACE to some servers.
    ["TRACE", "TRACK", "CONNECT"]
        .iter()
        .any(|never| method.eq_ignore_ascii_case(never))
}

fn denial(snapshot: &Snapshot, reason: Reason) -> Verdict {
    Verdict {
        reason,
        rule: None,
        schemes: Schemes::NONE,
        terminate: false,
        inward: Arc::clone(&snapshot.nowhere),
        generation: snapshot.generation,
    }
}

/// Names that lead inward need a rule that says so, and this policy has none.
fn everything(snapshot: &Snapshot, question: &Question<'_>) -> Verdict {
    match question.host {
        Host::Name(name) if name.is_single() || special::is_special(name) => {
            denial(snapshot, Reason::NotListed)
        }
        _ => Verdict {
            schemes: Schemes::ALL,
            ..denial(snapshot, Reason::Allowed)
        },
    }
}

impl Listed {
    fn decide(&self, snapshot: &Snapshot, question: &Question<'_>) -> Verdict {
        if let Some(rule) = self.denied_by(question.host) {
            return Verdict {
                rule: Some(Arc::clone(rule)),
                ..denial(snapshot, Reason::DeniedHost)
            };
        }
        let mut tally = Tally::new(question);
        self.allowed.visit(question.host, |closeness, group| {
            tally.add(closeness, group);
        });
        tally.verdict(snapshot)
    }

    fn denied_by(&self, host: &Host) -> Option<&Arc<Rule>> {
        let mut found = None;
        if !self.denied.is_empty() {
            self.denied.visit(host, |_, group| found = group.first());
        }
        found
    }
}

/// How far a rule goes along with a question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Host,
    Port,
    Scheme,
    Method,
    Allows,
}

/// Which of two rules decides: the one that goes further, then the closer one.
type Rank = (Stage, Closeness, usize, bool, bool, std::cmp::Reverse<u32>);

/// What the rules that name a host say, seen from the widest pattern to the closest.
struct Tally<'a> {
    question: &'a Question<'a>,
    plain: Cell<Option<bool>>,
    schemes: Schemes,
    terminate: bool,
    best: Option<(Rank, &'a Arc<Rule>)>,
    inward: Inward<'a>,
}

/// The inward ranges of the rules that allow.
enum Inward<'a> {
    None,
    One(&'a Arc<[IpNet]>),
    Many(Vec<IpNet>),
}

impl<'a> Tally<'a> {
    const fn new(question: &'a Question<'a>) -> Self {
        Self {
            question,
            plain: Cell::new(None),
            schemes: Schemes::NONE,
            terminate: false,
            best: None,
            inward: Inward::None,
        }
    }

    fn add(&mut self, closeness: Closeness, group: &'a [Arc<Rule>]) {
        for rule in group {
            let (stage, prefix) = self.stage(rule);
            if stage > Stage::Host {
                self.schemes = self.schemes.with(rule.scheme);
                // Later groups are closer, and one group never asks for both at one port.
                self.terminate = (self.terminate || rule.terminate) && !rule.passthrough;
            }
            if stage == Stage::Allows {
                self.inward.add(&rule.inward);
            }
            let rank = (
                stage,
                closeness,
                prefix,
                !rule.methods.is_empty(),
                rule.credential.is_some(),
                std::cmp::Reverse(rule.order),
            );
            if self.best.as_ref().is_none_or(|(best, _)| rank > *best) {
                self.best = Some((rank, rule));
            }
        }
    }

    /// How far `rule` goes along, and the length of the path prefix that lets it through.
    fn stage(&self, rule: &Rule) -> (Stage, usize) {
        let question = self.question;
        if question
            .port
            .is_some_and(|port| rule.ports.binary_search(&port).is_err())
        {
            return (Stage::Host, 0);
        }
        if question.scheme.is_some_and(|scheme| scheme != rule.scheme) {
            return (Stage::Port, 0);
        }
        let Some((method, path)) = question.request.filter(|_| rule.scheme != Scheme::Tcp) else {
            return (Stage::Allows, 0);
        };
        if !rule.methods.is_empty() && !rule.methods.iter().any(|own| **own == *method) {
            return (Stage::Scheme, 0);
        }
        if rule.paths.is_empty() {
            return (Stage::Allows, 0);
        }
        let below = rule.paths.iter().filter(|own| path::is_below(path, own));
        match below.map(|own| own.len()).max() {
            Some(prefix) if self.is_plain(path) => (Stage::Allows, prefix),
            _ => (Stage::Method, 0),
        }
    }

    fn is_plain(&self, path: &str) -> bool {
        if let Some(plain) = self.plain.get() {
            return plain;
        }
        let plain = path::is_plain(path);
        self.plain.set(Some(plain));
        plain
    }

    fn verdict(self, snapshot: &Snapshot) -> Verdict {
        let reason = match self.best.as_ref().map(|((stage, ..), _)| *stage) {
            None if matches!(self.question.host, Host::Address(_)) => Reason::AddressLiteral,
            None => Reason::NotListed,
            Some(Stage::Host) => Reason::PortNotListed,
            Some(Stage::Port) => Reason::SchemeNotListed,
            Some(Stage::Scheme) => Reason::MethodNotListed,
            Some(Stage::Method) => Reason::PathNotListed,
            Some(Stage::Allows) => Reason::Allowed,
        };
        Verdict {
            reason,
            rule: self.best.map(|(_, rule)| Arc::clone(rule)),
            schemes: self.schemes,
            terminate: self.terminate,
            inward: match self.inward {
                Inward::None => Arc::clone(&snapshot.nowhere),
                Inward::One(ranges) => Arc::clone(ranges),
                Inward::Many(ranges) => ranges.into(),
            },
            generation: snapshot.generation,
        }
    }
}

impl<'a> Inward<'a> {
    fn add(&mut self, ranges: &'a Arc<[IpNet]>) {
        if ranges.is_empty() {
            return;
        }
        match self {
            Self::None => *self = Self::One(ranges),
            Self::One(own) if *own == ranges => {}
            Self::One(own) => *self = Self::Many([&***own, &**ranges].concat()),
            Self::Many(own) => own.extend_from_slice(ranges),
        }
    }
}
