//! The figures of the egress section of `docs/benchmarks.md`: the boundary against no proxy at all, and
//! against other proxies.
//!
//! Run with `cargo xtask bench egress`, which installs the peers first. Everything it measures is a
//! process of its own, so that processor time and memory are those of the proxy and of nothing else: the
//! boundary runs in this program, started again with a role. All traffic stays on the loopback and in the
//! network of the sandbox that it makes.
#![expect(clippy::print_stdout, reason = "the table is its output")]
#![expect(
    clippy::cast_precision_loss,
    reason = "figures are printed with three digits"
)]

mod boundary;
mod client;
mod decide;
mod fresh;
mod idle;
mod live;
#[path = "../process/measure.rs"]
#[expect(dead_code, reason = "durations of futures are measured elsewhere")]
mod measure;
mod peers;
mod plain;
mod proc;
mod sample;
mod secure;
mod soak;
mod subject;
mod tunnel;
mod upstream;

use std::time::Duration;

use crate::subject::Ground;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((role, rest)) = arguments
        .split_first()
        .and_then(|(first, rest)| Some((first.strip_prefix("role=")?, rest)))
    {
        return act(role, rest);
    }
    if arguments.iter().any(|argument| argument == "--soak") {
        let row = soak::row(Duration::from_secs(600))?;
        measure::print(&[row]);
        return Ok(());
    }
    // `cargo bench` passes flags of its own; a word selects groups.
    let wanted: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let wants = |group: &str| wanted.is_empty() || wanted.iter().any(|w| *w == group);
    let mut rows = Vec::new();
    if wants("decide") {
        rows.push(decide::row()?);
    }
    if wants("idle") {
        rows.push(idle::row()?);
    }
    if wants("live") {
        rows.push(live::row()?);
    }
    if ["tunnel", "fresh", "plain", "secure"]
        .into_iter()
        .any(wants)
    {
        let ground = Ground::new()?;
        if wants("tunnel") {
            rows.extend(tunnel::rows(&ground)?);
        }
        if wants("fresh") {
            rows.extend(fresh::rows(&ground)?);
        }
        if wants("plain") {
            rows.push(plain::row(&ground)?);
        }
        if wants("secure") {
            rows.extend(secure::rows(&ground)?);
        }
    }
    if wants("soak") {
        rows.push(soak::row(Duration::from_secs(20))?);
    }
    measure::print(&rows);
    Ok(())
}

/// What this program is when it was started by itself.
fn act(role: &str, arguments: &[String]) -> Result<()> {
    match role {
        "upstream" => upstream::act(),
        "proxy" => boundary::act_proxy(arguments),
        "sandbox" => boundary::act_sandbox(arguments),
        "client" => client::act(arguments),
        _ => Err(format!("there is no role `{role}`").into()),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    Ok(runtime)
}
