//! Finds `bwrap` and what it can do.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use namzu_core::spawn::command;
use rustix::fs::{Access, access};

use crate::error::Error;
use crate::probe;

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

/// Where systems keep their programs. None of them can become a workspace, so no sandbox can have
/// planted anything there.
const PLACES: [&str; 7] = [
    "/usr/bin",
    "/usr/local/bin",
    "/bin",
    "/usr/sbin",
    "/run/current-system/sw/bin",
    "/run/current-system/profile/bin",
    "/nix/var/nix/profiles/default/bin",
];

/// Names another one.
pub(crate) const CHOICE: &str = "NAMZU_SANDBOX_BWRAP";

/// The one that [`CHOICE`] names, or the first in [`PLACES`].
///
/// `PATH` is not searched: it may lead through a directory of the caller's project, such as an
/// active virtual environment, in which a sandbox that was handed the project can plant a program.
/// This one is started outside. Nor does it help to ask who owns it, as what is made in a sandbox
/// of root is root's.
///
/// # Errors
///
/// There is none.
pub(crate) fn find() -> Result<PathBuf, Error> {
    find_by(std::env::var_os(CHOICE).map(PathBuf::from), &PLACES)
}

fn find_by(choice: Option<PathBuf>, places: &[&str]) -> Result<PathBuf, Error> {
    let usable = |file: &PathBuf| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    match choice {
        Some(file) if file.is_absolute() && usable(&file) => Ok(file),
        Some(file) => Err(probe::no_such_bwrap(&file)),
        None => places
            .iter()
            .map(|dir| Path::new(dir).join("bwrap"))
            .find(usable)
            .ok_or_else(probe::missing_bwrap),
    }
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
        let path = find().expect("this test needs a bwrap: install bubblewrap");
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
    fn a_program_is_taken_from_the_system_or_by_name_alone() {
        let dir = tempfile::tempdir().unwrap();
        let planted = dir.path().join("bwrap");
        let place = dir.path().to_str().unwrap();
        assert!(find_by(None, &[place]).is_err());
        std::fs::write(&planted, "#!/bin/sh\n").unwrap();
        assert!(find_by(None, &[place]).is_err(), "it cannot be executed");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&planted, executable).unwrap();
        assert_eq!(find_by(None, &["/nonexistent", place]).unwrap(), planted);
        assert_eq!(find_by(Some(planted.clone()), &[]).unwrap(), planted);
        for choice in ["bwrap", "./bwrap", "", "/nonexistent", "/"] {
            let refused = find_by(Some(choice.into()), &[place]).unwrap_err();
            let refused = refused.during(namzu_core::Phase::Configure);
            assert!(refused.to_string().contains(CHOICE), "{refused}");
        }
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
