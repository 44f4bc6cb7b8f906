//! Policies to snapshots: everything that is wrong with one is found at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ipnet::IpNet;
use namzu_types::{EgressCredential, EgressLimits, EgressRule};

use super::{Listed, MAX_ENTRIES, MAX_PORTS, MAX_RULES_PER_HOST, Pattern, Rule, credential, rule};
use crate::Scheme;

/// A document of nothing but faults is not answered with a longer one.
const MAX_REASONS: usize = 64;

/// What a static policy lists.
pub(super) struct Lists<'a> {
    pub(super) allowed_hosts: &'a [String],
    pub(super) rules: &'a [EgressRule],
    pub(super) denied_hosts: &'a [String],
    pub(super) credentials: &'a BTreeMap<String, EgressCredential>,
}

/// What is wrong with a policy.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    first: Vec<String>,
    count: usize,
}

impl Reasons {
    /// Adds one.
    pub(super) fn push(&mut self, at: &str, why: &str) {
        if self.count < MAX_REASONS {
            self.first.push(format!("`{at}`: {why}"));
        }
        self.count += 1;
    }

    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    fn into_result<T>(mut self, value: T) -> Result<T, Vec<String>> {
        match self.count.checked_sub(MAX_REASONS) {
            _ if self.count == 0 => return Ok(value),
            None | Some(0) => {}
            Some(more) => self.first.push(format!("and {more} more")),
        }
        Err(self.first)
    }
}

/// Compiles a static policy.
pub(super) fn listed(lists: &Lists<'_>, limits: &EgressLimits) -> Result<Listed, Vec<String>> {
    let mut building = Building::default();
    let entries = lists.allowed_hosts.len() + lists.rules.len() + lists.denied_hosts.len();
    if !building.fits(entries) {
        return building.reasons.into_result(Listed::default());
    }
    building.rules(lists.rules);
    building.hosts("allowedHosts", lists.allowed_hosts, Twice::Refused);
    building.denied(lists.denied_hosts);
    credential::check(lists.credentials, lists.rules, &mut building.reasons);
    check_limits(limits, &mut building.reasons);
    building.finish()
}

/// Compiles a resolver's answer.
pub(super) fn answer(hosts: &[String]) -> Result<Listed, Vec<String>> {
    let mut building = Building::default();
    if building.fits(hosts.len()) {
        building.hosts("resolve", hosts, Twice::PassedOver);
        // Also of an answer without hosts: the next one has some, and the doors stay as they are.
        building.ports.extend([80, 443]);
    }
    building.finish()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Twice {
    Refused,
    PassedOver,
}

#[derive(Default)]
struct Building {
    listed: Listed,
    reasons: Reasons,
    order: u32,
    ports: BTreeSet<u16>,
    per_host: HashMap<Pattern, Vec<Arc<Rule>>>,
}

impl Building {
    fn fits(&mut self, entries: usize) -> bool {
        let fits = entries <= MAX_ENTRIES;
        if !fits {
            let why = format!("has {entries} hosts and rules; there may be {MAX_ENTRIES}");
            self.reasons.push("rules", &why);
        }
        fits
    }

    fn rules(&mut self, rules: &[EgressRule]) {
        for (index, one) in rules.iter().enumerate() {
            let at = format!("rules[{index}]");
            if let Some((pattern, compiled)) =
                rule::compile(one, &at, self.order, &mut self.reasons)
            {
                self.compare(&pattern, &compiled);
                self.insert(pattern, compiled);
            }
        }
    }

    fn hosts(&mut self, list: &str, hosts: &[String], twice: Twice) {
        let nowhere: Arc<[IpNet]> = Arc::from([]);
        let mut seen = HashMap::new();
        for (index, text) in hosts.iter().enumerate() {
            let text = match twice {
                Twice::Refused => text.as_str(),
                Twice::PassedOver => text.trim(),
            };
            if text.is_empty() && twice == Twice::PassedOver {
                continue;
            }
            let at = format!("{list}[{index}]");
            match rule::host(text, &[]) {
                Err(why) => self.reasons.push(&at, &why),
                Ok(pattern) => match seen.insert(pattern.clone(), index) {
                    Some(first) if twice == Twice::Refused => {
                        self.reasons
                            .push(&at, &format!("is there already, at [{first}]"));
                    }
                    Some(_) => {}
                    None => {
                        for scheme in [Scheme::Https, Scheme::Http] {
                            let one = rule::plain(&at, text, scheme, self.order, &nowhere);
                            self.insert(pattern.clone(), one);
                        }
                    }
                },
            }
        }
    }

    fn denied(&mut self, hosts: &[String]) {
        let nowhere: Arc<[IpNet]> = Arc::from([]);
        let mut seen = HashMap::new();
        for (index, text) in hosts.iter().enumerate() {
            let at = format!("deniedHosts[{index}]");
            // Nothing is too broad to be denied.
            match Pattern::parse(text) {
                Err(why) => self.reasons.push(&at, &why),
                Ok(pattern) => {
                    if let Some(first) = seen.insert(pattern.clone(), index) {
                        self.reasons
                            .push(&at, &format!("is there already, at [{first}]"));
                    }
                    let one = Arc::new(rule::plain(&at, text, Scheme::Tcp, 0, &nowhere));
                    self.listed.denied.insert(&pattern, &one);
                }
            }
        }
    }

    /// Holds a rule against the earlier ones for the same host.
    fn compare(&mut self, pattern: &Pattern, new: &Rule) {
        let Some(earlier) = self.per_host.get(pattern) else {
            return;
        };
        if earlier.len() >= MAX_RULES_PER_HOST {
            let why = format!("has more than {MAX_RULES_PER_HOST} rules");
            self.reasons.push(&format!("{}.host", new.id), &why);
            return;
        }
        for old in earlier {
            if says_the_same(old, new) {
                let why = format!("says what `{}` says", old.id);
                self.reasons.push(&new.id, &why);
            }
            let at_odds = (old.passthrough && new.terminate) || (old.terminate && new.passthrough);
            if at_odds && old.ports.iter().any(|port| new.ports.contains(port)) {
                let why = format!(
                    "TLS cannot be both ended and `passthrough` at one host and port: see `{}`",
                    old.id
                );
                self.reasons.push(&format!("{}.tls", new.id), &why);
            }
        }
    }

    fn insert(&mut self, pattern: Pattern, rule: Rule) {
        self.order += 1;
        self.ports.extend(&rule.ports);
        self.listed.terminates |= rule.terminate;
        let rule = Arc::new(rule);
        self.listed.allowed.insert(&pattern, &rule);
        self.per_host.entry(pattern).or_default().push(rule);
    }

    fn finish(mut self) -> Result<Listed, Vec<String>> {
        if self.ports.len() > MAX_PORTS {
            let why = format!(
                "name {} different ports; there may be {MAX_PORTS}",
                self.ports.len()
            );
            self.reasons.push("rules", &why);
        }
        self.listed.ports = self.ports.into_iter().collect();
        self.reasons.into_result(self.listed)
    }
}

/// But for the credential: of two rules that let the same pass one would never be given its own.
fn says_the_same(old: &Rule, new: &Rule) -> bool {
    old.scheme == new.scheme
        && same_set(&old.ports, &new.ports)
        && same_set(&old.methods, &new.methods)
        && same_set(&old.paths, &new.paths)
}

fn same_set<T: Ord>(one: &[T], other: &[T]) -> bool {
    let sorted = |list: &[T]| list.iter().collect::<BTreeSet<_>>().len();
    one.len() == other.len()
        && sorted(one) == sorted(other)
        && one.iter().all(|item| other.contains(item))
}

fn check_limits(limits: &EgressLimits, reasons: &mut Reasons) {
    let EgressLimits {
        flows,
        flows_per_second,
        bytes_up,
        bytes_down,
        names_per_minute,
    } = limits;
    for (field, zero) in [
        ("flows", *flows == Some(0)),
        ("flowsPerSecond", *flows_per_second == Some(0)),
        ("bytesUp", *bytes_up == Some(0)),
        ("bytesDown", *bytes_down == Some(0)),
        ("namesPerMinute", *names_per_minute == Some(0)),
    ] {
        if zero {
            let why = "is 0, which lets nothing flow; say `deny-all` if that is meant";
            reasons.push(&format!("limits.{field}"), why);
        }
    }
}
