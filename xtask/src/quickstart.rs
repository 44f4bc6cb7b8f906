//! `cargo xtask quickstart`: from a fresh clone to the main job, in one command.

use anyhow::Result;

use crate::system;

/// Installs bubblewrap if it is missing, builds the command line and runs a program in a sandbox.
pub(crate) fn run() -> Result<()> {
    system::ensure("bwrap", "bubblewrap")?;
    system::ensure("python3", "python3")?;
    let program = ["python3", "-c", "print(2**64)"];
    system::run(
        system::cargo()
            .args([
                "run",
                "--quiet",
                "--release",
                "--package",
                "namzu-sandbox-cli",
                "--",
                "run",
                "--receipt",
                "--",
            ])
            .args(program),
    )
}
