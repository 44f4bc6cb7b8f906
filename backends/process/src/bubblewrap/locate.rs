//! Finds `bwrap` and what it can do.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use namzu_core::spawn::command;
use rustix::fs::{Access, access};

use crate::error::Error;

/// Options without which the view cannot be built: those of bubblewrap 0.6.
const NEEDED: [&str; 4] = ["--as-pid-1", "--info-fd", "--perms", "--unshare-cgroup-try"];

/// A `bwrap` is a tenth of this.
const MAX_PROGRAM: u64 = 1 << 20;

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
    ///
    /// The list is part of the program, so reading the file usually spares starting it, which
    /// would be a tenth of the time that a whole one-shot sandbox takes. A script that wraps the
    /// program holds no list, and is started.
    pub(crate) async fn ask(path: &Path) -> Result<Self, Error> {
        if let Some(found) = Self::read(path) {
            return Ok(found);
        }
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
        Self::from_help(path, &output.stdout)
    }

    fn read(path: &Path) -> Option<Self> {
        let mut text = Vec::with_capacity(128 * 1024);
        let file = std::fs::File::open(path).ok()?;
        file.take(MAX_PROGRAM).read_to_end(&mut text).ok()?;
        Self::from_help(path, &text).ok()
    }

    /// From the list of options. In the program each line of it ends in a line feed, and each piece
    /// in a NUL.
    fn from_help(path: &Path, help: &[u8]) -> Result<Self, Error> {
        let options: HashSet<&[u8]> = help
            .split(|byte| matches!(byte, b'\n' | 0))
            .map(<[u8]>::trim_ascii_start)
            .filter(|line| line.starts_with(b"--"))
            .filter_map(|line| line.split(u8::is_ascii_whitespace).next())
            .collect();
        let has = |option: &str| options.contains(option.as_bytes());
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
    fn the_file_says_what_the_program_says() {
        let Some(path) = find() else {
            panic!("this test needs a bwrap: install bubblewrap");
        };
        let help = Stdio::piped();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let said = runtime
            .block_on(async { command(&path).arg("--help").stdout(help).output().await })
            .unwrap();
        let said = Bwrap::from_help(&path, &said.stdout).unwrap();
        assert_eq!(Bwrap::read(&path), Some(said));
    }

    #[test]
    fn a_script_that_wraps_it_is_started() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("bwrap");
        std::fs::write(&script, "#!/bin/sh\nexec /usr/bin/bwrap \"$@\"\n").unwrap();
        assert_eq!(Bwrap::read(&script), None);
    }

    #[test]
    fn options_are_taken_from_the_help() {
        let path = Path::new("/usr/bin/bwrap");
        let old = "--as-pid-1 x\n --info-fd FD\n --perms OCTAL\n --unshare-cgroup-try\n";
        let found = Bwrap::from_help(path, old.as_bytes()).unwrap();
        assert!(!found.size && !found.bind_fd && !found.disable_userns);
        let newer = format!("{old} --size BYTES\n --bind-fd FD\n --ro-bind-fd FD\n");
        let found = Bwrap::from_help(path, newer.as_bytes()).unwrap();
        assert!(found.size && found.bind_fd);
        assert!(matches!(
            Bwrap::from_help(path, b"--info-fd FD\n"),
            Err(Error::OldBwrap(_))
        ));
    }
}
