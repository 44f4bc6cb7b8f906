//! Telling a kill for want of memory from any other.
//!
//! The kernel counts such kills, but does not say whom it hit. So a command that dies of SIGKILL is
//! called a victim if a kill was counted since its start that no other command has been told of.
//! A command that ends otherwise has lost a child to the kills nobody claimed until then.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

/// Watches a counter of such kills; without a readable one nothing is ever called out of memory.
#[derive(Debug)]
pub(crate) struct Watch {
    counter: Option<OwnedFd>,
    seen: u64,
    /// How many of those seen nobody was told of.
    unclaimed: u64,
}

impl Watch {
    /// Watches `given`, or else the counter of this process's cgroup, version 2 or 1.
    pub(crate) fn new(given: Option<OwnedFd>) -> Self {
        let counter = given
            .or_else(own)
            .filter(|counter| count(counter).is_some());
        let seen = counter.as_ref().and_then(count).unwrap_or_default();
        Self {
            counter,
            seen,
            unclaimed: 0,
        }
    }

    /// How many kills there were so far.
    pub(crate) fn count(&mut self) -> u64 {
        if let Some(now) = self.counter.as_ref().and_then(count) {
            self.unclaimed += now.saturating_sub(self.seen);
            self.seen = now;
        }
        self.seen
    }

    /// Whether a command that was killed is a victim; `before` is the count at its start.
    pub(crate) fn claim(&mut self, before: u64) -> bool {
        let struck = self.count() > before && self.unclaimed > 0;
        self.unclaimed -= u64::from(struck);
        struck
    }

    /// A command ended for another reason: kills that nobody claimed hit no leader.
    pub(crate) fn settle(&mut self) {
        self.count();
        self.unclaimed = 0;
    }
}

fn own() -> Option<OwnedFd> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = groups
        .lines()
        .filter_map(path)
        .filter_map(|path| rustix::fs::open(path, flags, Mode::empty()).ok());
    opened.into_iter().find(|counter| count(counter).is_some())
}

/// `ID:CONTROLLERS:PATH` of `/proc/self/cgroup` to the file that counts.
fn path(line: &str) -> Option<String> {
    let mut fields = line.splitn(3, ':').skip(1);
    let controllers = fields.next()?;
    let group = fields.next()?.trim_end_matches('/');
    if controllers.is_empty() {
        return Some(format!("/sys/fs/cgroup{group}/memory.events"));
    }
    let memory = controllers
        .split(',')
        .any(|controller| controller == "memory");
    memory.then(|| format!("/sys/fs/cgroup/memory{group}/memory.oom_control"))
}

fn count(counter: &OwnedFd) -> Option<u64> {
    let mut text = [0_u8; 4096];
    let read = rustix::io::pread(counter, &mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..read]).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_counter_is_found_in_both_versions() {
        assert_eq!(path("0::/a/b").unwrap(), "/sys/fs/cgroup/a/b/memory.events");
        assert_eq!(path("0::/").unwrap(), "/sys/fs/cgroup/memory.events");
        assert_eq!(
            path("5:cpu,memory:/x").unwrap(),
            "/sys/fs/cgroup/memory/x/memory.oom_control"
        );
        assert!(path("5:cpu:/x").is_none());
        assert!(path("garbage").is_none());
    }

    #[test]
    fn only_a_rise_since_the_start_is_a_strike_and_each_is_claimed_once() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"low 0\noom 9\noom_kill 3\noom_group_kill 0\n")
            .unwrap();
        let mut watch = Watch::new(Some(file.try_clone().unwrap().into()));
        let set = |kills: u8| {
            let text = format!("low 0\noom 9\noom_kill {kills}\n");
            rustix::io::pwrite(&file, text.as_bytes(), 0).unwrap();
        };
        let early = watch.count();
        assert!(!watch.claim(early));
        set(5);
        let late = watch.count();
        assert!(!watch.claim(late));
        assert!(watch.claim(early) && watch.claim(early));
        assert!(!watch.claim(early));
        set(6);
        watch.settle();
        assert!(!watch.claim(late));
    }
}
