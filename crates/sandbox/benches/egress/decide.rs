//! The decision by itself.

use std::time::{Duration, Instant};

use namzu_sandbox::EgressPolicy;
use namzu_sandbox::egress::policy::{Question, Snapshot, decide};
use namzu_sandbox::egress::{Host, Name};
use serde_json::json;

use crate::Result;
use crate::measure::Row;
use crate::sample::{Dice, percentile};

const RULES: usize = 10_000;
const ROUNDS: usize = 4_000;
/// Few enough that a round is over before somebody else gets the processor.
const EACH: usize = 500;

pub(crate) fn row() -> Result<Row> {
    let rules: Vec<_> = (0..RULES)
        .map(|at| match at % 4 {
            0 => json!({"host": format!("*.zone{at}.example.com")}),
            1 => json!({"host": format!("**.deep.zone{at}.example.org"), "ports": [443, 8443]}),
            2 => json!({"host": format!("host{at}.example.net"), "methods": ["GET"], "paths": ["/v1/"]}),
            _ => json!({"host": format!("host{at}.example.io")}),
        })
        .collect();
    let policy: EgressPolicy = serde_json::from_value(json!({"kind": "static", "rules": rules}))?;
    let began = Instant::now();
    let snapshot = Snapshot::compile(&policy, 1).map_err(|reasons| reasons.join("; "))?;
    let compiled = began.elapsed();
    let hosts = hosts()?;
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let mut times = Vec::new();
    let mut allowed = 0_usize;
    for _ in 0..ROUNDS {
        let asked: Vec<&Host> = (0..EACH)
            .filter_map(|_| {
                let at = usize::try_from(dice.below(hosts.len() as u64)).ok()?;
                hosts.get(at)
            })
            .collect();
        let began = Instant::now();
        for host in asked {
            let question = Question {
                host,
                port: Some(443),
                scheme: None,
                request: Some(("GET", "/v1/things")),
            };
            allowed += usize::from(decide(&snapshot, &question).allows());
        }
        times.push(began.elapsed() / u32::try_from(EACH)?);
    }
    // Half of the hosts are named by no rule.
    let share = allowed as f64 / (ROUNDS * EACH) as f64;
    if !(0.45..0.55).contains(&share) {
        return Err(format!("{share:.2} of what was asked for is allowed").into());
    }
    let nanos = |time: Duration| format!("{} ns", time.as_nanos());
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    Ok(Row {
        figure: "decision at 10,000 rules, half of them denials",
        ours: format!("{}; slowest 1 % of rounds {}", nanos(p50), nanos(p99)),
        peer: "–".to_owned(),
        ratio: format!("compiled in {:.0} ms", compiled.as_secs_f64() * 1e3),
        bound: "≤ 1 µs",
        met: p50 <= Duration::from_micros(1),
    })
}

/// One host for each rule, and as many that no rule names.
fn hosts() -> Result<Vec<Host>> {
    let mut hosts = Vec::new();
    for at in 0..RULES {
        let named = match at % 4 {
            0 => format!("a.b.zone{at}.example.com"),
            1 => format!("x.deep.zone{at}.example.org"),
            2 => format!("host{at}.example.net"),
            _ => format!("host{at}.example.io"),
        };
        for text in [named, format!("host{at}.elsewhere.example.com")] {
            hosts.push(Host::Name(Name::parse(&text)?));
        }
    }
    Ok(hosts)
}
