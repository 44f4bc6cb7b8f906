//! What the kernel says of memory: proportional and resident sizes, in bytes.

use std::fs;

/// Resident bytes of one process, or 0 when it is gone.
pub(crate) fn rss(pid: u32) -> u64 {
    field(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Proportional bytes of one process, or 0 when it is gone.
pub(crate) fn pss(pid: u32) -> u64 {
    field(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

fn field(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib: u64 = line
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    kib * 1024
}

/// Every living descendant of this process, whatever its PID namespace.
pub(crate) fn descendants() -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The command name may hold spaces and parentheses; the parent is two fields after the last.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parents.push((pid, parent.unwrap_or(0)));
    }
    let mut found = vec![std::process::id()];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        found.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == pid)
                .map(|(child, _)| *child),
        );
        next += 1;
    }
    found.split_off(1)
}

/// The descendants whose executable is the worker.
pub(crate) fn workers() -> Vec<u32> {
    let is_worker = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .unwrap_or_default()
            .contains("--listen")
    };
    let not_bwrap = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() != "bwrap")
    };
    descendants()
        .into_iter()
        .filter(is_worker)
        .filter(not_bwrap)
        .collect()
}
