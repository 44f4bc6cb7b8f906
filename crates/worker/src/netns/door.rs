//! The sockets themselves.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use super::message::{Kind, Request};

/// Where a proxy is spoken to.
const PROXY_PORT: u16 = 3128;
/// Where names are asked for.
const DNS_PORT: u16 = 53;

/// Connections that wait to be accepted, as many as the namespace allows: only the sandbox itself
/// can fill its queue, and it should take effort.
const BACKLOG: i32 = 4096;

/// Opens what is asked for, or says what cannot be.
///
/// A named door listens on every address: the kernel knows no socket for a range of them. Its
/// holder tells by the local address of a connection whether a name was meant. None is opened on a
/// port of the loopback's doors, which would be in its way.
pub(super) fn open(request: &Request) -> Result<Vec<(Kind, u16, OwnedFd)>, String> {
    let mut wanted = Vec::new();
    if request.loopback {
        wanted.extend([
            (Kind::Proxy, PROXY_PORT),
            (Kind::DnsTcp, DNS_PORT),
            (Kind::DnsUdp, DNS_PORT),
        ]);
    }
    let named = request.ports.iter().map(|port| (Kind::Named, *port));
    wanted.extend(named.filter(|(_, port)| ![PROXY_PORT, DNS_PORT].contains(port)));
    wanted
        .into_iter()
        .map(|(kind, port)| match open_one(kind, port) {
            Ok(socket) => Ok((kind, port, socket)),
            Err(error) => Err(format!("cannot listen on port {port} inside: {error}")),
        })
        .collect()
}

fn open_one(kind: Kind, port: u16) -> io::Result<OwnedFd> {
    let address = match kind {
        Kind::Named => Ipv4Addr::UNSPECIFIED,
        _ => Ipv4Addr::LOCALHOST,
    };
    let is_tcp = kind != Kind::DnsUdp;
    let socket = socket_with(
        AddressFamily::INET,
        if is_tcp {
            SocketType::STREAM
        } else {
            SocketType::DGRAM
        },
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    if is_tcp {
        // Connections that have ended are not in the way; whoever listens still is. Never
        // SO_REUSEPORT: to the kernel, code inside is the same user, and could share the port.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    bind(&socket, &SocketAddr::from((address, port)))?;
    if is_tcp {
        listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}
