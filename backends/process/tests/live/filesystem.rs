//! What of the host can be read and written.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use namzu_types::{Access, SandboxSpec, Workspace};

use crate::support::{python, sandbox, sh};

fn host_workspace(path: &Path, access: Access) -> SandboxSpec {
    SandboxSpec {
        workspace: Workspace::Host {
            path: path.to_owned(),
            access,
        },
        ..SandboxSpec::default()
    }
}

#[tokio::test]
async fn secrets_of_the_host_are_not_there() {
    let home = std::env::home_dir().unwrap();
    let secret = tempfile::NamedTempFile::new_in(home).unwrap();
    fs::write(&secret, "precious").unwrap();
    let sandbox = sandbox(SandboxSpec::default()).await;
    for path in [
        secret.path().to_str().unwrap(),
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/ssh",
        "/etc/sudoers",
        "/etc/ssl/private",
        "/root/.ssh",
        "/root/.cargo",
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/sys/kernel",
        "/sys/fs/cgroup",
        "/boot",
        "/mnt",
        "/old_root",
    ] {
        sh(&sandbox, &format!("ls -d '{path}'")).await.refused();
    }
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn host_sockets_are_out_of_reach() {
    for dir in ["/tmp", "/run", "/dev/shm"] {
        let Ok(place) = tempfile::tempdir_in(dir) else {
            // An ordinary user has no place of its own in /run.
            continue;
        };
        let socket = place.path().join("docker.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        let sandbox = sandbox(SandboxSpec::default()).await;
        let script = format!(
            "import socket; socket.socket(socket.AF_UNIX).connect('{}')",
            socket.display()
        );
        let said = python(&sandbox, &script).await.refused();
        assert!(said.contains("FileNotFoundError"), "{said}");
        sandbox.destroy().await.unwrap();
    }
}

#[tokio::test]
async fn abstract_sockets_of_the_host_are_out_of_reach() {
    use std::os::linux::net::SocketAddrExt as _;
    let name = format!("namzu-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let sandbox = sandbox(SandboxSpec::default()).await;
    let script = format!("import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')");
    let said = python(&sandbox, &script).await.refused();
    assert!(said.contains("ConnectionRefused"), "{said}");
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn a_read_only_workspace_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "as it was").unwrap();
    let sandbox = sandbox(host_workspace(dir.path(), Access::ReadOnly)).await;
    assert_eq!(sh(&sandbox, "cat /workspace/file").await.ok(), "as it was");
    for attack in [
        "echo x > /workspace/file",
        "echo x > /workspace/new",
        "rm /workspace/file",
        "mkdir /workspace/dir",
        "chmod 777 /workspace/file",
        "mv /workspace/file /workspace/other",
        "touch -d 2000-01-01 /workspace/file",
        "mount -o remount,rw /workspace",
    ] {
        sh(&sandbox, attack).await.refused();
    }
    sandbox.destroy().await.unwrap();
    assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"as it was");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_writable_workspace_is_the_hosts_directory() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = sandbox(host_workspace(dir.path(), Access::ReadWrite)).await;
    sh(&sandbox, "pwd; echo out > file; mkdir sub").await.ok();
    sandbox.destroy().await.unwrap();
    assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"out\n");
    assert!(dir.path().join("sub").is_dir());
}

#[tokio::test]
async fn only_scratch_space_can_be_written() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    for place in ["/tmp", "/var/tmp", "/dev/shm", "/home/user", "/workspace"] {
        sh(&sandbox, &format!("echo x > {place}/f && cat {place}/f"))
            .await
            .ok();
    }
    for place in [
        "/",
        "/usr",
        "/usr/bin",
        "/etc",
        "/dev",
        "/run",
        "/var",
        "/home",
        "/proc/sys/kernel",
    ] {
        sh(&sandbox, &format!("echo x > {place}/f")).await.refused();
    }
    sandbox.destroy().await.unwrap();
}

/// A sysctl only asks whether the writer is the host's root.
#[tokio::test]
async fn no_setting_of_the_kernel_can_be_written() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    let writable = "find /proc -path '/proc/[0-9]*' -prune -o -path '/proc/self' -prune \
                    -o -path /proc/thread-self -prune -o -type f -writable -print 2>/dev/null";
    let found = sh(&sandbox, &format!("{writable}; true")).await.ok();
    // What may be opened may still be refused to be changed. Only what is there is written back, so
    // that this test changes nothing where it fails.
    for path in found.lines() {
        let attack = format!("cat '{path}' > /tmp/v 2>/dev/null && cat /tmp/v > '{path}'");
        sh(&sandbox, &attack).await.refused();
    }
    sh(
        &sandbox,
        "cat /proc/sys/kernel/core_pattern > /tmp/p; cat /tmp/p > /proc/sys/kernel/core_pattern",
    )
    .await
    .refused();
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn the_user_is_ordinary_and_known() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    assert_eq!(
        sh(&sandbox, "id -u; id -un; echo $HOME; hostname")
            .await
            .ok(),
        "1000\nuser\n/home/user\nsandbox\n"
    );
    let caps = sh(
        &sandbox,
        "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status",
    )
    .await
    .ok();
    assert!(
        caps.lines()
            .all(|line| line.ends_with("\t0000000000000000")),
        "{caps}"
    );
    let status = sh(&sandbox, "grep -E 'NoNewPrivs|Seccomp:' /proc/self/status")
        .await
        .ok();
    assert_eq!(status, "NoNewPrivs:\t1\nSeccomp:\t2\n");
    sandbox.destroy().await.unwrap();
}

/// Where root makes the sandbox, its user is the owner of these to the kernel.
#[tokio::test]
async fn no_device_of_the_host_can_be_changed_and_all_can_be_used() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    let before = fs::metadata("/dev/null").unwrap();
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        // The mode that it has, so that nothing is changed where this test fails.
        let same = format!("chmod $(stat -c %a /dev/{device}) /dev/{device}");
        sh(&sandbox, &same).await.refused();
        // Whoever may write to it may set its times to now, unless its mount is read-only.
        if rustix::process::geteuid().is_root() {
            sh(&sandbox, &format!("touch /dev/{device}"))
                .await
                .refused();
        }
        sh(&sandbox, &format!("mv /dev/{device} /dev/x"))
            .await
            .refused();
    }
    sh(
        &sandbox,
        "echo x > /dev/null && head -c 9 /dev/zero > /tmp/z && head -c 9 /dev/urandom > /tmp/z",
    )
    .await
    .ok();
    sh(&sandbox, "echo x > /dev/full").await.refused();
    sandbox.destroy().await.unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::mode(&before),
        std::os::unix::fs::MetadataExt::mode(&fs::metadata("/dev/null").unwrap())
    );
}

#[tokio::test]
async fn the_memory_of_the_kernel_is_not_laid_open() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    for file in [
        "kpagecgroup",
        "kpagecount",
        "kpageflags",
        "pagetypeinfo",
        "slabinfo",
        "timer_list",
        "vmallocinfo",
    ] {
        let read = format!("head -c 1 /proc/{file} 2>/dev/null | wc -c");
        assert_eq!(sh(&sandbox, &read).await.ok().trim(), "0", "{file}");
    }
    sandbox.destroy().await.unwrap();
}
