//! The sockets themselves, whoever serves them: the worker inside, or the host process that they are
//! handed to.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

/// Connections that wait to be accepted, as many as the network allows: only the sandbox itself can fill
/// its queue, and it should take effort.
const BACKLOG: i32 = 4096;

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Listens.
pub(crate) fn tcp(at: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
    // Connections that have ended are not in the way; whoever listens still is. Never SO_REUSEPORT: to
    // the kernel, code inside is the same user, and could share the port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &at)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Takes datagrams.
pub(crate) fn udp(at: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, FLAGS, None)?;
    bind(&socket, &at)?;
    Ok(socket)
}
