//! Processes, named so that no later one is mistaken for them: the owner label of what they made.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde::{Deserialize, Serialize};

/// A process of one PID namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessName {
    /// Inode of its PID namespace: a shared directory may hold what other containers made, whose
    /// PIDs mean nothing here.
    namespace: u64,
    /// In that namespace.
    pub pid: u32,
    /// In clock ticks since boot.
    started: u64,
}

/// Whether a named process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs, and its PID is its PID here.
    Alive,
    /// It has ended.
    Dead,
    /// It belongs to another PID namespace: nobody here can tell, and its PID is a stranger's.
    Foreign,
}

impl ProcessName {
    /// This process. `None` without a readable `/proc`.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// A running process of our PID namespace.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self {
            namespace: namespace()?,
            pid,
            started: started(pid)?,
        })
    }

    /// Whether it runs. What cannot be judged is [`Life::Foreign`].
    #[must_use]
    pub fn life(self) -> Life {
        if namespace() != Some(self.namespace) {
            Life::Foreign
        } else if started(self.pid) == Some(self.started) {
            Life::Alive
        } else {
            Life::Dead
        }
    }

    /// Whether it is known to have ended.
    #[must_use]
    pub fn is_dead(self) -> bool {
        self.life() == Life::Dead
    }

    /// `NAMESPACE-PID-START`, for the name of a file.
    #[must_use]
    pub fn label(self) -> String {
        let Self {
            namespace,
            pid,
            started,
        } = self;
        format!("{namespace}-{pid}-{started}")
    }

    /// Reads a [label](Self::label) and the `-` after it; gives back what follows, too.
    #[must_use]
    pub fn parse(text: &str) -> Option<(Self, &str)> {
        let mut parts = text.splitn(4, '-');
        let name = Self {
            namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        };
        Some((name, parts.next()?))
    }
}

fn namespace() -> Option<u64> {
    Some(fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

/// When a process started that has not ended yet.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // A zombie that is not merely the first thread of a process whose others run on.
    let ended = matches!(*fields.first()?, "Z" | "X");
    let threads: u32 = fields.get(17)?.parse().ok()?;
    if ended && threads <= 1 {
        return None;
    }
    fields.get(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_names_its_process() {
        let own = ProcessName::own().unwrap();
        let label = format!("{}-a-b", own.label());
        assert_eq!(ProcessName::parse(&label), Some((own, "a-b")));
        assert_eq!(own.life(), Life::Alive);
        for strange in ["", "1-2-3", "1-2-x-a", "-1-2-3-a"] {
            assert_eq!(ProcessName::parse(strange), None, "{strange}");
        }
    }

    #[test]
    fn a_recycled_pid_is_dead_and_a_foreign_one_is_no_business_of_ours() {
        let own = ProcessName::own().unwrap();
        let recycled = ProcessName {
            started: own.started + 1,
            ..own
        };
        assert_eq!(recycled.life(), Life::Dead);
        let foreign = ProcessName {
            namespace: own.namespace + 1,
            ..own
        };
        assert_eq!(foreign.life(), Life::Foreign);
        assert!(!foreign.is_dead());
    }

    #[tokio::test]
    async fn a_zombie_has_ended() {
        let child = crate::spawn::command("/bin/sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let pid = child.id().unwrap();
        let name = ProcessName::of(pid).unwrap();
        assert_eq!(name.life(), Life::Alive);
        let status = crate::spawn::command("/bin/sh")
            .args([
                "-c",
                &format!("kill -9 {pid}; until grep -q 'State:.Z' /proc/{pid}/status; do :; done"),
            ])
            .status();
        assert!(status.await.unwrap().success());
        assert_eq!(name.life(), Life::Dead);
        drop(child);
    }
}
