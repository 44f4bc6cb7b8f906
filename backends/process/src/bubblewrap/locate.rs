//! Finds `bwrap` and what it can do.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use namzu_core::spawn::command;
use rustix::fs::{Access, access};

use crate::error::Error;

/// Options without which the view cannot be built: those of bubblewrap 0.6.
const NEEDED: [&str; 5] = [
    "--as-pid-1",
    "--info-fd",
    "--perms",
    "--chmod",
    "--unshare-cgroup-try",
];

/// A `bwrap` and the options of it that not every version has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bwrap {
    pub(crate) path: PathBuf,
    /// `--size`: since 0.7.
    pub(crate) size: bool,
    /// `--disable-userns`: since 0.8.
    pub(crate) disable_userns: bool,
    /// `--bind-fd`: since 0.10, and in patched older ones.
    pub(crate) bind_fd: bool,
}

/// The first `bwrap` in `PATH`, or in the usual places where that lacks them.
///
/// A relative entry is passed over: what a project directory calls `bwrap` builds no wall.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/bin", "/usr/local/bin", "/bin"].map(PathBuf::from))
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("bwrap"))
        .find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok())
}

impl Bwrap {
    /// Asks the one at `path`. By its list of options and not its version, because distributions
    /// add options to older versions.
    pub(crate) async fn ask(path: &Path) -> Result<Self, Error> {
        let output = command(path)
            .arg("--help")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .output()
            .await
            .map_err(Error::Bwrap)?;
        if !output.status.success() {
            let status = output.status.to_string();
            return Err(Error::Bwrap(std::io::Error::other(status)));
        }
        Self::from_help(path, &String::from_utf8_lossy(&output.stdout))
    }

    fn from_help(path: &Path, help: &str) -> Result<Self, Error> {
        let has = |option: &str| {
            help.lines()
                .any(|line| line.split_ascii_whitespace().next() == Some(option))
        };
        if !NEEDED.into_iter().all(has) {
            return Err(Error::OldBwrap(path.to_owned()));
        }
        Ok(Self {
            path: path.to_owned(),
            size: has("--size"),
            disable_userns: has("--disable-userns"),
            bind_fd: has("--bind-fd") && has("--ro-bind-fd"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_from_the_help() {
        let path = Path::new("/usr/bin/bwrap");
        let old = "--as-pid-1 x\n --info-fd FD\n --perms OCTAL\n --unshare-cgroup-try\n --chmod OCTAL PATH\n";
        let found = Bwrap::from_help(path, old).unwrap();
        assert!(!found.size && !found.bind_fd && !found.disable_userns);
        let newer = format!("{old} --size BYTES\n --bind-fd FD\n --ro-bind-fd FD\n");
        let found = Bwrap::from_help(path, &newer).unwrap();
        assert!(found.size && found.bind_fd);
        assert!(matches!(
            Bwrap::from_help(path, "--info-fd FD\n"),
            Err(Error::OldBwrap(_))
        ));
    }
}
