//! Into a network namespace, by way of the user namespace that owns it.
#![expect(unsafe_code, reason = "no safe interface asks who owns a namespace")]

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// `_IO(0xb7, 0x1)` of `linux/nsfs.h`.
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// Joins `netns`. The kernel refuses a namespace that is not of a user namespace below ours, so the
/// host's own network cannot be meant, whatever was passed.
pub(super) fn join(netns: BorrowedFd<'_>) -> Result<(), String> {
    let owner = owner(netns)
        .map_err(|error| format!("cannot find the owner of the sandbox's network: {error}"))?;
    // As root too: root without CAP_SYS_ADMIN, as in containers, is an ordinary user here.
    for (namespace, kind, what) in [
        (
            owner.as_fd(),
            LinkNameSpaceType::User,
            "user namespace that owns the sandbox's network",
        ),
        (netns, LinkNameSpaceType::Network, "sandbox's network"),
    ] {
        move_into_link_name_space(namespace, Some(kind))
            .map_err(|error| format!("cannot join the {what}: {error}"))?;
    }
    Ok(())
}

/// The user namespace that owns a namespace. Not that of PID 1: `bwrap --disable-userns` puts it
/// into one more, below.
fn owner(namespace: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: this request passes no memory.
    let fd = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made this descriptor just now, for us, close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn what_is_no_namespace_is_not_joined() {
        let null = File::open("/dev/null").unwrap();
        let refused = join(null.as_fd()).unwrap_err();
        assert!(refused.contains("owner"), "{refused}");
    }
}
