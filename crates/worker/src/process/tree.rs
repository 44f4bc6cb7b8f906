//! Finding and killing every process of a command, wherever it hid.
//!
//! A process belongs to a command when it descends from its leader, or is in its session or
//! group, or carries its cookie, or descends from one that does. Once the leader is reaped its number
//! may be given to a stranger, so a session or group then counts only for processes that are older
//! than that moment. A process that drops the cookie
//! from its environment *and* leaves the session *and* outlives its parents is out of reach here;
//! the end of the worker still reaches it ([`Target::Everything`]).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, kill_process_group, waitid,
};

use super::environment::COOKIE;

/// One command, by what tells its processes.
#[derive(Clone, Debug)]
pub(crate) struct Leader {
    /// Its leader's pid, which is also its session and group.
    pub(crate) pid: i32,
    /// The value of its cookie.
    pub(crate) cookie: String,
    /// When the leader was reaped, if it was, in the kernel's ticks since boot.
    pub(crate) reaped: Option<u64>,
}

/// Which processes are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// The trees of these commands.
    Commands(&'a [Leader]),
    /// Every process below the worker; every process there is when the worker is PID 1.
    Everything,
}

/// A fork bomb gets this many rounds, and this long, to be stopped in; then it is killed as found.
const ROUNDS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends SIGKILL to all of `target` until none is left, and returns how many were hit.
pub(crate) fn kill(target: Target<'_>) -> usize {
    if !proc_is_ours() {
        return signal_group(target, Signal::KILL);
    }
    // Orphans come to the worker: without a child it has no descendants. Into the namespace of a
    // first process, others may have been put.
    let nobody = match target {
        Target::Everything => !getpid().is_init() && is_childless(),
        Target::Commands(leaders) => leaders.is_empty(),
    };
    if nobody {
        return 0;
    }
    let since = Instant::now();
    let mut hit = HashSet::new();
    for _ in 0..ROUNDS {
        // Stopped processes cannot fork: when a scan finds nobody new, everybody is held.
        let mut stopped = HashSet::new();
        for _ in 0..ROUNDS {
            let found = members(target);
            let fresh: Vec<i32> = found
                .into_iter()
                .filter(|pid| stopped.insert(*pid))
                .collect();
            // One process cannot fork behind the scan: it is stopped, or it is gone.
            for pid in &fresh {
                send(*pid, Signal::STOP);
            }
            if fresh.is_empty() || since.elapsed() > PATIENCE {
                break;
            }
        }
        if stopped.is_empty() {
            break;
        }
        for pid in stopped {
            send(pid, Signal::KILL);
            hit.insert(pid);
        }
        if since.elapsed() > 2 * PATIENCE {
            break;
        }
    }
    hit.len()
}

/// Sends `signal` once to all of `target`, and returns how many were hit.
pub(crate) fn signal(target: Target<'_>, signal: Signal) -> usize {
    if !proc_is_ours() {
        return signal_group(target, signal);
    }
    let found = members(target);
    found.iter().filter(|pid| send(**pid, signal)).count()
}

fn send(pid: i32, signal: Signal) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// Whether `/proc` tells the tree. In one of another pid namespace a number may be anybody's; and
/// whoever runs as our user can take our last descriptor (`prlimit`), without which nothing there
/// can be read: then a group is all that can be hit.
fn proc_is_ours() -> bool {
    let own = fs::read_link("/proc/self").ok();
    own.is_some_and(|own| own.as_os_str() == getpid().as_raw_nonzero().to_string().as_str())
        && fs::read_dir("/proc").is_ok()
}

fn signal_group(target: Target<'_>, signal: Signal) -> usize {
    match target {
        // A number that may be a stranger's is not signalled.
        Target::Commands(leaders) => leaders
            .iter()
            .filter(|leader| leader.reaped.is_none())
            .filter_map(|leader| Pid::from_raw(leader.pid))
            .filter(|group| kill_process_group(*group, signal).is_ok())
            .count(),
        // "Group 1" is kill(-1), everything we may signal: right for PID 1 alone.
        Target::Everything if getpid().is_init() => {
            usize::from(kill_process_group(Pid::INIT, signal).is_ok())
        }
        Target::Everything => 0,
    }
}

struct Stat {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// In the kernel's ticks since boot.
    started: u64,
}

/// Now, on the clock of [`Stat::started`].
pub(crate) fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let per_second = rustix::param::clock_ticks_per_second();
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(now.tv_nsec).unwrap_or_default();
    seconds * per_second + nanos * per_second / 1_000_000_000
}

/// The living processes of `target`, never the worker itself and never PID 1.
fn members(target: Target<'_>) -> Vec<i32> {
    let own = getpid().as_raw_nonzero().get();
    let all = scan();
    let mut found: HashSet<i32> = match target {
        Target::Everything if own == 1 => all.iter().map(|stat| stat.pid).collect(),
        Target::Everything => all
            .iter()
            .filter(|stat| stat.parent == own)
            .map(|stat| stat.pid)
            .collect(),
        Target::Commands(leaders) => {
            let wanted = Wanted::new(leaders);
            all.iter()
                .filter(|stat| wanted.holds(stat))
                .map(|stat| stat.pid)
                .collect()
        }
    };
    found.remove(&own);
    loop {
        let below = all
            .iter()
            .filter(|stat| found.contains(&stat.parent))
            .map(|stat| stat.pid);
        let grown: Vec<i32> = below
            .filter(|pid| !found.contains(pid) && *pid != own)
            .collect();
        if grown.is_empty() {
            break;
        }
        found.extend(grown);
    }
    found.remove(&1);
    found.into_iter().collect()
}

/// Commands, prepared for asking about many processes.
struct Wanted<'a> {
    numbers: HashMap<i32, Option<u64>>,
    cookies: HashSet<&'a [u8]>,
}

impl<'a> Wanted<'a> {
    fn new(leaders: &'a [Leader]) -> Self {
        let mut numbers = HashMap::new();
        for leader in leaders {
            let slot = numbers.entry(leader.pid).or_insert(leader.reaped);
            // Of two with one number, the one that lives, or else lived last, says who is older.
            *slot = match (*slot, leader.reaped) {
                (Some(one), Some(other)) => Some(one.max(other)),
                _ => None,
            };
        }
        let cookies = leaders
            .iter()
            .map(|leader| leader.cookie.as_bytes())
            .collect();
        Self { numbers, cookies }
    }

    fn holds(&self, stat: &Stat) -> bool {
        let numbered = [stat.pid, stat.group, stat.session].iter().any(|number| {
            let reaped = self.numbers.get(number);
            reaped.is_some_and(|reaped| reaped.is_none_or(|moment| stat.started <= moment))
        });
        numbered || carries(stat.pid, &self.cookies)
    }
}

fn scan() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    // What is wanted comes long before the end of the line, which is read in one call.
    let mut line = [0_u8; 1024];
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let mut file = fs::File::open(format!("/proc/{pid}/stat")).ok()?;
        let count = file.read(&mut line).ok()?;
        parse(pid, &line[..count])
    })
    .collect()
}

/// Whether the worker has no child, be it a dead one.
fn is_childless() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// `pid (comm) state ppid pgrp session …`; `comm` may hold anything, also parentheses.
fn parse(pid: i32, stat: &[u8]) -> Option<Stat> {
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(stat.get(after..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let mut number = || fields.next()?.parse().ok();
    let [parent, group, session] = [number()?, number()?, number()?];
    // A process whose first thread has ended looks like a zombie while the others run on.
    let threads: u64 = fields.nth(13)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    let stat = Stat {
        pid,
        parent,
        group,
        session,
        started,
    };
    let dead = state == "X" || (state == "Z" && threads <= 1);
    (!dead).then_some(stat)
}

fn carries(pid: i32, cookies: &HashSet<&[u8]>) -> bool {
    let block = environment(&format!("/proc/{pid}/environ"));
    if !block.is_empty() {
        return holds(&block, cookies);
    }
    // The first thread may have ended and left the memory to the others.
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    threads
        .flatten()
        .filter_map(|thread| {
            let path = thread.path().join("environ");
            path.into_os_string().into_string().ok()
        })
        .any(|path| holds(&environment(&path), cookies))
}

fn holds(block: &[u8], cookies: &HashSet<&[u8]>) -> bool {
    let variables = block.split(|byte| *byte == 0);
    variables
        .filter_map(|variable| variable.strip_prefix(COOKIE.as_bytes())?.strip_prefix(b"="))
        .any(|cookie| cookies.contains(cookie))
}

fn environment(path: &str) -> Vec<u8> {
    let mut block = Vec::new();
    if let Ok(file) = fs::File::open(path) {
        // A partial block is looked at all the same.
        let _ = file.take(256 * 1024).read_to_end(&mut block);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(pid: i32, reaped: Option<u64>) -> Leader {
        Leader {
            pid,
            cookie: "none".into(),
            reaped,
        }
    }

    #[test]
    fn a_name_full_of_parentheses_hides_nothing() {
        let stat = parse(
            7,
            b"7 (a) Z 1 (b)) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 0 0 1 0 99",
        )
        .unwrap();
        assert_eq!(
            (
                stat.pid,
                stat.parent,
                stat.group,
                stat.session,
                stat.started
            ),
            (7, 3, 4, 5, 99)
        );
    }

    #[test]
    fn zombies_and_garbage_are_nobody() {
        assert!(parse(7, b"7 (a) Z 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 0 0 1 0 99").is_none());
        assert!(parse(7, b"7 (a) Z 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 0 0 2 0 99").is_some());
        assert!(parse(7, b"7 (a) S 3").is_none());
        assert!(parse(7, b"").is_none());
        assert!(parse(7, b"7 (a)\xff\xff 1 2 3").is_none());
    }

    #[test]
    fn the_scan_sees_this_process_and_never_returns_it() {
        let own = getpid().as_raw_nonzero().get();
        assert!(scan().iter().any(|stat| stat.pid == own));
        assert!(!members(Target::Commands(&[leader(own, None)])).contains(&own));
    }

    #[test]
    fn a_stranger_with_the_number_of_a_reaped_leader_is_spared() {
        let stranger = scan()
            .into_iter()
            .find(|stat| stat.pid == getpid().as_raw_nonzero().get())
            .unwrap();
        // Some older process of the same session stands for the leader whose number was reused.
        assert!(stranger.started <= ticks_since_boot());
        let spared = members(Target::Commands(&[leader(stranger.session, Some(0))]));
        assert!(!spared.contains(&stranger.session), "{spared:?}");
        assert_eq!(spared, Vec::<i32>::new());
    }
}
