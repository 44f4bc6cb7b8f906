//! What one worker weighs, and what two hundred live sandboxes weigh together.

use std::time::Instant;

use namzu_sandbox::SandboxProvider;
use namzu_sandbox::types::ExecRequest;

use crate::measure::{Row, human, median};
use crate::{Result, memory, spec};

const SANDBOXES: usize = 200;
/// How many of the first and of the last creates are compared: single ones are noise.
const EDGE: usize = 10;

pub(crate) async fn rows(provider: &SandboxProvider) -> Result<Vec<Row>> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let size = namzu_worker_image::WORKER.len() as u64;
    let first = provider.create(spec()).await?;
    first.exec(ExecRequest::new(["/bin/true"])).await?;
    let idle = memory::workers().first().map_or(0, |pid| memory::pss(*pid));
    first.destroy().await?;

    let host = memory::pss(std::process::id());
    let (mut live, mut times) = (Vec::new(), Vec::new());
    for _ in 0..SANDBOXES {
        let began = Instant::now();
        live.push(provider.create(spec()).await?);
        times.push(began.elapsed());
    }
    let inside: u64 = memory::descendants().into_iter().map(memory::pss).sum();
    let outside = memory::pss(std::process::id()).saturating_sub(host);
    let each = (inside + outside) / SANDBOXES as u64;
    for sandbox in &live {
        sandbox.destroy().await?;
    }
    let early = median(&mut times[..EDGE]);
    let late = median(&mut times[SANDBOXES - EDGE..]);
    let growth = late.as_secs_f64() / early.as_secs_f64();
    Ok(vec![
        Row {
            figure: "worker, stripped",
            ours: format!("{:.2} MiB", mib(size)),
            peer: "–".into(),
            ratio: "–".into(),
            bound: "≤ 3 MiB",
            met: size <= 3 << 20,
        },
        Row {
            figure: "worker, idle, proportional set",
            ours: format!("{:.2} MiB", mib(idle)),
            peer: "–".into(),
            ratio: "–".into(),
            bound: "≤ 2.5 MiB",
            met: idle > 0 && mib(idle) <= 2.5,
        },
        Row {
            figure: "200 live sandboxes: the last ten creates",
            ours: human(late),
            peer: format!("{} the first ten", human(early)),
            ratio: format!("{growth:.2} ×"),
            bound: "≤ 1.5 ×",
            met: growth <= 1.5,
        },
        Row {
            figure: "200 live sandboxes: memory each, all told",
            ours: format!("{:.2} MiB", mib(each)),
            peer: "–".into(),
            ratio: "–".into(),
            bound: "≤ 5 MiB",
            met: each > 0 && mib(each) <= 5.0,
        },
    ])
}
