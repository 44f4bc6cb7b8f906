//! `cargo xtask bench process`: the figures of `docs/benchmarks.md`, with the peers installed.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::system;

const PEERS: &str = "target/bench-peers";
const SRT: &str = "@anthropic-ai/sandbox-runtime";

/// Installs the peers, builds the command line and runs one group of benchmarks.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let Some((group, rest)) = arguments.split_first() else {
        bail!("which one? `cargo xtask bench process`")
    };
    if group != "process" {
        bail!("no benchmark is called `{group}`; there is `process`");
    }
    system::ensure("bwrap", "bubblewrap")?;
    for (program, package) in [
        ("firejail", "firejail"),
        ("socat", "socat"),
        ("rg", "ripgrep"),
        ("npm", "npm"),
    ] {
        system::ensure(program, package)?;
    }
    let peers = Path::new(PEERS);
    std::fs::create_dir_all(peers).context("cannot make a folder for the peers")?;
    if !peers.join("node_modules/.bin/srt").exists() {
        std::fs::write(peers.join("package.json"), r#"{"private": true}"#)?;
        system::run(
            system::command("npm")
                .args(["install", "--silent", SRT])
                .current_dir(peers),
        )?;
    }
    system::run(system::cargo().args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "namzu-sandbox-cli",
    ]))?;
    system::run(
        system::cargo()
            .args([
                "bench",
                "--quiet",
                "--package",
                "namzu-sandbox",
                "--bench",
                "process",
                "--",
            ])
            .args(rest)
            .env("NAMZU_BENCH_PEERS", peers.canonicalize()?)
            .env(
                "NAMZU_BENCH_CLI",
                Path::new("target/release/namzu-sandbox").canonicalize()?,
            ),
    )
}
