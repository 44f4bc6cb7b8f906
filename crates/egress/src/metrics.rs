//! Counters, in Prometheus' text format.

use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::Reason;
use crate::place::Via;

/// Counters of a boundary, over all its sandboxes. None is named in a label: their number has no bound.
#[derive(Debug)]
pub struct Metrics {
    /// By reason, then by way.
    decisions: Vec<[AtomicU64; Via::ALL.len()]>,
    pub(crate) flows: AtomicU64,
    pub(crate) up: AtomicU64,
    pub(crate) down: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) dials: Outcome,
    pub(crate) lookups: Outcome,
    pub(crate) resolvers: Outcome,
    pub(crate) audit_lines: Outcome,
    pub(crate) audit_lost: AtomicU64,
    pub(crate) changes: AtomicU64,
}

/// How often something went well and how often it did not.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    ok: AtomicU64,
    failed: AtomicU64,
}

impl Outcome {
    pub(crate) fn count<T, E>(&self, result: &Result<T, E>) {
        let counter = if result.is_ok() {
            &self.ok
        } else {
            &self.failed
        };
        counter.fetch_add(1, Relaxed);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            decisions: Reason::ALL.iter().map(|_| Default::default()).collect(),
            flows: AtomicU64::default(),
            up: AtomicU64::default(),
            down: AtomicU64::default(),
            cut: AtomicU64::default(),
            dials: Outcome::default(),
            lookups: Outcome::default(),
            resolvers: Outcome::default(),
            audit_lines: Outcome::default(),
            audit_lost: AtomicU64::default(),
            changes: AtomicU64::default(),
        }
    }
}

impl Metrics {
    pub(crate) fn decided(&self, via: Via, reason: Reason) {
        if let Some(row) = self.decisions.get(reason as usize) {
            row[via as usize].fetch_add(1, Relaxed);
        }
    }

    /// All counters, as Prometheus scrapes them (text format 0.0.4).
    #[must_use]
    pub fn render(&self) -> String {
        let mut page = Page(String::new());
        page.head(
            "decisions_total",
            "counter",
            "What was asked for, by way, verdict and reason.",
        );
        for (reason, row) in Reason::ALL.iter().zip(&self.decisions) {
            for (via, count) in Via::ALL.iter().zip(row) {
                let count = count.load(Relaxed);
                if count > 0 {
                    let verdict = match reason {
                        Reason::Allowed => "allow",
                        _ => "deny",
                    };
                    let labels = format!(
                        "via=\"{}\",verdict=\"{verdict}\",reason=\"{}\"",
                        via.code(),
                        reason.code()
                    );
                    page.value("decisions_total", &labels, count);
                }
            }
        }
        page.head("flows", "gauge", "Flows that are not over.");
        page.value("flows", "", self.flows.load(Relaxed));
        page.head("flows_cut_total", "counter", "Flows that had to end.");
        page.value("flows_cut_total", "", self.cut.load(Relaxed));
        page.head(
            "policy_changes_total",
            "counter",
            "Policies put in force after the first.",
        );
        page.value("policy_changes_total", "", self.changes.load(Relaxed));
        page.head(
            "bytes_total",
            "counter",
            "Bytes carried, as seen from a sandbox.",
        );
        page.value("bytes_total", "way=\"up\"", self.up.load(Relaxed));
        page.value("bytes_total", "way=\"down\"", self.down.load(Relaxed));
        for (name, help, outcome) in [
            ("dials_total", "Connections to the outside.", &self.dials),
            ("lookups_total", "Names resolved outside.", &self.lookups),
            (
                "resolver_calls_total",
                "Policies asked for.",
                &self.resolvers,
            ),
            (
                "audit_lines_total",
                "Audit lines written.",
                &self.audit_lines,
            ),
        ] {
            page.head(name, "counter", help);
            page.value(name, "outcome=\"ok\"", outcome.ok.load(Relaxed));
            page.value(name, "outcome=\"failed\"", outcome.failed.load(Relaxed));
        }
        page.head(
            "audit_lost_total",
            "counter",
            "Refusals that found no room in the audit's queue.",
        );
        page.value("audit_lost_total", "", self.audit_lost.load(Relaxed));
        page.0
    }
}

/// The text so far. Writing to a string does not fail.
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(
            self.0,
            "# HELP namzu_egress_{name} {help}\n# TYPE namzu_egress_{name} {kind}\n"
        );
    }

    fn value(&mut self, name: &str, labels: &str, value: u64) {
        let _ = if labels.is_empty() {
            writeln!(self.0, "namzu_egress_{name} {value}")
        } else {
            writeln!(self.0, "namzu_egress_{name}{{{labels}}} {value}")
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decided_is_counted_by_way_and_reason() {
        let metrics = Metrics::default();
        metrics.decided(Via::Connect, Reason::NotListed);
        metrics.decided(Via::Connect, Reason::NotListed);
        metrics.decided(Via::Dns, Reason::Allowed);
        metrics.dials.count(&Err::<(), ()>(()));
        let page = metrics.render();
        for line in [
            "namzu_egress_decisions_total{via=\"connect\",verdict=\"deny\",reason=\"not_listed\"} 2",
            "namzu_egress_decisions_total{via=\"dns\",verdict=\"allow\",reason=\"allowed\"} 1",
            "namzu_egress_dials_total{outcome=\"failed\"} 1",
            "namzu_egress_flows 0",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}\n{page}");
        }
    }

    #[test]
    fn every_reason_has_its_place() {
        let metrics = Metrics::default();
        for (at, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, at);
            for via in Via::ALL {
                metrics.decided(*via, *reason);
            }
        }
        let lines = metrics.render();
        let count = lines
            .lines()
            .filter(|l| l.starts_with("namzu_egress_decisions_total{"))
            .count();
        assert_eq!(count, Reason::ALL.len() * Via::ALL.len());
    }
}
