//! What the host can see of a sandbox: processes, mounts, control groups, files, its own memory.

use std::ffi::OsStr;
use std::fs;
use std::future::Future;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::conformance::check::{Failure, Verdict};

/// A word that nothing else on this machine carries.
pub(crate) fn marker(what: &str) -> io::Result<String> {
    // The kernel gives a fresh one at each read.
    let fresh = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(format!("nzt-{what}-{}", fresh.trim().replace('-', "")))
}

/// The host's processes whose command line carries `marker`.
pub(crate) fn marked(marker: &str) -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if pid == std::process::id() {
            continue;
        }
        // A process may end while we look.
        let Ok(line) = fs::read(Path::new("/proc").join(&name).join("cmdline")) else {
            continue;
        };
        if find(&line, marker.as_bytes()) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

fn find(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|w| w == needle)
}

/// Whatever on this host is named after the sandbox `id`: mounts, control groups, files.
pub(crate) fn traces(id: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Ok(mounts) = fs::read_to_string("/proc/self/mountinfo") {
        found.extend(
            mounts
                .lines()
                .filter(|line| line.contains(id))
                .map(PathBuf::from),
        );
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let places = [
        (Some(PathBuf::from("/sys/fs/cgroup")), 6),
        (Some(std::env::temp_dir()), 3),
        (Some(PathBuf::from("/tmp")), 3),
        (Some(PathBuf::from("/var/tmp")), 2),
        (Some(PathBuf::from("/dev/shm")), 2),
        (Some(PathBuf::from("/run")), 3),
        (Some(PathBuf::from("/var/lib")), 2),
        (runtime, 3),
    ];
    for (place, depth) in places {
        if let Some(place) = place {
            walk(&place, depth, id.as_bytes(), &mut found);
        }
    }
    found.sort();
    found.dedup();
    found
}

fn walk(dir: &Path, depth: u32, name: &[u8], found: &mut Vec<PathBuf>) {
    // What cannot be read, or went away meanwhile, is not ours.
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        if find(entry.file_name().as_bytes(), name) {
            found.push(entry.path());
        }
        if depth > 1 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), depth - 1, name, found);
        }
    }
}

/// Waits until `holds`, looking again and again: for what the kernel tells nobody about, such as
/// the end of another process's child.
pub(crate) async fn eventually<F, Fut>(patience: Duration, what: &str, mut holds: F) -> Verdict
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Verdict<Result<(), String>>>,
{
    let deadline = Instant::now() + patience;
    loop {
        let Err(still) = holds().await? else {
            return Ok(());
        };
        if Instant::now() > deadline {
            return Err(Failure::new(format!("{what}: still not: {still}")));
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until no process of the host carries `marker`.
pub(crate) async fn all_gone(patience: Duration, marker: &str) -> Verdict {
    eventually(patience, "every marked process is gone", || async {
        let left = marked(marker)?;
        Ok(if left.is_empty() {
            Ok(())
        } else {
            Err(format!("processes {left:?} live"))
        })
    })
    .await
}

/// Waits until nothing on this host is named after the sandbox.
pub(crate) async fn no_trace(patience: Duration, id: &str) -> Verdict {
    eventually(patience, "no trace is left on the host", || async {
        let left = traces(id);
        Ok(if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        })
    })
    .await
}

/// Bytes of this process in memory, now.
pub(crate) fn resident() -> Verdict<u64> {
    status_field("/proc/self/status", "VmRSS:")
}

/// Bytes of this process in memory, at most since [`forget_peak`].
pub(crate) fn peak() -> Verdict<u64> {
    status_field("/proc/self/status", "VmHWM:")
}

/// Starts [`peak`] anew.
pub(crate) fn forget_peak() -> Verdict {
    Ok(fs::write("/proc/self/clear_refs", "5")?)
}

fn status_field(path: &str, field: &str) -> Verdict<u64> {
    let status = fs::read_to_string(path)?;
    kib(&status, field).ok_or_else(|| Failure::new(format!("no {field} in {path}")))
}

/// A field of `/proc/PID/status` that is given in KiB, in bytes.
pub(crate) fn kib(status: &str, field: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Open descriptors of this process.
pub(crate) fn descriptors() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}

/// A directory of the host for one case, gone with it.
pub(crate) fn scratch(what: &str) -> io::Result<Scratch> {
    let dir = std::env::temp_dir().join(marker(what)?);
    fs::create_dir(&dir)?;
    Ok(Scratch(dir))
}

/// See [`scratch`].
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.join(name.as_ref())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the temporary directory must not turn a verdict around.
        let _ = fs::remove_dir_all(&self.0);
    }
}
