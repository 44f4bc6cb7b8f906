//! `cargo xtask tidy`: what neither the compiler nor clippy checks.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// No file is longer: the reader's patience, in lines.
const MAX_LINES: usize = 700;

/// Crates whose few modules that must talk to the kernel are unsafe, each by a stated exception.
/// Every other crate forbids unsafe code.
const UNSAFE: &[&str] = &[
    "backends/process",
    "crates/core",
    "crates/worker",
    "crates/worker-image",
];

/// Checks every crate and every file, and reports everything at once.
pub(crate) fn run() -> Result<()> {
    let root = crate::root();
    let mut faults = Vec::new();
    for krate in crates(&root)? {
        check_crate(&root, &krate, &mut faults)?;
    }
    for file in tracked(&root)? {
        check_file(&root, &file, &mut faults);
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{} faults\n  {}", faults.len(), faults.join("\n  "));
}

/// The folder of every crate, relative to the root.
fn crates(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::from("xtask")];
    for group in ["crates", "backends"] {
        for entry in std::fs::read_dir(root.join(group))? {
            let path = Path::new(group).join(entry?.file_name());
            if root.join(&path).join("Cargo.toml").is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn check_crate(root: &Path, krate: &Path, faults: &mut Vec<String>) -> Result<()> {
    let name = krate.display();
    let manifest = std::fs::read_to_string(root.join(krate).join("Cargo.toml"))
        .with_context(|| format!("cannot read {name}/Cargo.toml"))?;
    if !manifest.contains("[lints]\nworkspace = true") {
        faults.push(format!("{name}: has no `[lints] workspace = true`"));
    }
    if !manifest.contains("publish.workspace = true") {
        faults.push(format!("{name}: has no `publish.workspace = true`"));
    }
    if UNSAFE.iter().any(|exempt| krate == Path::new(exempt)) {
        return Ok(());
    }
    let tops = ["src/lib.rs", "src/main.rs"];
    for top in tops.into_iter().map(|top| root.join(krate).join(top)) {
        let Ok(source) = std::fs::read_to_string(&top) else {
            continue;
        };
        if !source.contains("#![forbid(unsafe_code)]") {
            let top = top.strip_prefix(root).unwrap_or(&top);
            faults.push(format!("{}: does not forbid unsafe code", top.display()));
        }
    }
    Ok(())
}

/// Every file of the repository, relative to the root, whether committed yet or not.
fn tracked(root: &Path) -> Result<Vec<String>> {
    let output = crate::system::command("git")
        .current_dir(root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .context("cannot start git")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", output.status);
    }
    let names = String::from_utf8(output.stdout).context("a file's name is no UTF-8")?;
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}

fn check_file(root: &Path, name: &str, faults: &mut Vec<String>) {
    // Neither a deleted file nor a binary one has lines.
    let Ok(text) = std::fs::read_to_string(root.join(name)) else {
        return;
    };
    if name.ends_with(".rs") {
        let lines = text.lines().count();
        if lines > MAX_LINES {
            faults.push(format!("{name}: {lines} lines, {MAX_LINES} at most"));
        }
        let module_says_what = text.starts_with("//!") || text.starts_with("#!/");
        if !module_says_what {
            faults.push(format!(
                "{name}: its first line does not say what it is (`//! …`)"
            ));
        }
    }
    for (number, line) in text.lines().enumerate() {
        if let Some(path) = machine_path(line) {
            faults.push(format!(
                "{name}:{}: a path of one machine: {path}",
                number + 1
            ));
        }
        if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
            faults.push(format!("{name}:{}: an unresolved merge", number + 1));
        }
    }
}

/// A path that only exists on somebody's own machine.
fn machine_path(line: &str) -> Option<&str> {
    // In parts, so that this file does not find itself.
    let homes = [concat!("/home", "/"), concat!("/Users", "/")];
    for home in homes {
        for (at, _) in line.match_indices(home) {
            let before = line[..at].chars().next_back();
            let starts = before
                .is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '}')));
            let path = line[at..]
                .split(|c: char| {
                    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ')' | ',' | ';')
                })
                .next()
                .unwrap_or_default();
            // The user of E2B's images and documentation's placeholders are on no machine of ours.
            let known = ["user", "me", "you", "x", "sandbox", "linuxbrew"];
            let owner = path
                .get(home.len()..)
                .and_then(|rest| rest.split(['/', ':']).next());
            let owner = owner.unwrap_or_default();
            let placeholder =
                owner.is_empty() || owner.starts_with(['$', '<', '{']) || known.contains(&owner);
            if starts && !placeholder {
                return Some(path);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebodys_home_is_found_and_a_placeholder_is_not() {
        let home = concat!("/home", "/");
        for (line, found) in [
            (format!("see {home}alice/x.rs"), true),
            (format!("\"{home}alice\""), true),
            (concat!("/Users", "/bob").to_owned(), true),
            (format!("{home}user/project"), false),
            (format!("{home}user:/bin/sh"), false),
            (format!("{home}$USER"), false),
            (format!("https://example.com{home}page"), false),
            (format!("target{home}alice"), false),
            (home.to_owned(), false),
        ] {
            assert_eq!(machine_path(&line).is_some(), found, "{line}");
        }
    }

    #[test]
    fn every_crate_is_found() {
        let found = crates(&crate::root()).unwrap();
        for krate in ["crates/types", "backends/process", "xtask"] {
            assert!(found.contains(&PathBuf::from(krate)), "{found:?}");
        }
    }

    #[test]
    fn a_crate_without_the_lints_is_a_fault() {
        let root = crate::root().join("target/tmp/tidy");
        let krate = root.join("loose");
        std::fs::create_dir_all(krate.join("src")).unwrap();
        std::fs::write(krate.join("Cargo.toml"), "[package]\n").unwrap();
        std::fs::write(krate.join("src/lib.rs"), "//! Loose.\n").unwrap();
        let mut faults = Vec::new();
        check_crate(&root, Path::new("loose"), &mut faults).unwrap();
        assert_eq!(faults.len(), 3, "{faults:?}");
    }
}
