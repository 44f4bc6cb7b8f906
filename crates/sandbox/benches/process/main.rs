//! The figures of `docs/benchmarks.md`: the process tier against the host itself and its peers.
//!
//! Run with `cargo xtask bench process`, which installs the peers first.
#![expect(clippy::print_stdout, reason = "the table is its output")]
#![expect(
    clippy::cast_precision_loss,
    reason = "figures are printed with three digits"
)]

mod data;
mod latency;
mod measure;
mod memory;
mod peers;
mod scale;

use namzu_sandbox::types::SandboxSpec;
use namzu_sandbox::{SandboxProvider, SandboxProviderConfig, create_sandbox_provider};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    // `cargo bench` passes flags of its own; a word selects groups.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let wants = |group: &str| wanted.is_empty() || wanted.iter().any(|w| w == group);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let provider = provider()?;
        let mut rows = Vec::new();
        if wants("latency") {
            rows.extend(latency::rows(&provider).await?);
        }
        if wants("data") {
            rows.extend(data::rows(&provider).await?);
        }
        if wants("scale") {
            rows.extend(scale::rows(&provider).await?);
        }
        measure::print(&rows);
        Ok(())
    })
}

fn provider() -> Result<SandboxProvider> {
    let config = SandboxProviderConfig::from_json_str(
        r#"{"backend": {"tier": "process", "engine": "bubblewrap"}}"#,
    )?;
    Ok(create_sandbox_provider(&config)?)
}

/// The release build of the command line.
fn cli() -> Result<String> {
    let path = std::env::var("NAMZU_BENCH_CLI")
        .map_err(|_| "NAMZU_BENCH_CLI is not set: run `cargo xtask bench process`")?;
    Ok(path)
}

fn spec() -> SandboxSpec {
    SandboxSpec::default()
}
