//! `cargo xtask bench`: the figures of `docs/benchmarks.md`, with the peers installed.

mod egress;
mod process;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::system;

/// Where the peers are, below the folder cargo builds in.
const PEERS: &str = "bench-peers";
const SRT: &str = "@anthropic-ai/sandbox-runtime";

/// Installs the peers and runs one group of benchmarks.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((group, rest)) if group == "process" => process::run(rest),
        Some((group, rest)) if group == "egress" => egress::run(rest),
        Some((group, _)) => {
            bail!("no benchmark is called `{group}`; there are `process` and `egress`")
        }
        None => bail!("which one? `cargo xtask bench process` or `cargo xtask bench egress`"),
    }
}

/// The folder of the peers, with srt in it.
fn peers(target: &Path) -> Result<PathBuf> {
    for (program, package) in [
        ("bwrap", "bubblewrap"),
        ("socat", "socat"),
        ("rg", "ripgrep"),
        ("npm", "npm"),
    ] {
        system::ensure(program, package)?;
    }
    let peers = target.join(PEERS);
    std::fs::create_dir_all(&peers).context("cannot make a folder for the peers")?;
    if !peers.join("node_modules/.bin/srt").exists() {
        std::fs::write(peers.join("package.json"), r#"{"private": true}"#)?;
        system::run(
            system::command("npm")
                .args(["install", "--silent", SRT])
                .current_dir(&peers),
        )?;
    }
    Ok(peers)
}

/// The command that runs a benchmark; what is added are its arguments.
fn bench(name: &str, peers: &Path) -> Command {
    let mut cargo = system::cargo();
    cargo
        .args(["bench", "--quiet", "--package", "namzu-sandbox", "--bench"])
        .args([name, "--"])
        .env("NAMZU_BENCH_PEERS", peers);
    cargo
}
