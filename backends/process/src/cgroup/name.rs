//! The owner label of a cgroup: its directory's name.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use namzu_types::SandboxId;

const PREFIX: &str = "namzu-";

/// A process, named so that no later one is mistaken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ProcessName {
    /// Inode of its PID namespace: a shared directory may hold cgroups of other containers, whose
    /// PIDs mean nothing here.
    namespace: u64,
    pub(crate) pid: u32,
    /// In clock ticks since boot.
    pub(crate) started: u64,
}

impl ProcessName {
    /// This process.
    pub(crate) fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// A running process of our PID namespace.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Some(Self {
            namespace: fs::metadata("/proc/self/ns/pid").ok()?.ino(),
            pid,
            started: started(pid)?,
        })
    }

    /// Whether it is known to have ended; a process that we cannot judge is not.
    pub(crate) fn is_dead(self) -> bool {
        let here = fs::metadata("/proc/self/ns/pid").map(|ns| ns.ino());
        here.is_ok_and(|here| here == self.namespace) && started(self.pid) != Some(self.started)
    }
}

fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; the start is the 20th field after it.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// `namzu-s-NAMESPACE-PID-START-ID`; `d` in place of `s` where the sandbox may outlive its maker.
pub(super) fn directory(maker: ProcessName, detached: bool, id: &SandboxId) -> String {
    let ProcessName {
        namespace,
        pid,
        started,
    } = maker;
    let kind = if detached { 'd' } else { 's' };
    format!("{PREFIX}{kind}-{namespace}-{pid}-{started}-{id}")
}

/// The maker, and whether the sandbox may outlive it.
pub(super) fn parse(name: &str) -> Option<(ProcessName, bool)> {
    let mut parts = name.strip_prefix(PREFIX)?.splitn(5, '-');
    let detached = match parts.next()? {
        "s" => false,
        "d" => true,
        _ => return None,
    };
    let maker = ProcessName {
        namespace: parts.next()?.parse().ok()?,
        pid: parts.next()?.parse().ok()?,
        started: parts.next()?.parse().ok()?,
    };
    parts.next().map(|_| (maker, detached))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_names_its_maker() {
        let own = ProcessName::own().unwrap();
        let id: SandboxId = "a-b-c".parse().unwrap();
        for detached in [false, true] {
            assert_eq!(parse(&directory(own, detached, &id)), Some((own, detached)));
        }
        assert!(!own.is_dead());
        for strange in [
            "",
            "namzu-",
            "namzu-s-1-2-3",
            "namzu-x-1-2-3-a",
            "system.slice",
        ] {
            assert_eq!(parse(strange), None, "{strange}");
        }
    }

    #[test]
    fn a_recycled_pid_is_dead_and_a_foreign_one_is_left_alone() {
        let own = ProcessName::own().unwrap();
        assert!(
            ProcessName {
                started: own.started + 1,
                ..own
            }
            .is_dead()
        );
        assert!(
            !ProcessName {
                namespace: own.namespace + 1,
                started: 0,
                ..own
            }
            .is_dead()
        );
    }
}
