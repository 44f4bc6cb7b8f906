//! Telling a kill for want of memory from any other: the counter of the worker's own cgroup.

use std::fs;
use std::path::PathBuf;

/// Watches the counter; without a readable one nothing is ever called out of memory.
#[derive(Debug)]
pub(crate) struct Watch {
    counter: Option<PathBuf>,
    seen: u64,
}

impl Watch {
    /// Finds the counter of this process's cgroup, version 2 or 1.
    pub(crate) fn new() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let counter = groups
            .lines()
            .filter_map(path)
            .find(|path| count(path).is_some());
        let seen = counter.as_ref().and_then(count).unwrap_or_default();
        Self { counter, seen }
    }

    /// Whether a kill for want of memory happened since the last call.
    pub(crate) fn struck(&mut self) -> bool {
        let now = self.counter.as_ref().and_then(count).unwrap_or_default();
        let struck = now > self.seen;
        self.seen = now;
        struck
    }
}

/// `ID:CONTROLLERS:PATH` of `/proc/self/cgroup` to the file that counts.
fn path(line: &str) -> Option<PathBuf> {
    let mut fields = line.splitn(3, ':').skip(1);
    let controllers = fields.next()?;
    let group = fields.next()?.trim_start_matches('/');
    let root = PathBuf::from("/sys/fs/cgroup");
    if controllers.is_empty() {
        return Some(root.join(group).join("memory.events"));
    }
    let memory = controllers
        .split(',')
        .any(|controller| controller == "memory");
    memory.then(|| root.join("memory").join(group).join("memory.oom_control"))
}

fn count(path: &PathBuf) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_found_in_both_versions() {
        assert_eq!(
            path("0::/a/b").unwrap(),
            PathBuf::from("/sys/fs/cgroup/a/b/memory.events")
        );
        assert_eq!(
            path("5:cpu,memory:/x").unwrap(),
            PathBuf::from("/sys/fs/cgroup/memory/x/memory.oom_control")
        );
        assert!(path("5:cpu:/x").is_none());
        assert!(path("garbage").is_none());
    }
}
