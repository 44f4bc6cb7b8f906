//! Limits bite, and are told apart.

use namzu_types::{ErrorCode, Limits, SandboxSpec, Strength};
use std::time::Duration;

use crate::support::{python, sandbox, sh};

fn limited(limits: Limits) -> SandboxSpec {
    SandboxSpec {
        limits,
        ..SandboxSpec::default()
    }
}

#[tokio::test]
async fn the_memory_limit_ends_what_exceeds_it_and_says_so() {
    let sandbox = sandbox(limited(Limits {
        memory: Some(128 << 20),
        ..Limits::default()
    }))
    .await;
    let memory = sandbox.receipt().controls.memory.clone();
    let hog = "x = bytearray(400 << 20); x[::4096] = b'x' * len(x[::4096]); print('survived')";
    if memory.strength == Strength::Enforced {
        let ended = sandbox
            .exec(namzu_client::ExecRequest::new(["python3", "-c", hog]))
            .await;
        assert_eq!(ended.unwrap_err().code(), ErrorCode::OutOfMemory);
        // Spread over many processes, and in shared memory, it is the same limit.
        let spread = "import os\nfor _ in range(8):\n  if os.fork() == 0:\n    x = bytearray(40 << 20); os.pause() if hasattr(os, 'pause') else __import__('time').sleep(60)\nos.waitpid(-1, 0)";
        let ended = sandbox
            .exec(namzu_client::ExecRequest::new(["python3", "-c", spread]))
            .await;
        drop(ended);
        sh(&sandbox, "echo alive").await.ok();
    } else {
        let said = python(&sandbox, hog).await.refused();
        assert!(said.contains("MemoryError"), "{said}");
    }
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn the_process_limit_stops_a_fork_bomb() {
    let sandbox = sandbox(limited(Limits {
        processes: Some(20),
        ..Limits::default()
    }))
    .await;
    let bomb = "
import os, time
made = 0
try:
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
except OSError as err:
    print(err.errno, made)";
    let said = python(&sandbox, bomb).await.ok();
    let (errno, made) = said.trim().split_once(' ').unwrap();
    assert_eq!(errno, "11", "EAGAIN");
    assert!(made.parse::<u32>().unwrap() < 20, "{said}");
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn the_disk_limit_is_one_for_all_scratch_space() {
    const LIMIT: u64 = 16 << 20;
    let sandbox = sandbox(limited(Limits {
        disk: Some(LIMIT),
        ..Limits::default()
    }))
    .await;
    let fill = "for d in /workspace /tmp /home/user /dev/shm; do dd if=/dev/zero of=$d/f bs=64k 2>/dev/null; done; \
                stat -c %s /workspace/f /tmp/f /home/user/f /dev/shm/f";
    let sizes = sh(&sandbox, fill).await.ok();
    let total: u64 = sizes.lines().map(|size| size.parse::<u64>().unwrap()).sum();
    assert!(total <= LIMIT, "{total}");
    assert!(total > LIMIT / 2, "{total}");
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn a_processor_limit_is_in_force() {
    if crate::support::provider().capabilities().cpu != Strength::Enforced {
        let refused = crate::support::provider()
            .create(limited(Limits {
                cpus: Some(0.2),
                ..Limits::default()
            }))
            .await;
        assert_eq!(refused.unwrap_err().code(), ErrorCode::Unsupported);
        return;
    }
    let sandbox = sandbox(limited(Limits {
        cpus: Some(0.2),
        ..Limits::default()
    }))
    .await;
    // Processor time against the clock of the same process: no bound on how long it takes.
    let spin = "
import time
wall, cpu = time.monotonic(), time.process_time()
while time.process_time() - cpu < 0.4: pass
print((time.process_time() - cpu) / (time.monotonic() - wall))";
    let share: f64 = python(&sandbox, spin).await.ok().trim().parse().unwrap();
    assert!(share < 0.5, "{share}");
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn a_lifetime_ends_the_sandbox_and_says_so() {
    let sandbox = sandbox(limited(Limits {
        lifetime: Some(Duration::from_millis(700)),
        ..Limits::default()
    }))
    .await;
    let ended = sandbox
        .exec(namzu_client::ExecRequest::new(["sleep", "60"]))
        .await;
    assert_eq!(ended.unwrap_err().code(), ErrorCode::LifetimeExceeded);
    sandbox.destroy().await.unwrap();
}
