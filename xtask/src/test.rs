//! `cargo xtask test`: every test, after installing what they need.

use std::path::Path;

use anyhow::{Context, Result};

use crate::system;

/// Where the SDK tests look, below the folder cargo builds in: in what it gives integration tests.
const SDKS: &str = "tmp/e2b-sdk";
const PYTHON_SDKS: &[&str] = &["2.63.0", "2.37.1"];
const NODE_SDK: &str = "2.51.0";

/// Where the tests of guests look, likewise, and the libraries that are guests.
const GUESTS: &str = "tmp/guests";
const GUEST_LIBRARIES: &[&str] = &[
    "aiohttp==3.14.5",
    "grpcio==1.85.3",
    "httpx==0.28.1",
    "requests==2.34.2",
    "websockets==17.4",
];

/// Runs the whole workspace's tests; `arguments` go to `cargo test`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    system::ensure("bwrap", "bubblewrap")?;
    for (program, package) in [
        ("python3", "python3"),
        ("node", "nodejs"),
        ("npm", "npm"),
        ("git", "git"),
        ("ip", "iproute2"),
        ("curl", "curl"),
        ("wget", "wget"),
        ("ssh", "openssh-client"),
        ("go", "golang-go"),
        ("javac", "default-jdk-headless"),
    ] {
        if let Err(missing) = system::ensure(program, package) {
            say(&format!(
                "{missing:#}: the tests that need it will be ignored"
            ));
        }
    }
    if !system::on_path("sshd") {
        // Not installed here: a distribution starts it right away, for everybody to connect to.
        say("there is no `sshd` (openssh-server): the test of git over ssh will be ignored");
    }
    let target = system::target()?;
    for (required, installed) in [
        ("e2b-sdk", install_sdks(&target.join(SDKS))),
        ("guests", install_guests(&target.join(GUESTS))),
    ] {
        if let Err(why) = installed {
            say(&format!(
                "{why:#}: the tests that need it will be ignored, or fail where NAMZU_REQUIRE names {required}"
            ));
        }
    }
    system::run(
        system::cargo()
            .args(["test", "--workspace"])
            .args(arguments),
    )
}

#[expect(clippy::print_stderr, reason = "xtask talks to a person")]
fn say(text: &str) {
    eprintln!("xtask: {text}");
}

/// The official E2B SDKs, unchanged, each version in a folder of its own.
fn install_sdks(root: &Path) -> Result<()> {
    std::fs::create_dir_all(root).context("cannot make a folder for the SDKs")?;
    for version in PYTHON_SDKS {
        install(&root.join(format!("python-{version}")), |folder| {
            python(folder, &[&format!("e2b=={version}")])
        })?;
    }
    install(&root.join(format!("node-{NODE_SDK}")), |folder| {
        std::fs::write(
            folder.join("package.json"),
            r#"{"private": true, "type": "module"}"#,
        )?;
        system::run(
            system::command("npm")
                .args(["install", "--silent", &format!("e2b@{NODE_SDK}")])
                .current_dir(folder),
        )
    })
}

/// Libraries that go through the egress boundary without being changed.
fn install_guests(root: &Path) -> Result<()> {
    std::fs::create_dir_all(root).context("cannot make a folder for the guests")?;
    install(&root.join("python"), |folder| {
        python(folder, GUEST_LIBRARIES)
    })
}

/// A Python of its own with these packages.
fn python(folder: &Path, packages: &[&str]) -> Result<()> {
    if system::run(system::command("python3").args(["-m", "venv"]).arg(folder)).is_err() {
        // Debian ships venv apart from Python.
        system::ensure("python3-venv", "python3-venv").ok();
        system::run(
            system::command("python3")
                .args(["-m", "venv", "--clear"])
                .arg(folder),
        )?;
    }
    system::run(
        system::command(folder.join("bin/pip"))
            .args(["install", "--quiet"])
            .args(packages),
    )
}

/// Fills a folder once: a half-filled one does not count.
fn install(folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let done = folder.join(".installed");
    if done.exists() {
        return Ok(());
    }
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    let filled = fill(folder).and_then(|()| Ok(std::fs::write(&done, "")?));
    if filled.is_err() {
        std::fs::remove_dir_all(folder)?;
    }
    filled.with_context(|| format!("cannot install {}", folder.display()))
}
