//! Why this host cannot build a sandbox, by what the kernel answers and how it is set up.

use std::fs;
use std::path::Path;

use namzu_core::spawn::{Setup, command, prepare};
use rustix::process::geteuid;

use crate::bubblewrap::locate::CHOICE;
use crate::error::Error;

/// Letting `bwrap`, and only it, make user namespaces. Ubuntu 24.04 and newer refuse them to
/// programs without such a profile.
const APPARMOR_PROFILE: &str = r#"printf '%s\n' 'abi <abi/4.0>,' 'include <tunables/global>' 'profile bwrap /usr/bin/bwrap flags=(unconfined) {' '  userns,' '}' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap"#;

const MEMFD_NOEXEC: &str = "/proc/sys/vm/memfd_noexec";
const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
const CLONE: &str = "/proc/sys/kernel/unprivileged_userns_clone";
const MAXIMUM: &str = "/proc/sys/user/max_user_namespaces";

pub(crate) fn missing_bwrap() -> Error {
    Error::Host {
        what: "there is no `bwrap` in the directories of the system".to_owned(),
        fix: format!(
            "install bubblewrap: `apt install bubblewrap`, `dnf install bubblewrap`, \
             `pacman -S bubblewrap` or `apk add bubblewrap`; or name one in {CHOICE}, since PATH \
             is not searched: a sandbox may write where it leads"
        ),
    }
}

pub(crate) fn no_such_bwrap(path: &Path) -> Error {
    Error::Host {
        what: format!(
            "{CHOICE} is no absolute path of a program: `{}`",
            path.display()
        ),
        fix: format!("correct {CHOICE}, or unset it to use the system's `bwrap`"),
    }
}

/// Why the worker cannot be held in memory.
pub(crate) fn no_memfd(err: std::io::Error) -> Error {
    if err.kind() == std::io::ErrorKind::PermissionDenied && is(MEMFD_NOEXEC, "2") {
        return Error::Host {
            what: "nothing in memory may be executed (vm.memfd_noexec is 2)".to_owned(),
            fix: "`sudo sysctl vm.memfd_noexec=1`; in /etc/sysctl.d to keep it".to_owned(),
        };
    }
    Error::Start(err)
}

/// A setting that rules user namespaces out.
pub(crate) fn obstacle() -> Option<Error> {
    if is(MAXIMUM, "0") {
        return Some(Error::Host {
            what: "user namespaces are switched off (user.max_user_namespaces is 0)".to_owned(),
            fix: "`sudo sysctl user.max_user_namespaces=10000`; in /etc/sysctl.d to keep it"
                .to_owned(),
        });
    }
    if is(CLONE, "0") && !geteuid().is_root() {
        return Some(Error::Host {
            what: "user namespaces are for root only (kernel.unprivileged_userns_clone is 0)"
                .to_owned(),
            fix: "`sudo sysctl kernel.unprivileged_userns_clone=1`; in /etc/sysctl.d to keep it"
                .to_owned(),
        });
    }
    None
}

/// The settings on which user namespaces depend, as text.
pub(crate) fn settings() -> String {
    [APPARMOR, CLONE, MAXIMUM, MEMFD_NOEXEC]
        .map(|sysctl| fs::read_to_string(sysctl).unwrap_or_default())
        .concat()
}

/// Looks for the cause after a sandbox did not come up. `None`: nothing known.
pub(crate) async fn cause() -> Option<Error> {
    if let Some(obstacle) = obstacle() {
        return Some(obstacle);
    }
    match unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID).await {
        Ok(()) => {}
        Err(err) => return Some(refused(&err)),
    }
    if is(APPARMOR, "1") && !geteuid().is_root() {
        return Some(Error::Host {
            what: "AppArmor takes the capabilities of user namespaces away \
                   (kernel.apparmor_restrict_unprivileged_userns is 1)"
                .to_owned(),
            fix: format!("give bwrap a profile: {APPARMOR_PROFILE}"),
        });
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(mask) = masked_proc(&mounts) {
        return Some(Error::Host {
            what: format!(
                "parts of /proc are masked ({mask}), so the kernel mounts no other /proc: this \
                 is a container"
            ),
            fix: "start the container with `--security-opt systempaths=unconfined` (Docker) or \
                  `--security-opt unmask=ALL` (Podman)"
                .to_owned(),
        });
    }
    if root_is_initramfs(&mounts) {
        return Some(Error::Host {
            what: "the root file system is the kernel's initramfs, from which nobody can pivot"
                .to_owned(),
            fix: "switch to a real root file system first (`switch_root`)".to_owned(),
        });
    }
    match unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET).await {
        Err(err) => Some(refused(&err)),
        Ok(()) => None,
    }
}

/// Tries namespaces in a child.
pub(crate) async fn unshare(flags: libc::c_int) -> std::io::Result<()> {
    // Nothing is run: a program that does not exist is reached only after the namespaces are made,
    // and only its absence is `ENOENT`.
    let mut child = command("/proc/self/no-such-program");
    prepare(
        &mut child,
        Setup {
            unshare: flags,
            ..Setup::default()
        },
    );
    match child.status().await {
        Err(err) if err.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        Err(err) => Err(err),
        Ok(_) => Ok(()),
    }
}

fn refused(err: &std::io::Error) -> Error {
    let (what, fix) = match err.raw_os_error() {
        Some(libc::ENOSPC | libc::EUSERS) => (
            "the limit of namespaces is reached (user.max_*_namespaces)",
            "raise it: `sudo sysctl user.max_user_namespaces=10000`, and its like for other kinds",
        ),
        Some(libc::EINVAL | libc::ENOSYS) => (
            "the kernel is built without these namespaces",
            "use a kernel with CONFIG_USER_NS, CONFIG_PID_NS and CONFIG_NET_NS",
        ),
        Some(libc::EAGAIN) => (
            "no more processes may be started (`ulimit -u`, or the limit of a cgroup)",
            "raise that limit, or end some of this user's processes",
        ),
        _ if confined_by_seccomp() => (
            "a system-call filter forbids namespaces: this is a container",
            "start the container with `--security-opt seccomp=unconfined`, or choose the \
             container tier",
        ),
        _ => (
            "namespaces are not permitted here, as in a chroot or by a security module",
            "run outside of the chroot, or let the security module permit user namespaces",
        ),
    };
    Error::Host {
        what: format!("{what}: {err}"),
        fix: fix.to_owned(),
    }
}

fn confined_by_seccomp() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"))
        .is_some_and(|mode| mode.trim() == "2")
}

/// Something mounted over a part of `/proc`.
fn masked_proc(mounts: &str) -> Option<String> {
    mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        // Mounting there is foreseen, and hides nothing.
        .find(|at| at.starts_with("/proc/") && *at != "/proc/sys/fs/binfmt_misc")
        .map(str::to_owned)
}

fn root_is_initramfs(mounts: &str) -> bool {
    mounts
        .lines()
        .filter_map(|line| line.split_once(" - "))
        .rfind(|(mount, _)| mount.split(' ').nth(4) == Some("/"))
        .is_some_and(|(_, filesystem)| filesystem.starts_with("rootfs "))
}

fn is(sysctl: &str, value: &str) -> bool {
    fs::read_to_string(sysctl).is_ok_and(|text| text.trim() == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_read_from_mounts() {
        let docker = "22 27 0:21 / /proc rw - proc proc rw\n\
                      23 22 0:22 /bus /proc/bus ro - proc proc rw\n\
                      27 1 0:5 / / rw - overlay overlay rw\n";
        assert_eq!(masked_proc(docker).as_deref(), Some("/proc/bus"));
        assert!(!root_is_initramfs(docker));
        let systemd = "22 27 0:21 / /proc rw - proc proc rw\n\
                       23 22 0:22 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n\
                       1 1 0:2 / / rw - rootfs rootfs rw\n";
        assert_eq!(masked_proc(systemd), None);
        assert!(root_is_initramfs(systemd));
    }

    #[test]
    fn every_refusal_has_a_fix() {
        for errno in [
            libc::ENOSPC,
            libc::EINVAL,
            libc::EAGAIN,
            libc::EPERM,
            libc::EACCES,
        ] {
            let err = refused(&std::io::Error::from_raw_os_error(errno));
            let err = err.during(namzu_core::Phase::Plan);
            assert_eq!(err.code(), namzu_core::ErrorCode::HostUnsupported);
            assert!(err.hint().is_some());
        }
    }
}
