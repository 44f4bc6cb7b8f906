//! `cargo xtask quickstart`: from a fresh clone to the main job, in one command.

use anyhow::Result;

use crate::system;

/// Installs bubblewrap if it is missing, builds the command line and runs a program in a sandbox.
#[expect(clippy::print_stderr, reason = "xtask talks to a person")]
pub(crate) fn run() -> Result<()> {
    system::ensure("bwrap", "bubblewrap")?;
    system::ensure("python3", "python3")?;
    eprintln!("xtask: building namzu-sandbox, a few minutes the first time");
    let ours = ["--release", "--package", "namzu-sandbox-cli"];
    // Not quietly: minutes without a word look like a program that hangs.
    system::run(system::cargo().arg("build").args(ours))?;
    let program = [
        "--",
        "run",
        "--receipt",
        "--",
        "python3",
        "-c",
        "print(2**64)",
    ];
    system::run(
        system::cargo()
            .args(["run", "--quiet"])
            .args(ours)
            .args(program),
    )?;
    eprintln!("xtask: to have it on your PATH: cargo install --locked --path crates/cli");
    Ok(())
}
