//! Exits of children, their own and adopted ones.
#![expect(
    unsafe_code,
    reason = "rustix has no wait4, which alone reports the resources used"
)]

use std::io;
use std::time::Duration;

/// A child that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child {
    pub(crate) pid: i32,
    /// The exit code, or -1 after a signal.
    pub(crate) code: i32,
    /// The signal, or 0.
    pub(crate) signal: i32,
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// Bytes.
    pub(crate) max_rss: u64,
}

/// Takes the exit of one child, if any has one.
pub(crate) fn next() -> Option<Child> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let pid = loop {
        // SAFETY: both pointers are to this frame's own values.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
        if pid >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break pid;
        }
    };
    if pid <= 0 {
        return None;
    }
    let signalled = libc::WIFSIGNALED(status);
    Some(Child {
        pid,
        code: if signalled {
            -1
        } else {
            libc::WEXITSTATUS(status)
        },
        signal: if signalled { libc::WTERMSIG(status) } else { 0 },
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        max_rss: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    })
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}
