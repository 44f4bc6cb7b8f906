//! The process tier against the host itself and other sandboxes.

use anyhow::Result;

use crate::system;

pub(super) fn run(arguments: &[String]) -> Result<()> {
    system::ensure("firejail", "firejail")?;
    let target = system::target()?;
    let peers = super::peers(&target)?;
    system::run(system::cargo().args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "namzu-sandbox-cli",
    ]))?;
    system::run(
        super::bench("process", &peers)
            .args(arguments)
            .env("NAMZU_BENCH_CLI", target.join("release/namzu-sandbox")),
    )
}
