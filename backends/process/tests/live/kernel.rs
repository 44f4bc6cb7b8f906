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
        (206, "io_setup", 38),
        (209, "io_submit", 38),
        (312, "kcmp", 1),
        (440, "process_madvise", 38),
        (457, "statmount", 38),
        (458, "listmount", 38),
        (467, "open_tree_attr", 1),
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

/// Being of the same user is all that the kernel asks for. A worker that can open nothing more, or
/// that gets no processor time, would keep no deadline.
#[tokio::test]
async fn nothing_inside_can_cripple_the_worker() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    let attacks = "
import ctypes, os, resource
l = ctypes.CDLL(None, use_errno=True)
def refused(what, call):
    try:
        call()
    except PermissionError:
        return
    print(what, 'was let through')
def raw(number, *args):
    if l.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), '')
before = resource.prlimit(1, resource.RLIMIT_NOFILE)
for pid in {1, *map(int, os.listdir('/proc/1/task'))}:
    refused('prlimit', lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0)))
    refused('scheduler', lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
    refused('batch', lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)))
    refused('nice', lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
refused('nice of a user', lambda: os.setpriority(os.PRIO_USER, 0, 19))
if os.uname().machine == 'x86_64':
    refused('ioprio', lambda: raw(251, 1, 1, 3 << 13))
    refused('attr', lambda: raw(314, 1, b'0' * 56, 0))
if resource.prlimit(1, resource.RLIMIT_NOFILE) != before:
    print('the limit of the worker changed')
# What a process may do to itself.
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0))
os.nice(1)
";
    assert_eq!(python(&sandbox, attacks).await.ok(), "");
    let mut late = namzu_client::ExecRequest::new(["sleep", "60"]);
    late.timeout = Some(std::time::Duration::from_millis(300));
    let ended = sandbox.exec(late).await.unwrap_err();
    assert_eq!(ended.code(), namzu_types::ErrorCode::ExecTimeout);
    sandbox.destroy().await.unwrap();
}

/// A lease on what only can be read stops a program of the host that opens it to write.
#[tokio::test]
async fn no_lease_is_taken_on_a_file_of_the_host() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    let sandbox = sandbox(SandboxSpec {
        workspace: namzu_types::Workspace::Host {
            path: dir.path().to_owned(),
            access: namzu_types::Access::ReadOnly,
        },
        ..SandboxSpec::default()
    })
    .await;
    let lease = "
import fcntl, os
for command, value, path in [(1024, 0, 'file'), (1024, 1, 'file'), (1024, 1, '/bin/sh'), (1026, 0x3f, '.')]:
    try:
        fcntl.fcntl(os.open(path, os.O_RDONLY), command, value)
        print('taken', command, path)
    except OSError as err:
        if err.errno != 22: print(err)";
    assert_eq!(python(&sandbox, lease).await.ok(), "");
    sandbox.destroy().await.unwrap();
}

/// A host's `core_pattern` may name a program, which then runs outside, as root, on what the
/// sandbox chose. The one limit with which the kernel does not start it is 1.
#[tokio::test]
async fn no_crash_inside_starts_the_crash_handler_of_the_host() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    let script = "
import resource as r
for new in [(0, 0), (0, 1), (-1, -1)]:
    r.setrlimit(r.RLIMIT_CORE, new)
print(r.getrlimit(r.RLIMIT_CORE), r.prlimit(1, r.RLIMIT_CORE))";
    assert_eq!(python(&sandbox, script).await.ok(), "(1, 1) (1, 1)\n");
    sandbox.destroy().await.unwrap();
}

/// Whatever limits the caller has, e.g. in the group `audio`.
#[tokio::test]
async fn nothing_inside_takes_precedence_over_the_host() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    let script = "
import os, resource as r
print(r.getrlimit(14), r.getrlimit(13))
for take in [lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)), lambda: os.nice(-1)]:
    try:
        take()
        print('taken')
    except PermissionError:
        pass";
    assert_eq!(python(&sandbox, script).await.ok(), "(0, 0) (0, 0)\n");
    sandbox.destroy().await.unwrap();
}
