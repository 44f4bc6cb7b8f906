//! Whether this host can build a sandbox at all: tried out once, and remembered until it boots.
//!
//! Settings alone do not tell: a security module, a filter or a masked `/proc` shows only when the
//! walls are really built.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use namzu_types::SandboxSpec;

use super::data::LastWords;
use super::detach::StateDir;
use super::launch;
use crate::backend::{Checked, ProcessBackend};
use crate::error::Error;
use crate::probe;

/// How long the try may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longer than any key.
const MAX_KEY: u64 = 8 << 10;

/// What was seen to work in this process.
#[derive(Debug, Default)]
pub(crate) struct Proven {
    with_host_network: AtomicBool,
    with_own_network: AtomicBool,
}

impl Proven {
    fn holds(&self, own_network: bool) -> bool {
        // What works with a network of its own works with one wall less.
        self.with_own_network.load(Ordering::Relaxed)
            || (!own_network && self.with_host_network.load(Ordering::Relaxed))
    }

    /// A sandbox was built.
    pub(crate) fn note(&self, own_network: bool) {
        let proven = if own_network {
            &self.with_own_network
        } else {
            &self.with_host_network
        };
        proven.store(true, Ordering::Relaxed);
    }
}

impl ProcessBackend {
    /// Builds a sandbox around a program that ends at once, unless it is known that this works.
    pub(crate) async fn prove(
        &self,
        spec: &SandboxSpec,
        checked: &Checked<'_>,
    ) -> Result<(), Error> {
        let own_network = checked.own_network;
        if self.proven.holds(own_network) {
            return Ok(());
        }
        // Without a place to remember it, it is tried out each time.
        let note = StateDir::open()
            .ok()
            .zip(key(&checked.bwrap.path))
            .map(|(state, key)| (state.note(file(own_network)), key));
        let known = note
            .as_ref()
            .is_some_and(|(path, key)| remembers(path, key));
        if !known {
            self.try_out(spec, checked).await?;
            if let Some((path, key)) = note {
                // Then it is tried out again next time.
                let _ = remember(&path, &key);
            }
        }
        self.proven.note(own_network);
        Ok(())
    }

    async fn try_out(&self, spec: &SandboxSpec, checked: &Checked<'_>) -> Result<(), Error> {
        let words = LastWords::new().map_err(Error::Start)?;
        let mut bwrap = self.trial(spec, checked, &words).map_err(Error::Start)?;
        let mut child = bwrap.spawn().map_err(Error::Start)?;
        drop(bwrap);
        let status = match tokio::time::timeout(PATIENCE, child.wait()).await {
            Ok(Ok(status)) if status.success() => return Ok(()),
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(err)) => err.to_string(),
            Err(_) => "it hangs".to_owned(),
        };
        Err(probe::cause().await.unwrap_or_else(|| Error::NotBuilt {
            status,
            said: words.read(),
        }))
    }

    fn trial(
        &self,
        spec: &SandboxSpec,
        checked: &Checked<'_>,
        words: &LastWords,
    ) -> io::Result<tokio::process::Command> {
        let mut args = self.options(spec, checked, &[])?;
        let worker = self.worker.try_clone()?;
        // Without input it has nothing to remove.
        args.program([&format!("/proc/self/fd/{}", worker.as_raw_fd()), "janitor"]);
        args.inherit(worker);
        let mut bwrap = launch::bwrap(checked, args, None)?;
        bwrap
            .stdout(words.writer()?)
            .stderr(words.writer()?)
            // It ends by itself; killed half-way it could leave its child waiting for ever.
            .kill_on_drop(false);
        Ok(bwrap)
    }
}

const fn file(own_network: bool) -> &'static str {
    if own_network {
        ".proven-own-network"
    } else {
        ".proven-host-network"
    }
}

/// All on which it depends, as far as that can be seen: the boot, the program, where we are, and
/// what security modules and filters hold us.
fn key(bwrap: &Path) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let program = fs::metadata(bwrap).ok()?;
    let inode = |file| fs::metadata(file).map(|found| found.ino()).ok();
    let (users, mounts) = (inode("/proc/self/ns/user")?, inode("/proc/self/ns/mnt")?);
    // The number of a namespace is given again once it is gone, to one with another `/proc` too.
    let mounted = root_and_proc(&fs::read_to_string("/proc/self/mountinfo").ok()?);
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let held: Vec<&str> = status
        .lines()
        .filter(|line| {
            ["Uid:", "CapBnd:", "Seccomp"]
                .iter()
                .any(|of| line.starts_with(of))
        })
        .collect();
    Some(format!(
        "{}\n{} {} {} {} {}\n{users} {mounts} {mounted}\n{}\n{}\n{}",
        boot.trim(),
        bwrap.display(),
        program.dev(),
        program.ino(),
        program.mtime(),
        program.mtime_nsec(),
        held.join("\n"),
        fs::read_to_string("/proc/self/attr/current").unwrap_or_default(),
        probe::settings(),
    ))
}

/// A hash of what decides whether one can pivot and mount a `/proc`. Of nothing else: other mounts
/// come and go all the time.
fn root_and_proc(mounts: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for line in mounts.lines() {
        let at = line.split(' ').nth(4).unwrap_or_default();
        if at == "/" || at == "/proc" || at.starts_with("/proc/") {
            line.hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn remembers(path: &Path, key: &str) -> bool {
    let read = || {
        let mut text = String::new();
        File::open(path)?.take(MAX_KEY).read_to_string(&mut text)?;
        io::Result::Ok(text)
    };
    read().is_ok_and(|text| text == key)
}

fn remember(path: &Path, key: &str) -> io::Result<()> {
    let temporary = path.with_extension(std::process::id().to_string());
    let written = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(key.as_bytes()))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config::Config;

    /// A backend whose `bwrap` knows every option, and builds nothing.
    fn broken(dir: &Path) -> ProcessBackend {
        let script = dir.join("bwrap");
        let text = "#!/bin/sh\nif [ \"$1\" = --help ]; then exec /usr/bin/bwrap --help; fi\n\
                    echo no such luck >&2; exit 1\n";
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let mut backend = ProcessBackend::new(&Config::default()).unwrap();
        backend.bwrap = script;
        backend
    }

    #[tokio::test]
    async fn a_plan_is_no_promise_where_nothing_can_be_built() {
        use namzu_core::Backend as _;
        let dir = tempfile::tempdir().unwrap();
        let backend = broken(dir.path());
        for _ in 0..2 {
            let err = backend.plan(&SandboxSpec::default()).await.unwrap_err();
            assert!(err.to_string().contains("no such luck"), "{err}");
            assert!(err.hint().is_some());
        }
    }

    #[test]
    fn another_proc_is_another_proof() {
        let plain = "22 27 0:21 / /proc rw - proc proc rw\n27 1 0:5 / / rw - overlay overlay rw\n";
        let masked = format!("{plain}23 22 0:22 / /proc/kcore rw - tmpfs tmpfs rw\n");
        let elsewhere = format!("{plain}24 27 0:23 / /mnt rw - tmpfs tmpfs rw\n");
        assert_ne!(root_and_proc(plain), root_and_proc(&masked));
        assert_eq!(root_and_proc(plain), root_and_proc(&elsewhere));
    }

    #[test]
    fn another_program_is_another_proof() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
        for program in [&one, &other] {
            fs::write(program, "").unwrap();
        }
        let note = dir.path().join("note");
        let key_of = |program: &Path| key(program).unwrap();
        assert!(!remembers(&note, &key_of(&one)));
        remember(&note, &key_of(&one)).unwrap();
        assert!(remembers(&note, &key_of(&one)));
        assert!(!remembers(&note, &key_of(&other)));
        fs::remove_file(&one).unwrap();
        fs::write(dir.path().join("new"), "").unwrap();
        fs::rename(dir.path().join("new"), &one).unwrap();
        assert!(!remembers(&note, &key_of(&one)));
    }
}
