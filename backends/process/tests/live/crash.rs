//! What is left when the host process dies, or lets go.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use namzu_client::ExecRequest;
use namzu_types::{Limits, SandboxSpec};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{provider, provider_with_doors, sandbox};

/// Limits that make a cgroup where one can be made.
fn limited() -> SandboxSpec {
    SandboxSpec {
        limits: Limits {
            memory: Some(256 << 20),
            processes: Some(50),
            ..Limits::default()
        },
        ..SandboxSpec::default()
    }
}

/// A process and everything it started, whatever their PID namespace.
#[derive(Debug)]
struct Tree(Vec<(i32, OwnedFd)>);

impl Tree {
    fn below(root: i32) -> Self {
        let parents: Vec<(i32, i32)> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
                let parent = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?;
                Some((pid, parent.parse().ok()?))
            })
            .collect();
        let mut found = vec![root];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            next += 1;
            found.extend(parents.iter().filter(|of| of.1 == parent).map(|of| of.0));
        }
        let open = |pid| {
            Some((
                pid,
                pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?,
            ))
        };
        Self(found.into_iter().skip(1).filter_map(open).collect())
    }

    /// Waits for each to end; the deadline only bounds a failure.
    fn assert_ends(&self) {
        let deadline = Timespec::try_from(Duration::from_secs(20)).unwrap();
        for (pid, pidfd) in &self.0 {
            let mut ended = [PollFd::new(pidfd, PollFlags::IN)];
            assert_eq!(
                poll(&mut ended, Some(&deadline)).unwrap(),
                1,
                "{pid} lives on"
            );
        }
    }
}

/// The cgroups that a process has made.
fn cgroups_of(maker: i32) -> BTreeSet<PathBuf> {
    fn walk(dir: &Path, name: &str, found: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let is_ours = |file: &str| file.starts_with("namzu-") && file.contains(name);
                if entry.file_name().to_str().is_some_and(is_ours) {
                    found.insert(entry.path());
                } else {
                    walk(&entry.path(), name, found);
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(
        Path::new("/sys/fs/cgroup"),
        &format!("-{maker}-"),
        &mut found,
    );
    found
}

async fn wait_for_ready(lines: &mut tokio::io::Lines<BufReader<tokio::process::ChildStdout>>) {
    let ready =
        async { while lines.next_line().await.unwrap().expect("it gets ready") != "ready" {} };
    tokio::time::timeout(Duration::from_secs(60), ready)
        .await
        .expect("it gets ready");
}

/// Waits for the command to print something.
async fn up(process: &mut namzu_client::Process) {
    process.next().await.unwrap().expect("it runs");
}

/// Runs in a process of its own, which is then killed.
#[tokio::test]
#[ignore = "the victim of a_killed_host_leaves_nothing, and no test"]
async fn victim() {
    let (plain, with_doors) = (provider(), provider_with_doors());
    let mut kept = Vec::new();
    for (provider, spec) in [
        (&plain, limited()),
        (&with_doors, limited()),
        (&plain, SandboxSpec::default()),
    ] {
        let sandbox = provider.create(spec).await.unwrap();
        let busy =
            "trap '' TERM HUP INT; setsid sleep 1000 & (sleep 1001 &); sleep 1002 & echo up; wait";
        let mut process = sandbox
            .spawn(ExecRequest::new(["/bin/sh", "-c", busy]))
            .await
            .unwrap();
        up(&mut process).await;
        kept.push((sandbox, process));
    }
    println!("\nready");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_host_leaves_nothing() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut victim = namzu_core::spawn::command(std::env::current_exe().unwrap());
    victim
        .args(["crash::victim", "--exact", "--ignored", "--nocapture"])
        .envs(std::env::vars_os())
        .stdout(Stdio::piped());
    let mut victim = victim.spawn().unwrap();
    let pid = victim.id().unwrap().cast_signed();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    wait_for_ready(&mut lines).await;

    let tree = Tree::below(pid);
    // Of each sandbox `bwrap`, the worker, the shell and its three; and of one, who opens doors.
    assert!(tree.0.len() >= 19, "{tree:?}");
    let cgroups = cgroups_of(pid);
    let has_cgroups = provider()
        .plan(&limited())
        .await
        .unwrap()
        .controls
        .memory
        .mechanism
        .contains("cgroup");
    assert_eq!(!cgroups.is_empty(), has_cgroups);

    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    victim.wait().await.unwrap();
    // The janitor is one of them, so the cgroups are gone when it is.
    tree.assert_ends();
    assert_eq!(cgroups_of(pid), BTreeSet::new());
    assert_eq!(fs::read_to_string("/proc/self/mountinfo").unwrap(), mounts);
}

#[tokio::test]
async fn a_dropped_sandbox_leaves_nothing() {
    let own = std::process::id().cast_signed();
    let sandbox = sandbox(limited()).await;
    let script = "echo up; kill -STOP $$; echo a_dropped_sandbox";
    let mut process = sandbox
        .spawn(ExecRequest::new(["/bin/sh", "-c", script]))
        .await
        .unwrap();
    up(&mut process).await;
    // Other tests of this process have sandboxes too.
    let pid = fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let command = fs::read(entry.path().join("cmdline")).ok()?;
        let is_it = command.ends_with(format!("-c\0{script}\0").as_bytes());
        is_it.then(|| entry.file_name().to_str()?.parse::<i32>().ok())?
    });
    let pidfd = pidfd_open(Pid::from_raw(pid.unwrap()).unwrap(), PidfdFlags::empty()).unwrap();
    drop(process);
    drop(sandbox);
    Tree(vec![(own, pidfd)]).assert_ends();
}

#[tokio::test]
async fn a_cancelled_create_leaves_nothing() {
    let mut victim = namzu_core::spawn::command(std::env::current_exe().unwrap());
    victim
        .args(["crash::canceller", "--exact", "--ignored", "--nocapture"])
        .envs(std::env::vars_os())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut victim = victim.spawn().unwrap();
    let pid = victim.id().unwrap().cast_signed();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    while lines
        .next_line()
        .await
        .unwrap()
        .expect("the canceller is up")
        != "ready"
    {}
    // While it lives: only the janitor may stay.
    let tree = Tree::below(pid);
    let (janitor, others): (Vec<_>, Vec<_>) = tree.0.into_iter().partition(|(pid, _)| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.ends_with(b"\0janitor\0")
    });
    Tree(others).assert_ends();
    drop(victim.stdin.take());
    victim.wait().await.unwrap();
    Tree(janitor).assert_ends();
    assert_eq!(cgroups_of(pid), BTreeSet::new());
}

/// Gives up creating at every stage it can be given up at.
#[tokio::test]
#[ignore = "a process of a_cancelled_create_leaves_nothing, and no test"]
async fn canceller() {
    let provider = provider_with_doors();
    // The first one to warm up what is made once.
    provider
        .create(limited())
        .await
        .unwrap()
        .destroy()
        .await
        .unwrap();
    for polls in 0..12 {
        let mut left = polls;
        let create = provider.create(limited());
        tokio::pin!(create);
        // Each wake-up is a step further.
        let given_up = std::future::poll_fn(|cx| {
            if left == 0 {
                return std::task::Poll::Ready(());
            }
            left -= 1;
            create.as_mut().poll(cx).map(drop)
        });
        given_up.await;
    }
    drop(provider);
    println!("\nready");
    std::io::Read::read(&mut std::io::stdin(), &mut [0]).unwrap();
}

/// Creates without end; killed at whatever moment.
#[tokio::test]
#[ignore = "the victim of a_host_killed_while_it_creates_leaves_nothing, and no test"]
async fn creator() {
    let mark = std::env::var("NAMZU_TEST_MARK").unwrap();
    let provider = provider();
    println!("\nready");
    loop {
        let env = [("MARK".to_owned(), mark.clone())].into();
        let spec = SandboxSpec {
            env,
            ..SandboxSpec::default()
        };
        drop(provider.create(spec).await.unwrap());
    }
}

/// The living processes that were started for the sandboxes of one mark.
fn marked(mark: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let carries = |pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environ).contains(&format!(r#""MARK":"{mark}""#))
    };
    pids.filter(carries).collect()
}

#[tokio::test]
async fn a_host_killed_while_it_creates_leaves_nothing() {
    for round in 0_u64..40 {
        let mark = format!("{}-{round}", std::process::id());
        let mut victim = namzu_core::spawn::command(std::env::current_exe().unwrap());
        victim
            .args(["crash::creator", "--exact", "--ignored", "--nocapture"])
            .envs(std::env::vars_os())
            .env("NAMZU_TEST_MARK", &mark)
            .stdout(Stdio::piped());
        let mut victim = victim.spawn().unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        wait_for_ready(&mut lines).await;
        // Another moment of a create each round.
        tokio::time::sleep(Duration::from_micros(round * 397)).await;
        victim.kill().await.unwrap();
        for patience in 0.. {
            let left = marked(&mark);
            if left.is_empty() {
                break;
            }
            assert!(patience < 500, "round {round}: {left:?} are left");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
