//! What a directory of the host, handed over as workspace, lets out and what it does not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use namzu_types::{Access, Control, ErrorCode, Limits, SandboxSpec, Strength, Workspace};

use crate::support::{provider, python, sandbox, sh};

fn spec(path: &Path, access: Access) -> SandboxSpec {
    SandboxSpec {
        workspace: Workspace::Host {
            path: path.to_owned(),
            access,
        },
        ..SandboxSpec::default()
    }
}

/// Known, and said: neither a network namespace nor a read-only mount is a wall to them.
#[tokio::test]
async fn a_unix_socket_in_the_workspace_is_reached_and_the_receipt_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let _listener = UnixListener::bind(dir.path().join("socket")).unwrap();
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let sandbox = sandbox(spec(dir.path(), access)).await;
        let connect = "import socket; socket.socket(socket.AF_UNIX).connect('/workspace/socket')";
        python(&sandbox, connect).await.ok();
        let network = &sandbox.receipt().controls.network;
        assert!(network.detail.contains("unix sockets"), "{network:?}");
        sandbox.destroy().await.unwrap();
    }
    let private = sandbox(SandboxSpec::default()).await;
    let network = &private.receipt().controls.network;
    assert!(!network.detail.contains("unix sockets"), "{network:?}");
    private.destroy().await.unwrap();
}

#[tokio::test]
async fn a_disk_limit_is_not_said_to_hold_a_writable_host_directory() {
    let dir = tempfile::tempdir().unwrap();
    let limited = |access| SandboxSpec {
        limits: Limits {
            disk: Some(64 << 20),
            ..Limits::default()
        },
        ..spec(dir.path(), access)
    };
    let provider = provider();
    for refused in [
        provider.plan(&limited(Access::ReadWrite)).await.err(),
        provider.create(limited(Access::ReadWrite)).await.err(),
    ] {
        let refused = refused.expect("it is refused");
        assert_eq!(refused.code(), ErrorCode::Unsupported, "{refused:?}");
        assert!(refused.hint().is_some());
    }
    let plan = provider.plan(&limited(Access::ReadOnly)).await.unwrap();
    assert_eq!(plan.controls.disk.strength, Strength::Enforced);
    let plan = provider.plan(&spec(dir.path(), Access::ReadWrite)).await;
    assert_eq!(plan.unwrap().controls.disk.strength, Strength::BestEffort);
    let required = SandboxSpec {
        require: vec![Control::Disk],
        ..spec(dir.path(), Access::ReadWrite)
    };
    let refused = provider.plan(&required).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unsupported);
}

/// The sandbox's user is the host's caller: such a file would let every user of the host be that
/// one.
#[tokio::test]
async fn no_set_id_file_is_left_on_the_host() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy("/bin/true", dir.path().join("program")).unwrap();
    let sandbox = sandbox(spec(dir.path(), Access::ReadWrite)).await;
    for attack in [
        "chmod u+s program",
        "chmod g+s program",
        "chmod 6755 program",
        "install -m 4755 /bin/true installed",
        "python3 -c 'import os; os.open(\"a\", os.O_CREAT | os.O_WRONLY, 0o4755)'",
        "python3 -c 'import os; os.open(\"b\", os.O_CREAT | os.O_WRONLY, 0o2755)'",
        "python3 -c 'import os; os.fchmod(os.open(\"program\", os.O_RDONLY), 0o4755)'",
        "python3 -c 'import os; os.mknod(\"c\", 0o104755)'",
        "python3 -c 'import os; os.link(f\"/proc/self/fd/{os.open(\\\".\\\", os.O_TMPFILE | os.O_WRONLY, 0o4755)}\", \"d\")'",
        "umask 0; mkdir sub && cd sub && cp --preserve=mode /usr/bin/passwd . && test -u passwd",
    ] {
        sh(&sandbox, attack).await.refused();
    }
    // By number: what libraries do not offer.
    #[cfg(target_arch = "x86_64")]
    let raw = "
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    libc.syscall(*args)
    return ctypes.get_errno()
how = ctypes.create_string_buffer(struct.pack('QQQ', 0o101, 0o4755, 0))
print(call(437, -100, b'e', how, 24), call(452, -100, b'program', 0o4755, 0),
      call(85, b'f', 0o4755), call(2, b'g', 0o101, 0o4755), call(90, b'program', 0o4755),
      call(133, b'h', 0o104755, 0), call(2, b'i', 0o101, (1 << 40) | 0o4755))";
    #[cfg(target_arch = "x86_64")]
    assert_eq!(python(&sandbox, raw).await.ok(), "38 1 1 1 1 1 1\n");
    // What an ordinary build does still works, through the worker as well.
    sh(
        &sandbox,
        "umask 022; chmod 755 program; mkdir -m 1777 t; touch x; git init -q repo; mkfifo p",
    )
    .await
    .ok();
    sandbox.files().write("deep/er/file", "x").await.unwrap();
    assert_eq!(
        sandbox.files().read("deep/er/file", 10).await.unwrap(),
        b"x"
    );
    sandbox.files().read("/etc/passwd", 1 << 16).await.unwrap();
    sandbox
        .files()
        .read("../etc/../../root/x", 10)
        .await
        .unwrap_err();
    sandbox.destroy().await.unwrap();
    let mut left = vec![dir.path().to_owned()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        if found.is_dir() {
            left.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else {
            assert_eq!(found.permissions().mode() & 0o6000, 0, "{}", path.display());
        }
    }
}

/// A sandbox that was handed the directory above may have put it there.
#[tokio::test]
async fn a_planted_link_is_no_workspace_and_the_hint_names_where_it_leads() {
    let dir = tempfile::tempdir().unwrap();
    let secret = tempfile::tempdir().unwrap();
    {
        let sandbox = sandbox(spec(dir.path(), Access::ReadWrite)).await;
        let plant = format!("ln -s {} project", secret.path().display());
        sh(&sandbox, &plant).await.ok();
        sandbox.destroy().await.unwrap();
    }
    let planted = spec(&dir.path().join("project"), Access::ReadWrite);
    for refused in [
        provider().plan(&planted).await.err(),
        provider().create(planted.clone()).await.err(),
    ] {
        let refused = refused.expect("it is refused");
        assert_eq!(refused.code(), ErrorCode::ConfigInvalid);
        assert!(refused.to_string().contains("symlink"), "{refused}");
        let real = fs::canonicalize(secret.path()).unwrap();
        let hint = refused.hint().unwrap_or_default();
        assert!(hint.contains(real.to_str().unwrap()), "{hint}");
    }
}
