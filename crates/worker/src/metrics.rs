//! `GET /metrics`: processor, memory and disk, as envd tells them.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use http::StatusCode;
use serde::Serialize;

use crate::http::{self as web, Response};
use crate::worker::Worker;

/// Processor time at the last call, so that a call tells of the time since.
#[derive(Debug, Default)]
pub(crate) struct Processor(Mutex<Times>);

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    busy: u64,
    all: u64,
}

#[derive(Serialize)]
struct Metrics {
    ts: u64,
    cpu_count: usize,
    cpu_used_pct: f64,
    mem_total: u64,
    mem_used: u64,
    mem_total_mib: u64,
    mem_used_mib: u64,
    disk_used: u64,
    disk_total: u64,
}

/// Answers the call.
pub(crate) fn handle(worker: &Worker) -> Response {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = field(&memory, "MemTotal:");
    let used = total.saturating_sub(field(&memory, "MemAvailable:"));
    let (disk_used, disk_total) = disk(worker);
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let metrics = Metrics {
        ts: since_epoch.as_secs(),
        cpu_count: std::thread::available_parallelism().map_or(1, usize::from),
        cpu_used_pct: worker.processor().used(),
        mem_total: total,
        mem_used: used,
        mem_total_mib: total >> 20,
        mem_used_mib: used >> 20,
        disk_used,
        disk_total,
    };
    web::json(StatusCode::OK, &metrics)
}

impl Processor {
    /// Percent of all processors that were busy since the last call.
    fn used(&self) -> f64 {
        let now = fs::read_to_string("/proc/stat")
            .ok()
            .and_then(|stat| times(&stat))
            .unwrap_or_default();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = now.busy.saturating_sub(last.busy);
        let all = now.all.saturating_sub(last.all);
        *last = now;
        drop(last);
        if all == 0 {
            return 0.0;
        }
        // Hundredths of a percent in integers: counters of ticks may exceed a double's precision.
        let hundredths = u32::try_from(busy.saturating_mul(10_000) / all).unwrap_or(0);
        f64::from(hundredths) / 100.0
    }
}

fn times(stat: &str) -> Option<Times> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .filter_map(|tick| tick.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; what follows is counted in user already.
    let all = ticks.iter().take(8).sum::<u64>();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some(Times {
        busy: all.saturating_sub(idle),
        all,
    })
}

fn field(memory: &str, name: &str) -> u64 {
    let line = memory.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

fn disk(worker: &Worker) -> (u64, u64) {
    let Ok(stat) = rustix::fs::statvfs(&worker.config.cwd) else {
        return (0, 0);
    };
    let total = stat.f_blocks.saturating_mul(stat.f_frsize);
    (
        total.saturating_sub(stat.f_bfree.saturating_mul(stat.f_frsize)),
        total,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_used_time() {
        let times = times("cpu  10 0 10 70 10 0 0 0 5 5\ncpu0 1").unwrap();
        assert_eq!((times.busy, times.all), (20, 100));
        assert!(super::times("intr 1").is_none());
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(
            field("MemTotal:  2 kB\nMemAvailable: 1 kB\n", "MemAvailable:"),
            1024
        );
        assert_eq!(field("", "MemTotal:"), 0);
    }
}
