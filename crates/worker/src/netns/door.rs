//! Which sockets a request asks for.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use super::message::{Kind, Request};
use crate::doors::{DNS_PORT, PROXY_PORT, open};

/// Opens what is asked for, or says what cannot be.
///
/// A named door listens on every address: the kernel knows no socket for a range of them. Its
/// holder tells by the local address of a connection whether a name was meant. None is opened on a
/// port of the loopback's doors, which would be in its way.
pub(super) fn open_all(request: &Request) -> Result<Vec<(Kind, u16, OwnedFd)>, String> {
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
    let at = SocketAddr::from((address, port));
    match kind {
        Kind::DnsUdp => open::udp(at),
        Kind::Proxy | Kind::DnsTcp | Kind::Named => open::tcp(at),
    }
}
