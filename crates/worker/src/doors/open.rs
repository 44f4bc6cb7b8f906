//! The sockets themselves.

use std::io;
use std::net::SocketAddr;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use tokio::net::{TcpListener, UdpSocket};

/// Connections that wait in the kernel.
const BACKLOG: i32 = 1024;

/// Listens.
pub(super) fn tcp(at: SocketAddr) -> io::Result<TcpListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    // Connections that have ended are not in the way; whoever listens still is. Never SO_REUSEPORT: a
    // command of the same user could share the port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &at)?;
    listen(&socket, BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Takes datagrams.
pub(super) fn udp(at: SocketAddr) -> io::Result<UdpSocket> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    bind(&socket, &at)?;
    UdpSocket::from_std(socket.into())
}
