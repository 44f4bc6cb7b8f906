//! What the tests and the quick start need from the system, installed through its own package
//! manager.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// One package manager, and the words with which it installs without asking.
struct Manager {
    program: &'static str,
    install: &'static [&'static str],
}

const MANAGERS: &[Manager] = &[
    Manager {
        program: "apt-get",
        install: &["install", "-y", "--no-install-recommends"],
    },
    Manager {
        program: "dnf",
        install: &["install", "-y"],
    },
    Manager {
        program: "pacman",
        install: &["-S", "--noconfirm", "--needed"],
    },
    Manager {
        program: "apk",
        install: &["add"],
    },
    Manager {
        program: "zypper",
        install: &["--non-interactive", "install"],
    },
];

/// Makes sure that `program` is there, installing `package` when it is not.
///
/// # Errors
///
/// When it is missing and cannot be installed: the message names the package.
pub(crate) fn ensure(program: &str, package: &str) -> Result<()> {
    if on_path(program) {
        return Ok(());
    }
    let Some(manager) = MANAGERS.iter().find(|m| on_path(m.program)) else {
        bail!("`{program}` is missing and no package manager is known here: install `{package}`");
    };
    if manager.program == "apt-get" {
        // A fresh machine has no package lists; a failure shows in the install that follows.
        let _ = as_root("apt-get").args(["update", "-qq"]).status();
    }
    let status = as_root(manager.program)
        .args(manager.install)
        .arg(package)
        .status()
        .with_context(|| format!("cannot start {}", manager.program))?;
    if !status.success() || !on_path(program) {
        bail!(
            "`{program}` is missing and {} could not install `{package}`",
            manager.program
        );
    }
    Ok(())
}

/// Runs a program and fails with its name when it fails.
///
/// # Errors
///
/// When it cannot be started or exits with anything but 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command
        .status()
        .with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown} failed: {status}");
    }
    Ok(())
}

/// A program with this process's environment.
#[expect(
    clippy::disallowed_methods,
    reason = "xtask is a developer's tool: it runs with the developer's environment"
)]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// The same cargo that runs us, in the root of the workspace.
pub(crate) fn cargo() -> Command {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::root());
    cargo
}

/// The folder that [`cargo`] builds in, absolute: where the environment or a configuration puts it.
///
/// # Errors
///
/// When cargo does not say.
pub(crate) fn target() -> Result<PathBuf> {
    let asked = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    let told: Value = serde_json::from_slice(&asked.stdout).context("cargo says nothing of us")?;
    told["target_directory"]
        .as_str()
        .map(PathBuf::from)
        .context("cargo does not say where it builds")
}

/// Whether a program is found on `PATH`.
pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|dir| dir.join(program).is_file())
}

fn as_root(program: &str) -> Command {
    let root =
        std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if root || !Path::new("/usr/bin/sudo").exists() {
        return command(program);
    }
    let mut sudo = command("sudo");
    sudo.arg(program);
    sudo
}
