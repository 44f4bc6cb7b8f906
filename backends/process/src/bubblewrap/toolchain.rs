//! Finds the toolchains that live outside `/usr`: pyenv, rustup, nvm, nix and their like.
//!
//! Only directories that hold programs and nothing else are taken, never their parents: beside
//! `~/.cargo/bin` lies `~/.cargo/credentials.toml`.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories to show, and those of them to search for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Toolchains {
    /// Free of symlinks, none below another.
    pub(crate) roots: Vec<PathBuf>,
    /// In search order.
    pub(crate) path: Vec<PathBuf>,
}

/// Below a home: what may be shown whole.
const IN_HOME: [&str; 14] = [
    ".asdf/installs",
    ".bun/bin",
    ".deno/bin",
    ".local/share/fnm/node-versions",
    ".local/share/mise/installs",
    ".local/share/uv/python",
    ".local/share/pnpm/nodejs",
    ".nvm/versions",
    ".pyenv/versions",
    ".rbenv/versions",
    ".rustup/toolchains",
    ".sdkman/candidates",
    ".volta/tools",
    "go/bin",
];

/// Anywhere: what may be shown whole.
const ANYWHERE: [&str; 2] = ["/nix/store", "/home/linuxbrew/.linuxbrew"];

/// Looks below `home` and along `search`, the host's `PATH`.
pub(crate) fn find(home: Option<&Path>, search: &[PathBuf]) -> Toolchains {
    let mut known: Vec<PathBuf> = ANYWHERE.iter().map(PathBuf::from).collect();
    if let Some(home) = home {
        known.extend(IN_HOME.iter().map(|dir| home.join(dir)));
    }
    known.retain_mut(|dir| match fs::canonicalize(&*dir) {
        Ok(real) => {
            *dir = real;
            true
        }
        Err(_) => false,
    });

    let mut found = Toolchains::default();
    for dir in search.iter().filter(|dir| dir.is_absolute()) {
        if let Some(home) = home {
            // Shims start a shell script for each call, and look for their configuration in a
            // home that is not there: what they lead to goes in their place.
            let chosen = if dir.ends_with(".pyenv/shims") {
                pyenv(&home.join(".pyenv"))
            } else if dir.ends_with(".cargo/bin") {
                rustup(&home.join(".rustup")).into_iter().collect()
            } else {
                Vec::new()
            };
            for bin in chosen {
                found.take(&bin, &known);
            }
        }
        found.take(dir, &known);
        // A directory of its own below /opt, as installers make them.
        if let Ok(real) = fs::canonicalize(dir)
            && let Ok(below) = real.strip_prefix("/opt")
            && let Some(first) = below.components().next()
        {
            found.take(&real, &[Path::new("/opt").join(first)]);
        }
    }
    // Shells set nvm up when they start, so a PATH without it means little.
    if let Some(home) = home
        && let Some(bin) = newest(&home.join(".nvm/versions/node"))
    {
        found.take(&bin.join("bin"), &known);
    }
    found
}

impl Toolchains {
    /// Takes `dir` into the search path if it lies in one of `known`, which is then shown.
    fn take(&mut self, dir: &Path, known: &[PathBuf]) {
        let Ok(real) = fs::canonicalize(dir) else {
            return;
        };
        let Some(root) = known.iter().find(|root| real.starts_with(root)) else {
            return;
        };
        if !self.path.contains(&real) {
            self.path.push(real);
        }
        if !self.roots.iter().any(|shown| root.starts_with(shown)) {
            self.roots.retain(|shown| !shown.starts_with(root));
            self.roots.push(root.clone());
        }
    }
}

/// The program directories of the versions that `pyenv global` names.
fn pyenv(root: &Path) -> Vec<PathBuf> {
    let chosen = fs::read_to_string(root.join("version")).unwrap_or_default();
    chosen
        .split_ascii_whitespace()
        .filter(|version| is_name(version))
        .map(|version| root.join("versions").join(version).join("bin"))
        .collect()
}

/// The program directory of rustup's default toolchain.
fn rustup(root: &Path) -> Option<PathBuf> {
    let settings = fs::read_to_string(root.join("settings.toml")).ok()?;
    let default = settings.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "default_toolchain").then(|| value.trim().trim_matches('"').to_owned())
    })?;
    is_name(&default).then(|| root.join("toolchains").join(default).join("bin"))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains('/')
}

/// The directory in `dir` with the highest version as its name.
fn newest(dir: &Path) -> Option<PathBuf> {
    let version = |path: &PathBuf| -> Vec<u64> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.trim_start_matches('v')
            .split('.')
            .map(|part| part.parse().unwrap_or(0))
            .collect()
    };
    let entries = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    entries.max_by_key(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for dir in [
            ".pyenv/versions/3.12.1/bin",
            ".pyenv/shims",
            ".rustup/toolchains/stable-x/bin",
            ".cargo/bin",
            ".nvm/versions/node/v9.1.0/bin",
            ".nvm/versions/node/v20.0.1/bin",
            ".ssh",
            "project/bin",
        ] {
            fs::create_dir_all(home.path().join(dir)).unwrap();
        }
        fs::write(home.path().join(".pyenv/version"), "3.12.1\n../../.ssh\n").unwrap();
        fs::write(
            home.path().join(".rustup/settings.toml"),
            "version = \"12\"\ndefault_toolchain = \"stable-x\"\n",
        )
        .unwrap();
        home
    }

    #[test]
    fn programs_are_found_and_only_they_are_shown() {
        let dir = home();
        let home = fs::canonicalize(dir.path()).unwrap();
        let search = [".pyenv/shims", ".cargo/bin", "project/bin", ".ssh"].map(|at| home.join(at));
        let found = find(Some(&home), &search);
        let at =
            |paths: &[&str]| -> Vec<PathBuf> { paths.iter().map(|path| home.join(path)).collect() };
        let within = |path: &&PathBuf| path.starts_with(&home);
        assert_eq!(
            found
                .path
                .iter()
                .filter(within)
                .cloned()
                .collect::<Vec<_>>(),
            at(&[
                ".pyenv/versions/3.12.1/bin",
                ".rustup/toolchains/stable-x/bin",
                ".nvm/versions/node/v20.0.1/bin",
            ])
        );
        assert_eq!(
            found
                .roots
                .iter()
                .filter(within)
                .cloned()
                .collect::<Vec<_>>(),
            at(&[".pyenv/versions", ".rustup/toolchains", ".nvm/versions"])
        );
    }

    #[test]
    fn an_empty_home_gives_nothing_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let found = find(
            Some(dir.path()),
            &[dir.path().join("bin"), "relative".into()],
        );
        assert!(found.roots.iter().all(|root| !root.starts_with(dir.path())));
    }
}
