//! What the kernel answers, and what can be done to the worker.

use namzu_types::SandboxSpec;

use crate::support::{python, sandbox, sh};

#[tokio::test]
async fn nested_namespaces_are_refused() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    for attack in [
        "unshare -U true",
        "unshare -Ur true",
        "unshare -m true",
        "unshare -n true",
        "nsenter -t 1 -m true",
        "bwrap --ro-bind / / true",
        "mount -t tmpfs none /tmp",
        "chroot / true",
    ] {
        sh(&sandbox, attack).await.refused();
    }
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn dangerous_system_calls_are_refused() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    #[cfg(target_arch = "x86_64")]
    let calls = [
        (425, "io_uring_setup", 38),
        (435, "clone3", 38),
        (321, "bpf", 1),
        (298, "perf_event_open", 1),
        (323, "userfaultfd", 1),
        (250, "keyctl", 1),
        (304, "open_by_handle_at", 1),
        (165, "mount", 1),
        (428, "open_tree", 1),
        (308, "setns", 1),
        (0x4000_0000 + 39, "getpid of x32", 38),
    ];
    #[cfg(target_arch = "aarch64")]
    let calls = [
        (425, "io_uring_setup", 38),
        (280, "bpf", 1),
        (40, "mount", 1),
    ];
    for (number, name, errno) in calls {
        let script = format!(
            "import ctypes; l = ctypes.CDLL(None, use_errno=True); \
             print(l.syscall({number}, 0, 0, 0, 0, 0, 0), ctypes.get_errno())"
        );
        assert_eq!(
            python(&sandbox, &script).await.ok(),
            format!("-1 {errno}\n"),
            "{name}"
        );
    }
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn typing_into_a_terminal_is_refused() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    for request in ["0x5412", "0x100005412", "0x541C"] {
        let script = format!(
            "import ctypes, os; m, s = os.openpty(); l = ctypes.CDLL(None, use_errno=True); \
             print(l.syscall(16, s, ctypes.c_ulong({request}), b'x'), ctypes.get_errno())"
        );
        if cfg!(target_arch = "x86_64") {
            assert_eq!(python(&sandbox, &script).await.ok(), "-1 1\n", "{request}");
        }
    }
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn the_worker_is_pid_1_and_nobody_looks_into_it() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    for attack in [
        "ls -l /proc/1/fd",
        "cat /proc/1/environ",
        "cat /proc/1/maps",
        "head -c 1 /proc/1/mem",
        "readlink /proc/1/root",
        "echo x > /proc/1/fd/3",
    ] {
        sh(&sandbox, attack).await.refused();
    }
    // Signals to PID 1 that it does not handle are dropped by the kernel, SIGKILL and SIGSTOP too.
    sh(&sandbox, "kill -KILL 1; kill -STOP 1; true").await.ok();
    let attach = "import ctypes; l = ctypes.CDLL(None, use_errno=True); \
                  print(l.ptrace(16, 1, 0, 0), ctypes.get_errno())";
    assert_eq!(python(&sandbox, attach).await.ok(), "-1 1\n");
    assert_eq!(sh(&sandbox, "echo alive").await.ok(), "alive\n");
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn no_descriptor_of_the_worker_or_the_host_reaches_a_command() {
    // One that the host leaks on purpose.
    let leak = std::fs::File::open("/etc/shadow").or_else(|_| std::fs::File::open("/etc/passwd"));
    let leak = rustix::io::dup(leak.unwrap()).unwrap();
    let sandbox = sandbox(SandboxSpec::default()).await;
    let script = "import os\nfor fd in os.listdir('/proc/self/fd'):\n try: print(fd, os.readlink('/proc/self/fd/' + fd))\n except OSError: pass";
    let found = python(&sandbox, script).await.ok();
    let beyond: Vec<_> = found
        .lines()
        .filter(|line| !matches!(line.split(' ').next(), Some("0" | "1" | "2")))
        .collect();
    assert_eq!(beyond, Vec::<&str>::new());
    drop(leak);
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn only_processes_of_the_sandbox_are_seen() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    let seen = sh(&sandbox, "ls -d /proc/[0-9]* | wc -l").await.ok();
    let seen: u32 = seen.trim().parse().unwrap();
    // The worker, the shell, `ls` and `wc`.
    assert!(seen <= 5, "{seen}");
    sh(&sandbox, &format!("kill -0 {}", std::process::id()))
        .await
        .refused();
    sandbox.destroy().await.unwrap();
}
