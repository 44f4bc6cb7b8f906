//! The egress boundary against no proxy and other proxies.

use std::path::Path;

use anyhow::Result;

use crate::system;

/// The folder of mitmproxy, below that of the peers: an environment of its own.
const MITMPROXY: &str = "mitm";

/// What is measured without anybody else: CI runs it, so that the rest builds and these do not rot.
const ALONE: &[&str] = &["decide", "live", "soak", "--soak"];

pub(super) fn run(arguments: &[String]) -> Result<()> {
    if !arguments.is_empty()
        && arguments
            .iter()
            .all(|group| ALONE.contains(&group.as_str()))
    {
        let peers = system::target()?.join(super::PEERS);
        return system::run(super::bench("egress", &peers).args(arguments));
    }
    // Distributions name the package after the program, Debian has a second one of squid that has it too.
    for program in ["squid", "tinyproxy", "nginx", "wrk"] {
        system::ensure(program, program)?;
    }
    let peers = super::peers(&system::target()?)?;
    mitmproxy(&peers)?;
    system::run(super::bench("egress", &peers).args(arguments))
}

fn mitmproxy(peers: &Path) -> Result<()> {
    let folder = peers.join(MITMPROXY);
    if folder.join("bin/mitmdump").exists() {
        return Ok(());
    }
    system::ensure("python3", "python3")?;
    system::run(system::command("python3").args(["-m", "venv"]).arg(&folder))?;
    system::run(system::command(folder.join("bin/pip")).args(["install", "--quiet", "mitmproxy"]))
}
