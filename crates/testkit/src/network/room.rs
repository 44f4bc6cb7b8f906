//! A sandbox's network: nothing but a loopback, and the boundary's doors.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use namzu_core::egress::{DNS_PORT, Doors, NAME_NET, PROXY_PORT};

use super::space::{Space, ip};

/// For anything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A network as a sandbox has it.
#[derive(Debug)]
pub struct Room {
    space: Space,
}

impl Room {
    /// An empty one.
    ///
    /// # Errors
    ///
    /// What the kernel or `ip` said.
    pub fn open() -> io::Result<Self> {
        let space = Space::open()?;
        let (net, length) = NAME_NET;
        space.run(move || ip(&format!("route add local {net}/{length} dev lo")))?;
        Ok(Self { space })
    }

    /// Makes the boundary's listening sockets in it, with named doors on `ports`.
    ///
    /// # Errors
    ///
    /// Those of the sockets.
    pub fn doors(&self, ports: &[u16]) -> io::Result<Doors> {
        let ports = ports.to_vec();
        self.space.run(move || {
            let dns = (Ipv4Addr::LOCALHOST, DNS_PORT);
            Ok(Doors {
                proxy: vec![TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))?],
                dns_tcp: vec![TcpListener::bind(dns)?],
                dns_udp: vec![UdpSocket::bind(dns)?],
                named: ports
                    .into_iter()
                    .map(|port| Ok((port, TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?)))
                    .collect::<io::Result<_>>()?,
            })
        })
    }

    /// Connects from inside.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        self.space.run(move || {
            let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }

    /// A socket for datagrams, connected to `to`.
    ///
    /// # Errors
    ///
    /// Those of the socket: that there is no route, for one.
    pub fn udp(&self, to: impl ToSocketAddrs + Send + 'static) -> io::Result<UdpSocket> {
        self.space.run(move || {
            let to = to
                .to_socket_addrs()?
                .next()
                .ok_or(io::ErrorKind::InvalidInput)?;
            let any: IpAddr = if to.is_ipv4() {
                Ipv4Addr::UNSPECIFIED.into()
            } else {
                std::net::Ipv6Addr::UNSPECIFIED.into()
            };
            let socket = UdpSocket::bind((any, 0))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.connect(to)?;
            Ok(socket)
        })
    }
}
