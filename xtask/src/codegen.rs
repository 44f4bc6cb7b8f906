//! `cargo xtask codegen`: files made from the code, kept in the repository so that people find
//! them, and compared in CI so that they stay true.

mod config;
mod errors;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use namzu_types::{SandboxCreateConfig, SandboxProviderConfig};
use serde_json::Value;

/// What to do with what was generated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Put it into the repository.
    Write,
    /// Fail where the repository differs.
    Check,
}

/// Generates every file.
pub(crate) fn run(mode: Mode) -> Result<()> {
    let provider = SandboxProviderConfig::json_schema_value();
    let create = SandboxCreateConfig::json_schema_value();
    let files = [
        ("schema/config.schema.json", pretty(&provider)?),
        ("schema/create.schema.json", pretty(&create)?),
        ("docs/config.md", config::page(&provider, &create)?),
        ("docs/errors.md", errors::page()?),
    ];
    let mut stale = Vec::new();
    for (name, text) in files {
        let path = crate::root().join(name);
        match mode {
            Mode::Write => write(&path, &text)?,
            Mode::Check if std::fs::read_to_string(&path).ok().as_deref() == Some(&*text) => {}
            Mode::Check => stale.push(name),
        }
    }
    if !stale.is_empty() {
        bail!("stale: {}; run `cargo xtask codegen`", stale.join(", "));
    }
    Ok(())
}

fn write(path: &PathBuf, text: &str) -> Result<()> {
    let parent = path.parent().context("a generated file has a folder")?;
    std::fs::create_dir_all(parent)?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn pretty(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
