//! What is said about decisions and ends: to the audit, and to the counters.

use std::sync::atomic::Ordering::Relaxed;

use super::{Ask, Flow, Place, Via};
use crate::Reason;
use crate::audit::{Event, Line};
use crate::denial::{Denial, shown};
use crate::lock::locked;
use crate::policy::Verdict;

/// What is recorded of bytes that make no sense.
const RAW: usize = 256;
/// The longest path that is recorded.
const PATH: usize = 1024;
/// The most names of a chain that are recorded.
const CHAIN: usize = 16;

impl Place {
    /// Records a denial that was found out before there was a question to decide: of `raw`, or of more than
    /// there may be. Waits for the sandbox's turn, so that whoever is refused without end is not refused any
    /// faster than may be recorded.
    ///
    /// # Cancel safety
    ///
    /// Nothing was recorded.
    pub(crate) async fn refuse(
        &self,
        via: Via,
        raw: impl AsRef<[u8]> + Send,
        reason: Reason,
    ) -> Denial {
        self.audit.turn().await;
        self.outside.metrics.decided(via, reason);
        if self.audit.wanted() {
            let mut line = self.line(Event::Decision, via, reason);
            let raw = raw.as_ref();
            let raw = &raw[..raw.len().min(RAW)];
            line.raw = (!raw.is_empty()).then(|| shown(&String::from_utf8_lossy(raw)));
            self.audit.write(&line);
        }
        Denial::bare(reason)
    }

    /// Records a denial of something that was not admitted.
    pub(super) fn denied(&self, ask: &Ask, reason: Reason, verdict: Option<&Verdict>) -> Denial {
        self.outside.metrics.decided(ask.via, reason);
        if self.audit.wanted() {
            let line = self.decision(ask, reason, verdict);
            self.audit.write(&line);
        }
        denial(ask, reason, verdict)
    }

    /// Records a denial of something that had been admitted.
    pub(super) fn denied_flow(
        &self,
        flow: &Flow,
        reason: Reason,
        verdict: Option<&Verdict>,
    ) -> Denial {
        self.outside.metrics.decided(flow.ask.via, reason);
        let _ = flow.entry.failed.set(reason);
        if self.audit.wanted() {
            let seen = locked(&flow.entry.seen);
            let mut line = self.decision(&flow.ask, reason, verdict);
            line.flow = Some(flow.entry.number);
            line.ips = &seen.ips;
            line.chain = seen.chain.get(..CHAIN).unwrap_or(&seen.chain);
            self.audit.write(&line);
        }
        denial(&flow.ask, reason, verdict)
    }

    /// Records that something was admitted.
    pub(super) fn admitted(&self, flow: &Flow) {
        self.outside.metrics.decided(flow.ask.via, Reason::Allowed);
        if self.audit.wanted() {
            let mut line = self.decision(&flow.ask, Reason::Allowed, Some(&flow.verdict));
            line.flow = Some(flow.entry.number);
            self.audit.write(&line);
        }
    }

    /// A flow ends for `why`; counted here unless it was when it was found out.
    pub(super) fn failed(&self, flow: &Flow, why: Reason) {
        if flow.entry.failed.set(why).is_ok() {
            self.outside.metrics.decided(flow.ask.via, why);
        }
    }

    /// Records the end of a flow. A look-up is over when it is decided.
    pub(super) fn ended(&self, flow: &Flow) {
        let entry = &flow.entry;
        if entry.why().is_some() {
            self.outside.metrics.cut.fetch_add(1, Relaxed);
        }
        if flow.ask.via == Via::Dns || !self.audit.wanted() {
            return;
        }
        let why = entry.failed.get().copied().or_else(|| entry.why());
        let reason = why.unwrap_or(Reason::Allowed);
        let seen = locked(&entry.seen);
        let mut line = self.decision(&flow.ask, reason, Some(&flow.verdict));
        line.event = Event::End;
        line.flow = Some(entry.number);
        line.sni.clone_from(&seen.sni);
        line.alpn.clone_from(&seen.alpn);
        line.ips = &seen.ips;
        line.chain = seen.chain.get(..CHAIN).unwrap_or(&seen.chain);
        line.dialled = locked(&entry.known).peer;
        line.bytes_up = Some(entry.up.load(Relaxed));
        line.bytes_down = Some(entry.down.load(Relaxed));
        let lasted = entry.began.elapsed().as_millis();
        line.ms = Some(u64::try_from(lasted).unwrap_or(u64::MAX));
        line.cut = entry.why().map(|_| 1);
        self.audit.write(&line);
    }

    /// Records that another policy is in force.
    pub(super) fn changed(&self, generation: u64, kept: usize, cut: usize) {
        self.outside.metrics.changes.fetch_add(1, Relaxed);
        if self.audit.wanted() {
            let mut line = Line::new(Event::Policy, self.id.as_str(), generation);
            line.kept = u64::try_from(kept).ok();
            line.cut = u64::try_from(cut).ok();
            self.audit.write(&line);
        }
    }

    fn line(&self, event: Event, via: Via, reason: Reason) -> Line<'_> {
        let generation = self.regime.load().snapshot.generation;
        let mut line = Line::new(event, self.id.as_str(), generation);
        line.via = Some(via.code());
        line.reason = Some(reason.code());
        line.verdict = Some(match reason {
            Reason::Allowed => "allow",
            _ => "deny",
        });
        line
    }

    fn decision<'a>(&'a self, ask: &Ask, reason: Reason, verdict: Option<&'a Verdict>) -> Line<'a> {
        let mut line = self.line(Event::Decision, ask.via, reason);
        line.host = Some(ask.host.to_string());
        line.port = (ask.port != 0).then_some(ask.port);
        line.scheme = ask.scheme;
        if let Some((method, path)) = &ask.request {
            line.method = Some(shown(method));
            line.path = Some(start(path, PATH).escape_debug().collect());
        }
        if let Some(verdict) = verdict {
            line.generation = verdict.generation;
            if let Some(rule) = &verdict.rule {
                line.rule = Some(&rule.id);
                line.credential = rule.credential.as_deref();
            }
        }
        line
    }
}

fn denial(ask: &Ask, reason: Reason, verdict: Option<&Verdict>) -> Denial {
    let denial = Denial::of(ask, reason);
    match verdict {
        Some(verdict) => denial.by(verdict),
        None => denial,
    }
}

/// No more than the first `most` bytes.
fn start(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}
