//! Finds where this process may make cgroups.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Directories below which cgroups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hierarchy {
    /// One directory for every controller.
    V2 { parent: PathBuf, cpu: bool },
    /// A directory per controller; what is absent cannot be limited.
    V1 {
        memory: Option<PathBuf>,
        pids: Option<PathBuf>,
        cpu: Option<PathBuf>,
    },
}

impl Hierarchy {
    /// Looks at this process's own place. `None` where nothing may be made.
    pub(crate) fn find() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        Self::v2(&mounts, &own).or_else(|| Self::v1(&mounts, &own))
    }

    fn v2(mounts: &str, own: &str) -> Option<Self> {
        let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
        let (top, place) = locate(mounts, "cgroup2", None, own)?;
        // The nearest place whose children get the controllers and into which we may move a child.
        // Our own has processes in it, and mostly no controllers to hand down for that reason.
        place
            .ancestors()
            .take_while(|dir| dir.starts_with(&top))
            .find_map(|dir| {
                let controllers = fs::read_to_string(dir.join("cgroup.subtree_control")).ok()?;
                let has = |name| controllers.split_ascii_whitespace().any(|c| c == name);
                (has("memory") && has("pids") && may_make(dir)).then(|| Self::V2 {
                    parent: dir.to_owned(),
                    cpu: has("cpu"),
                })
            })
    }

    fn v1(mounts: &str, own: &str) -> Option<Self> {
        let place = |controller: &str| {
            let own = own.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let controllers = fields.next()?;
                let path = fields.next()?;
                controllers
                    .split(',')
                    .any(|name| name == controller)
                    .then_some(path)
            })?;
            let (_, place) = locate(mounts, "cgroup", Some(controller), own)?;
            may_make(&place).then_some(place)
        };
        let (memory, pids, cpu) = (place("memory"), place("pids"), place("cpu"));
        (memory.is_some() || pids.is_some() || cpu.is_some()).then_some(Self::V1 {
            memory,
            pids,
            cpu,
        })
    }

    /// Every directory in which cgroups are made.
    pub(super) fn parents(&self) -> Vec<&Path> {
        match self {
            Self::V2 { parent, cpu: _ } => vec![parent],
            Self::V1 { memory, pids, cpu } => [memory, pids, cpu]
                .into_iter()
                .flatten()
                .map(PathBuf::as_path)
                .collect(),
        }
    }

    pub(crate) fn limits_memory(&self) -> bool {
        !matches!(self, Self::V1 { memory: None, .. })
    }

    pub(crate) fn limits_pids(&self) -> bool {
        !matches!(self, Self::V1 { pids: None, .. })
    }

    pub(crate) fn limits_cpu(&self) -> bool {
        !matches!(
            self,
            Self::V1 { cpu: None, .. } | Self::V2 { cpu: false, .. }
        )
    }

    /// For the receipt.
    pub(crate) fn version(&self) -> &'static str {
        match self {
            Self::V2 { .. } => "cgroup v2",
            Self::V1 { .. } => "cgroup v1",
        }
    }
}

/// The mount point of a hierarchy, and in it the directory of the cgroup `own`.
fn locate(
    mounts: &str,
    kind: &str,
    controller: Option<&str>,
    own: &str,
) -> Option<(PathBuf, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut filesystem = filesystem.split(' ');
        if filesystem.next() != Some(kind) {
            return None;
        }
        let options = filesystem.nth(1).unwrap_or_default();
        if let Some(controller) = controller
            && !options.split(',').any(|option| option == controller)
        {
            return None;
        }
        let mut mount = mount.split(' ').skip(3);
        let (root, top) = (mount.next()?, PathBuf::from(mount.next()?));
        // Outside of what is mounted, as in a container that shares the host's cgroup namespace:
        // the top is then the container's own.
        let below = Path::new(own).strip_prefix(root).unwrap_or(Path::new(""));
        let place = top.join(below);
        Some((top, place))
    })
}

/// Whether a cgroup can be made in `dir` and a child moved there. Asking the kernel, not the mode
/// bits: the mount may be read-only.
fn may_make(dir: &Path) -> bool {
    access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok()
        && File::options()
            .write(true)
            .open(dir.join("cgroup.procs"))
            .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_found_below_its_mount() {
        let mounts = "\
            30 23 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
            31 30 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
            33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let place =
            |kind, controller, own| locate(mounts, kind, controller, own).map(|found| found.1);
        assert_eq!(
            place("cgroup", Some("memory"), "/docker/abc/d"),
            Some("/sys/fs/cgroup/memory/d".into())
        );
        assert_eq!(
            place("cgroup", Some("memory"), "/elsewhere"),
            Some("/sys/fs/cgroup/memory/".into())
        );
        assert_eq!(
            place("cgroup", Some("cpu"), "/a"),
            Some("/sys/fs/cgroup/cpu,cpuacct/a".into())
        );
        assert_eq!(place("cgroup", Some("pids"), "/"), None);
        assert_eq!(
            place("cgroup2", None, "/user.slice"),
            Some("/sys/fs/cgroup/unified/user.slice".into())
        );
    }
}
