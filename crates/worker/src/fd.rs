//! Watching descriptors that the worker owns.
#![expect(
    unsafe_code,
    reason = "tokio cannot know that an OwnedFd is what it says; this module does"
)]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches `fd`, which must not block.
///
/// # Errors
/// It cannot be watched, e.g. because it is a regular file.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is open, stays the same descriptor, and is closed only when the AsyncFd,
    // which owns it, is dropped.
    let watched = unsafe { AsyncFd::register_with_interest(fd, interest) };
    watched.map_err(|error| error.into_parts().1)
}

/// Watches `fd` both ways.
///
/// # Errors
/// As [`watch`].
pub(crate) fn watch_both(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    watch(fd, Interest::READABLE | Interest::WRITABLE)
}
