//! `AF_VSOCK`: the only door of a microVM guest.
#![expect(unsafe_code, reason = "rustix has no vsock addresses")]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, listen, socket_with};

/// The context id of the machine below: the host, as a guest sees it.
pub(crate) const HOST: u32 = libc::VMADDR_CID_HOST;

const LENGTH: libc::socklen_t = {
    let length = size_of::<libc::sockaddr_vm>();
    assert!(length == 16, "the kernel's");
    16
};

const FAMILY: libc::sa_family_t = AddressFamily::VSOCK.as_raw();

/// Listens on a port of every context id of this machine.
pub(crate) fn bind(port: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::VSOCK, SocketType::STREAM, flags, None)?;
    // SAFETY: an all-zero address is a valid one.
    let mut address: libc::sockaddr_vm = unsafe { mem::zeroed() };
    address.svm_family = FAMILY;
    address.svm_cid = libc::VMADDR_CID_ANY;
    address.svm_port = port;
    // SAFETY: the address is this frame's and as long as said.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), LENGTH) };
    if bound < 0 {
        return Err(io::Error::last_os_error());
    }
    listen(&socket, 128)?;
    Ok(socket)
}

/// The context id of the other end of a connection.
pub(crate) fn peer(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: an all-zero address is a valid one.
    let mut address: libc::sockaddr_vm = unsafe { mem::zeroed() };
    let mut length = LENGTH;
    // SAFETY: the address is this frame's and as long as said.
    let found = unsafe {
        libc::getpeername(
            socket.as_raw_fd(),
            (&raw mut address).cast(),
            &raw mut length,
        )
    };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(address.svm_cid)
}
