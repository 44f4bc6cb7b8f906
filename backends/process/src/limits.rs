//! What holds each limit on this host, and how firmly.

use namzu_types::{Access, ControlReport, Limits, Strength, Workspace};
use rustix::process::{Pid, Resource, Rlimit, geteuid, getrlimit, prlimit};

use crate::cgroup::Hierarchy;
use crate::error::Error;

/// What this host offers to hold limits with.
#[derive(Clone, Debug)]
pub(crate) struct Means {
    pub(crate) cgroups: Option<Hierarchy>,
    /// `RLIMIT_NPROC` counts the sandbox's processes alone: Linux 5.14 and newer count by user
    /// namespace, and never for the host's root.
    pub(crate) rlimit_pids: bool,
    pub(crate) hard: Hard,
}

/// Above these no resource limit can be set; `None` is no ceiling.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hard {
    data: Option<u64>,
    processes: Option<u64>,
}

impl Hard {
    fn find() -> Self {
        Self {
            data: getrlimit(Resource::Data).maximum,
            processes: getrlimit(Resource::Nproc).maximum,
        }
    }
}

/// Less than this and the worker itself does not start.
const MIN_MEMORY: u64 = 8 << 20;
const MIN_PROCESSES: u32 = 4;
const MIN_DISK: u64 = 64 << 10;

/// What a memory limit without cgroups is worth.
const BY_RLIMIT: &str = "RLIMIT_DATA";

impl Means {
    pub(crate) fn find() -> Self {
        Self {
            cgroups: Hierarchy::find(),
            rlimit_pids: !geteuid().is_root() && kernel_is_at_least(5, 14),
            hard: Hard::find(),
        }
    }

    fn holds(&self, limited: impl Fn(&Hierarchy) -> bool) -> bool {
        self.cgroups.as_ref().is_some_and(limited)
    }

    /// At best, on this host.
    pub(crate) fn memory(&self) -> Strength {
        if self.holds(Hierarchy::limits_memory) {
            Strength::Enforced
        } else {
            Strength::BestEffort
        }
    }

    /// At best, on this host.
    pub(crate) fn pids(&self) -> Strength {
        if self.holds(Hierarchy::limits_pids) || self.rlimit_pids {
            Strength::Enforced
        } else {
            Strength::None
        }
    }

    /// At best, on this host.
    pub(crate) fn cpu(&self) -> Strength {
        if self.holds(Hierarchy::limits_cpu) {
            Strength::Enforced
        } else {
            Strength::None
        }
    }

    /// Whether a sandbox with these limits gets a cgroup.
    pub(crate) fn cgroup_for(&self, limits: &Limits) -> Option<&Hierarchy> {
        let Limits {
            memory,
            processes,
            cpus,
            ..
        } = limits;
        self.cgroups.as_ref().filter(|found| {
            (memory.is_some() && found.limits_memory())
                || (processes.is_some() && found.limits_pids())
                || (cpus.is_some() && found.limits_cpu())
        })
    }

    /// Refuses what cannot be held at all, or holds too little to live in.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), Error> {
        if limits.memory.is_some_and(|bytes| bytes < MIN_MEMORY) {
            return Err(Error::TooSmall("memory below 8 MiB"));
        }
        if limits.processes.is_some_and(|count| count < MIN_PROCESSES) {
            return Err(Error::TooSmall("fewer than 4 processes"));
        }
        if limits.disk.is_some_and(|bytes| bytes < MIN_DISK) {
            return Err(Error::TooSmall("disk below 64 KiB"));
        }
        if limits
            .cpus
            .is_some_and(|cpus| !(cpus.is_finite() && cpus >= 0.01))
        {
            return Err(Error::TooSmall("processor time below 0.01"));
        }
        if limits.processes.is_some() && self.pids() == Strength::None {
            return Err(Error::Limit("processes"));
        }
        if limits.cpus.is_some() && self.cpu() == Strength::None {
            return Err(Error::Limit("processor time"));
        }
        self.check_hard(limits)
    }

    /// What `set_rlimits` could not set.
    fn check_hard(&self, limits: &Limits) -> Result<(), Error> {
        let above = |wanted: u64, hard: Option<u64>| hard.filter(|hard| wanted > *hard);
        if let Some(bytes) = limits.memory
            && !self.holds(Hierarchy::limits_memory)
            && let Some(hard) = above(bytes, self.hard.data)
        {
            return Err(Error::HardLimit {
                what: "memory",
                most: human(hard),
                ulimit: "-d",
            });
        }
        if let Some(count) = limits.processes
            && !self.holds(Hierarchy::limits_pids)
            && let Some(hard) = above(count.into(), self.hard.processes)
        {
            return Err(Error::HardLimit {
                what: "processes",
                most: hard.to_string(),
                ulimit: "-u",
            });
        }
        Ok(())
    }

    pub(crate) fn memory_report(&self, limits: &Limits) -> ControlReport {
        let Some(bytes) = limits.memory else {
            return ControlReport::unasked();
        };
        match &self.cgroups {
            Some(found) if found.limits_memory() => ControlReport::new(
                Strength::Enforced,
                format!("{} memory controller", found.version()),
                human(bytes),
            ),
            _ => ControlReport::new(
                Strength::BestEffort,
                BY_RLIMIT,
                format!(
                    "{} for each process; shared memory is not counted",
                    human(bytes)
                ),
            ),
        }
    }

    pub(crate) fn pids_report(&self, limits: &Limits) -> ControlReport {
        let Some(count) = limits.processes else {
            return ControlReport::unasked();
        };
        let mechanism = match &self.cgroups {
            Some(found) if found.limits_pids() => format!("{} pids controller", found.version()),
            _ => "RLIMIT_NPROC in the user namespace".to_owned(),
        };
        ControlReport::new(Strength::Enforced, mechanism, count.to_string())
    }

    pub(crate) fn cpu_report(&self, limits: &Limits) -> ControlReport {
        match (&self.cgroups, limits.cpus) {
            (Some(found), Some(cpus)) => ControlReport::new(
                Strength::Enforced,
                format!("{} cpu controller", found.version()),
                format!("{cpus} processors"),
            ),
            (_, None) => ControlReport::unasked(),
            (None, Some(_)) => ControlReport::NONE,
        }
    }

    /// Sets on the worker, and so on all that it starts, what no cgroup holds.
    pub(crate) fn set_rlimits(&self, worker: Pid, limits: &Limits) -> std::io::Result<()> {
        let set = |resource, value| {
            let limit = Rlimit {
                current: Some(value),
                maximum: Some(value),
            };
            prlimit(Some(worker), resource, limit).map(drop)
        };
        if let Some(bytes) = limits.memory
            && !self.holds(Hierarchy::limits_memory)
        {
            set(Resource::Data, bytes)?;
        }
        if let Some(count) = limits.processes
            && !self.holds(Hierarchy::limits_pids)
        {
            set(Resource::Nproc, u64::from(count))?;
        }
        Ok(())
    }
}

/// Sizes of the file systems in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) workspace: u64,
    pub(crate) tmp: u64,
    pub(crate) home: u64,
    pub(crate) shm: u64,
}

impl Sizes {
    /// Shares of `total`, which they never exceed together.
    pub(crate) fn share(total: u64, workspace: &Workspace) -> Self {
        let [tmp, home, shm] = [total / 4, total / 8, total / 16];
        let workspace = match workspace {
            Workspace::Private => total - tmp - home - shm,
            Workspace::Host { .. } => 0,
        };
        Self {
            workspace,
            tmp,
            home,
            shm,
        }
    }

    /// Those of a sandbox without a limit: shares of the machine's memory.
    pub(crate) fn unlimited(workspace: &Workspace) -> Self {
        let info = rustix::system::sysinfo();
        let memory = u64::from(info.mem_unit).saturating_mul(info.totalram);
        Self::share(memory, workspace)
    }
}

/// For the receipt.
pub(crate) fn disk_report(limits: &Limits, workspace: &Workspace, sized: bool) -> ControlReport {
    if !sized {
        return match limits.disk {
            Some(_) => ControlReport::NONE,
            None => ControlReport::unasked(),
        };
    }
    let sizes = match limits.disk {
        Some(bytes) => Sizes::share(bytes, workspace),
        None => Sizes::unlimited(workspace),
    };
    let Sizes {
        workspace: own,
        tmp,
        home,
        shm,
    } = sizes;
    let scratch = format!(
        "/tmp {}, /home/user {}, /dev/shm {}; the number of files is held by a memory limit alone",
        human(tmp),
        human(home),
        human(shm)
    );
    let detail = match workspace {
        Workspace::Private => format!("/workspace {}, {scratch}", human(own)),
        Workspace::Host { access, .. } => match access {
            Access::ReadOnly => scratch,
            Access::ReadWrite => format!("{scratch}; the host directory is not limited"),
        },
    };
    let strength = match workspace {
        Workspace::Host {
            access: Access::ReadWrite,
            ..
        } => Strength::BestEffort,
        Workspace::Private | Workspace::Host { .. } => Strength::Enforced,
    };
    ControlReport::new(strength, "tmpfs size", detail)
}

fn human(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((name, unit)) => {
            let tenths = bytes / (unit / 10).max(1);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || parts.next().and_then(|part| part.parse::<u32>().ok());
    match (next(), next()) {
        (Some(have), Some(and)) => (have, and) >= (major, minor),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_exceed_the_limit() {
        for total in [MIN_DISK, 1 << 20, (1 << 20) + 7, 1 << 40] {
            let Sizes {
                workspace,
                tmp,
                home,
                shm,
            } = Sizes::share(total, &Workspace::Private);
            assert_eq!(workspace + tmp + home + shm, total);
            assert!(workspace > total / 2);
        }
    }

    #[test]
    fn limits_that_cannot_be_held_are_refused() {
        let none = Means {
            cgroups: None,
            rlimit_pids: false,
            hard: Hard::default(),
        };
        let limits = |limits| none.check(&limits);
        assert!(limits(Limits::default()).is_ok());
        assert!(matches!(
            limits(Limits {
                processes: Some(100),
                ..Limits::default()
            }),
            Err(Error::Limit(_))
        ));
        assert!(matches!(
            limits(Limits {
                cpus: Some(f64::NAN),
                ..Limits::default()
            }),
            Err(Error::TooSmall(_))
        ));
        assert_eq!(none.memory(), Strength::BestEffort);
    }

    #[test]
    fn a_limit_that_nobody_asked_for_says_so() {
        let means = Means::find();
        let limits = Limits::default();
        for report in [
            means.memory_report(&limits),
            means.pids_report(&limits),
            means.cpu_report(&limits),
        ] {
            assert_eq!(report, ControlReport::unasked());
        }
    }

    #[test]
    fn limits_above_the_hard_ones_are_refused() {
        let means = Means {
            cgroups: None,
            rlimit_pids: true,
            hard: Hard {
                data: Some(64 << 20),
                processes: Some(50),
            },
        };
        let memory = |mib: u64| Limits {
            memory: Some(mib << 20),
            ..Limits::default()
        };
        let processes = |count| Limits {
            processes: Some(count),
            ..Limits::default()
        };
        for held in [memory(64), processes(50)] {
            assert!(means.check(&held).is_ok(), "{held:?}");
        }
        for above in [memory(65), processes(51)] {
            let err = means.check(&above).unwrap_err();
            assert!(matches!(err, Error::HardLimit { .. }), "{err}");
        }
        // A cgroup takes any.
        let by_cgroup = Means {
            cgroups: Some(Hierarchy::V2 {
                parent: "/".into(),
                cpu: true,
            }),
            ..means
        };
        for limits in [memory(65), processes(51)] {
            assert!(by_cgroup.check(&limits).is_ok(), "{limits:?}");
        }
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(human(512), "512 B");
        assert_eq!(human(64 << 20), "64 MiB");
        assert_eq!(human(3 << 19), "1.5 MiB");
    }
}
