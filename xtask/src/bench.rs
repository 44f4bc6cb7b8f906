//! `cargo xtask bench process`: the figures of `docs/benchmarks.md`, with the peers installed.

use anyhow::{Context, Result, bail};

use crate::system;

/// Where the peers are, below the folder cargo builds in.
const PEERS: &str = "bench-peers";
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
    let target = system::target()?;
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
            .env("NAMZU_BENCH_PEERS", &peers)
            .env("NAMZU_BENCH_CLI", target.join("release/namzu-sandbox")),
    )
}
