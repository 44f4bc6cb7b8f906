//! Builds the worker statically with a nested `cargo build` and leaves its bytes in `OUT_DIR`.
//!
//! A build script, and not a step before the build, so that one ordinary `cargo build` is enough,
//! also in a project that merely depends on this crate.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a build script runs cargo and prints why it fails; it is no part of the library"
)]

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const OVERRIDE: &str = "NAMZU_WORKER_BIN";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            // Not returned from `main`: that would print a compiler's output as one escaped line.
            eprintln!("{err}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={OVERRIDE}");
    println!("cargo::rerun-if-env-changed=DOCS_RS");
    let out = PathBuf::from(var("OUT_DIR")?);
    let bytes = match env::var_os(OVERRIDE) {
        Some(path) => {
            println!("cargo::rerun-if-changed={}", Path::new(&path).display());
            fs::read(&path)
                .map_err(|err| format!("cannot read {OVERRIDE}={}: {err}", path.display()))?
        }
        // A worker is a Linux program. Elsewhere only backends that bring their own can be used;
        // and docs.rs has no network and no musl target.
        None if var("CARGO_CFG_TARGET_OS")? != "linux" || env::var_os("DOCS_RS").is_some() => {
            Vec::new()
        }
        None => build(&out)?,
    };
    fs::write(out.join("worker"), bytes)?;
    Ok(())
}

fn build(out: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let workspace = Path::new(&var("CARGO_MANIFEST_DIR")?)
        .join("../..")
        .canonicalize()?;
    for source in [
        "crates/worker/Cargo.toml",
        "crates/worker/src",
        "crates/protocol/Cargo.toml",
        "crates/protocol/src",
        "Cargo.toml",
        "Cargo.lock",
    ] {
        println!(
            "cargo::rerun-if-changed={}",
            workspace.join(source).display()
        );
    }
    let (target, rustflags) = target()?;
    let target_dir = shared_target_dir(out);

    let mut cargo = Command::new(var("CARGO")?);
    for (name, _) in env::vars_os() {
        if name.to_str().is_none_or(|name| !may_inherit(name)) {
            cargo.env_remove(name);
        }
    }
    cargo
        // Configuration is searched from here upwards: the outer project's mirrors, vendored
        // sources and linkers then apply to the worker too.
        .current_dir(out)
        .env("RUSTC", var("RUSTC")?)
        .args(["build", "--locked", "--profile", "worker"])
        .args(["--package", "namzu-worker", "--bin", "namzu-worker"])
        .args(["--target", &target])
        .arg("--manifest-path")
        .arg(workspace.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir);
    if let Some(rustflags) = rustflags {
        cargo.env("CARGO_ENCODED_RUSTFLAGS", rustflags);
    }
    let output = cargo
        .output()
        .map_err(|err| format!("cannot run {cargo:?}: {err}"))?;
    if !output.status.success() {
        return Err(format!(
            "the worker did not build for {target} ({}); set {OVERRIDE}=PATH to use one built \
             elsewhere\n\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    let built = target_dir.join(&target).join("worker/namzu-worker");
    Ok(fs::read(&built).map_err(|err| format!("cannot read {}: {err}", built.display()))?)
}

/// The target to build for, and flags it needs to come out static.
fn target() -> Result<(String, Option<&'static str>), Box<dyn Error>> {
    let arch = var("CARGO_CFG_TARGET_ARCH")?;
    let musl = format!("{arch}-unknown-linux-musl");
    let libdir = Command::new(var("RUSTC")?)
        .args(["--print", "target-libdir", "--target", &musl])
        .output()?;
    let installed = libdir.status.success()
        && str::from_utf8(&libdir.stdout).is_ok_and(|dir| Path::new(dir.trim()).is_dir());
    if installed {
        return Ok((musl, None));
    }
    println!(
        "cargo::warning=the worker is linked against static glibc, larger than with musl: \
         `rustup target add {musl}`"
    );
    Ok((
        format!("{arch}-unknown-linux-gnu"),
        Some("-Ctarget-feature=+crt-static"),
    ))
}

/// One directory for every outer profile: the worker is the same in all of them. It has a lock of
/// its own, so the nested cargo does not wait for the outer one, which waits for us.
fn shared_target_dir(out: &Path) -> PathBuf {
    out.ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").is_file())
        .unwrap_or(out)
        .join("namzu-worker")
}

/// Whether the nested cargo sees a variable. What the outer one set for this script (its flags,
/// its target, clippy as the compiler, coverage instrumentation) must not shape the worker.
fn may_inherit(name: &str) -> bool {
    const KEPT: &[&str] = &[
        "CARGO_HOME",
        "CARGO_MAKEFLAGS",
        "CARGO_BUILD_JOBS",
        "CARGO_BUILD_RUSTC_WRAPPER",
        "CARGO_NET_",
        "CARGO_HTTP_",
        "CARGO_REGISTRIES_",
        "CARGO_REGISTRY_",
        "CARGO_SOURCE_",
        "CARGO_TARGET_AARCH64_",
        "CARGO_TARGET_X86_64_",
        "CARGO_TERM_",
    ];
    if name.starts_with("CARGO") {
        return KEPT.iter().any(|kept| name.starts_with(kept));
    }
    !matches!(
        name,
        "RUSTFLAGS" | "RUSTC_WORKSPACE_WRAPPER" | "CLIPPY_ARGS" | "LLVM_PROFILE_FILE"
    )
}

fn var(name: &str) -> Result<String, String> {
    env::var(name).map_err(|err| format!("{name}: {err}"))
}
