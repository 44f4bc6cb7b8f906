//! The escape list: what the wall, where one is declared, must not let through.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use namzu_client::{PtySize, Sandbox};
use namzu_core::types::Strength;

use crate::conformance::bench::{Answer, Bench, answer, line, probe, probe_request, run, sh};
use crate::conformance::case::{Case, When, case};
use crate::conformance::check::{Failure, Verdict, ensure, ensure_eq};
use crate::conformance::host;

pub(crate) const CASES: &[Case] = &[
    case!("isolation", host_files_are_not_there, files),
    case!(
        "isolation",
        the_host_account_database_gives_no_secret,
        files
    ),
    case!("isolation", host_files_cannot_be_changed, files),
    case!("isolation", no_unix_socket_of_the_host_answers, files),
    case!("isolation", kernel_settings_are_read_only, files),
    case!("isolation", no_device_beyond_the_harmless, files),
    case!("isolation", nothing_can_be_mounted, files),
    case!("isolation", the_root_cannot_be_left, files),
    case!("isolation", setuid_programs_give_nothing, files),
    case!("isolation", tmp_shm_and_home_are_private, files),
    case!("isolation", two_sandboxes_share_nothing, files),
    case!("isolation", host_processes_are_invisible, processes),
    case!("isolation", host_processes_cannot_be_signalled, processes),
    case!("isolation", the_worker_cannot_be_looked_into, processes),
    case!("isolation", the_worker_survives_every_signal, processes),
    case!("isolation", a_fork_bomb_ends_with_the_sandbox, |b| {
        processes(b).and(b.local())
    }),
    case!("isolation", commands_inherit_three_descriptors, |b| b
        .attacker()),
    case!("isolation", no_capability_is_held, processes),
    case!("isolation", ipc_is_private, processes),
    case!("isolation", the_terminal_cannot_be_typed_into, |b| {
        processes(b)
    }),
    case!("isolation", dangerous_system_calls_are_refused, |b| {
        When::declared(
            b.capabilities.syscalls == Strength::Enforced,
            "a system-call filter, enforced,",
        )
        .and(b.attacker())
    }),
    case!("isolation", privileged_system_calls_are_refused, processes),
];

fn files(bench: &Bench) -> When {
    When::declared(
        bench.capabilities.filesystem == Strength::Enforced,
        "a filesystem view, enforced,",
    )
    .and(bench.attacker())
}

fn processes(bench: &Bench) -> When {
    When::declared(
        bench.capabilities.processes == Strength::Enforced,
        "process isolation, enforced,",
    )
    .and(bench.attacker())
}

/// Every verb is refused.
async fn all_refused(sandbox: &Sandbox, verbs: &[&[&str]]) -> Verdict {
    let mut given = Vec::new();
    for verb in verbs {
        if let Answer::Given(came) = probe(sandbox, verb).await? {
            given.push(format!("{}: {came}", verb.join(" ")));
        }
    }
    ensure!(given.is_empty(), "the sandbox gave {given:?}");
    Ok(())
}

async fn host_files_are_not_there(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    // World-readable: only the view keeps it out, not its mode.
    let place = host::scratch("secret")?;
    let mut secrets = vec![place.join("secret")];
    let name = host::marker("secret")?;
    for dir in ["/var/tmp", "/dev/shm", "/run"] {
        secrets.push(Path::new(dir).join(&name));
    }
    if let Some(home) = std::env::var_os("HOME") {
        secrets.push(Path::new(&home).join(&name));
    }
    let mut planted = Vec::new();
    for secret in secrets {
        // An ordinary user cannot plant one everywhere.
        if std::fs::write(&secret, "of the host").is_ok() {
            let _ = std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644));
            planted.push(Planted(secret));
        }
    }
    ensure!(!planted.is_empty(), "no secret could be planted");
    for Planted(secret) in &planted {
        let path = secret.display().to_string();
        let root = format!("/proc/1/root{path}");
        let cwd = format!("/proc/1/cwd/../../../../../..{path}");
        all_refused(
            &sandbox,
            &[&["read", &path], &["read", &root], &["read", &cwd]],
        )
        .await?;
    }
    Ok(())
}

/// A file of the host, gone with its case.
struct Planted(std::path::PathBuf);

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn the_host_account_database_gives_no_secret(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    all_refused(
        &sandbox,
        &[
            &["read", "/etc/shadow"],
            &["read", "/etc/gshadow"],
            &["listdir", "/root/.ssh"],
            &["read", "/etc/ssh/ssh_host_ed25519_key"],
            &["read", "/etc/ssh/ssh_host_rsa_key"],
            &["read", "/proc/kcore"],
            &["read", "/dev/mem"],
            &["read", "/dev/kmsg"],
            &["listdir", "/boot"],
        ],
    )
    .await
}

async fn host_files_cannot_be_changed(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let name = host::marker("planted")?;
    let mut inside = Vec::new();
    for dir in [
        "/usr",
        "/usr/bin",
        "/usr/local/bin",
        "/etc",
        "/lib",
        "/bin",
        "/opt",
        "/var",
        "/run",
        "/",
    ] {
        inside.push(format!("{dir}/{name}"));
    }
    for path in &inside {
        // A sandbox may have places of its own by these names; what counts is the host.
        probe(&sandbox, &["create", path]).await?;
        ensure!(!Path::new(path).exists(), "{path} was made on the host");
    }
    all_refused(
        &sandbox,
        &[
            &["write", "/bin/sh"],
            &["write", "/usr/bin/env"],
            &["write", "/proc/1/root/usr/bin/env"],
            &["create", "/usr/bin/planted"],
            &["create", "/lib/planted"],
        ],
    )
    .await
}

async fn no_unix_socket_of_the_host_answers(bench: Arc<Bench>) -> Verdict {
    let place = host::scratch("socket")?;
    let path = place.join("s");
    let _listener = UnixListener::bind(&path)?;
    let sandbox = bench.sandbox().await?;
    let path = path.display().to_string();
    all_refused(
        &sandbox,
        &[
            &["unix", &path],
            &["unix", &format!("/proc/1/root{path}")],
            &["unix", "/run/docker.sock"],
            &["unix", "/var/run/docker.sock"],
            &["unix", "/run/dbus/system_bus_socket"],
            &["unix", "/run/systemd/private"],
            &["sockets"],
        ],
    )
    .await
}

async fn kernel_settings_are_read_only(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    all_refused(
        &sandbox,
        &[
            &["write", "/proc/sys/kernel/core_pattern"],
            &["write", "/proc/sys/kernel/hostname"],
            &["write", "/proc/sys/kernel/modprobe"],
            &["write", "/proc/sys/vm/overcommit_memory"],
            &["write", "/proc/sys/fs/binfmt_misc/register"],
            &["write", "/proc/sysrq-trigger"],
            &["write", "/sys/kernel/uevent_helper"],
            &["write", "/sys/fs/cgroup/release_agent"],
            &["create", "/sys/fs/cgroup/planted"],
            &["create", "/sys/fs/cgroup/memory/planted"],
        ],
    )
    .await?;
    // Setting one's own limit of user namespaces or the like must not reach the host either.
    let before = std::fs::read("/proc/sys/kernel/core_pattern")?;
    sandbox
        .exec(sh("echo '|/tmp/x' > /proc/sys/kernel/core_pattern"))
        .await?;
    ensure!(
        std::fs::read("/proc/sys/kernel/core_pattern")? == before,
        "the host's core pattern changed"
    );
    Ok(())
}

async fn no_device_beyond_the_harmless(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    all_refused(&sandbox, &[&["disks"], &["mknod"]]).await
}

async fn nothing_can_be_mounted(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    all_refused(&sandbox, &[&["mount"], &["remount"], &["userns_mount"]]).await
}

async fn the_root_cannot_be_left(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    // The root is the root, from every side.
    let up = line(&sandbox, "cd / && cd ../../../.. && pwd -P").await?;
    ensure_eq!(up, "/", "above the root");
    all_refused(&sandbox, &[&["handle"]]).await
}

async fn setuid_programs_give_nothing(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    all_refused(&sandbox, &[&["setuid"]]).await
}

async fn tmp_shm_and_home_are_private(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let name = host::marker("private")?;
    for dir in ["/tmp", "/dev/shm", "\"$HOME\""] {
        // Writable, as programs expect, and not the host's.
        line(
            &sandbox,
            &format!("echo x > {dir}/{name} && cat {dir}/{name}"),
        )
        .await?;
    }
    let left = host::traces(&name);
    ensure!(left.is_empty(), "the host has {left:?}");
    // POSIX semaphores live in /dev/shm.
    probe(&sandbox, &["semaphore"])
        .await?
        .given("a semaphore of its own")?;
    Ok(())
}

async fn two_sandboxes_share_nothing(bench: Arc<Bench>) -> Verdict {
    let (one, two) = (bench.sandbox().await?, bench.sandbox().await?);
    run(
        &one,
        sh("echo mine > \"$HOME/note\"; echo mine > /tmp/note; echo mine > note"),
    )
    .await?;
    let seen = line(
        &two,
        "cat \"$HOME/note\" /tmp/note note 2>/dev/null | wc -l",
    )
    .await?;
    ensure_eq!(seen.trim(), "0", "notes of one sandbox that another reads");
    let mut request = sh("while :; do sleep 1000; done");
    let mark = host::marker("neighbour")?;
    request.argv.push(mark.clone().into_bytes());
    let _running = one.spawn(request).await?;
    let seen = line(
        &two,
        &format!(
            "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -cx '[n]{}' || true",
            &mark[1..]
        ),
    )
    .await?;
    ensure_eq!(seen, "0", "processes of one sandbox that another sees");
    Ok(())
}

/// A process of the host to aim at.
fn bystander() -> Verdict<(tokio::process::Child, String)> {
    let mark = host::marker("bystander")?;
    let child = namzu_core::spawn::command("/bin/sh")
        .args(["-c", "while :; do sleep 1000; done", &mark])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((child, mark))
}

async fn host_processes_are_invisible(bench: Arc<Bench>) -> Verdict {
    let (_child, mark) = bystander()?;
    let sandbox = bench.sandbox().await?;
    let script = format!(
        "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '[n]{}' || true",
        &mark[1..]
    );
    ensure_eq!(line(&sandbox, &script).await?, "0", "host processes seen");
    let count: u32 = line(&sandbox, "ls -d /proc/[0-9]* | wc -l")
        .await?
        .trim()
        .parse()?;
    ensure!(count < 12, "{count} processes are seen in a fresh sandbox");
    Ok(())
}

async fn host_processes_cannot_be_signalled(bench: Arc<Bench>) -> Verdict {
    let (mut child, _mark) = bystander()?;
    let pid = child
        .id()
        .ok_or_else(|| Failure::new("the bystander ended by itself"))?
        .to_string();
    let us = std::process::id().to_string();
    let sandbox = bench.sandbox().await?;
    all_refused(&sandbox, &[&["kill", &us, "0"], &["kill", &pid, "9"]]).await?;
    // To everybody at once: whatever that hits is inside.
    let _ = sandbox.exec(sh("kill -9 -1")).await;
    ensure!(
        child.try_wait()?.is_none(),
        "a process of the host was killed"
    );
    Ok(())
}

async fn the_worker_cannot_be_looked_into(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let worker = line(&sandbox, "echo $PPID").await?;
    for pid in [worker.as_str(), "1"] {
        let at = |what: &str| format!("/proc/{pid}/{what}");
        all_refused(
            &sandbox,
            &[
                &["ptrace", pid],
                &["vm_read", pid],
                &["read", &at("mem")],
                &["read", &at("environ")],
                &["peek", pid],
                &["read", &at("maps")],
            ],
        )
        .await?;
    }
    Ok(())
}

async fn the_worker_survives_every_signal(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let worker = line(&sandbox, "echo $PPID").await?;
    let _ = sandbox
        .exec(sh(&format!(
            "for n in $(seq 1 64); do kill -$n {worker} 1; done 2>/dev/null; true"
        )))
        .await;
    run(&sandbox, sh("true")).await?;
    // A command may end its own kind, but not the worker.
    let _ = sandbox.exec(sh("kill -9 -1; true")).await;
    run(&sandbox, sh("true")).await?;
    Ok(())
}

async fn a_fork_bomb_ends_with_the_sandbox(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mark = host::marker("bomb")?;
    // Sixty-four is enough to show that each is found, whatever its session, and stays polite to
    // hosts without a limit.
    let mut request = sh(
        "for i in $(seq 64); do setsid sh -c 'trap \"\" 1 2 3 15; while :; do sleep 1000; done' $0 & done; wait",
    );
    request.argv.push(mark.clone().into_bytes());
    let _running = sandbox.spawn_background(request).await?;
    host::eventually(bench.patience, "all are up", || async {
        let up = host::marked(&mark)?.len();
        Ok(if up >= 65 {
            Ok(())
        } else {
            Err(format!("{up} are"))
        })
    })
    .await?;
    sandbox.destroy().await?;
    host::all_gone(bench.patience, &mark).await
}

async fn commands_inherit_three_descriptors(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    all_refused(&sandbox, &[&["fds"]]).await
}

async fn no_capability_is_held(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    all_refused(&sandbox, &[&["caps"]]).await
}

async fn ipc_is_private(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    for kind in ["ipc", "uts", "pid", "mnt"] {
        let inside = line(&sandbox, &format!("readlink /proc/self/ns/{kind}")).await?;
        let outside = std::fs::read_link(format!("/proc/self/ns/{kind}"))?;
        ensure!(
            Path::new(&inside) != outside,
            "the sandbox is in the host's {kind} namespace"
        );
    }
    Ok(())
}

async fn the_terminal_cannot_be_typed_into(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    // Without a terminal of its own a command must not find the host's.
    all_refused(&sandbox, &[&["tty"], &["tiocsti"]]).await?;
    // Not even into its own, which somebody may be looking at.
    let verb = ["tiocsti"];
    let mut request = probe_request(&verb);
    request.pty = Some(PtySize { cols: 80, rows: 24 });
    answer(&verb, &sandbox.exec(request).await?)?.refused("typing into its own terminal")?;
    Ok(())
}

async fn dangerous_system_calls_are_refused(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    all_refused(
        &sandbox,
        &[
            &["userns"],
            &["keyctl"],
            &["bpf"],
            &["perf"],
            &["io_uring"],
            &["module"],
            &["handle"],
        ],
    )
    .await
}

async fn privileged_system_calls_are_refused(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    all_refused(
        &sandbox,
        &[&["bpf"], &["module"], &["clock"], &["mount"], &["mknod"]],
    )
    .await
}
