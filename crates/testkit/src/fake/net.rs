//! The network of one simulated machine: the boundary's doors are sockets of this host, and what a
//! program inside would do is done here.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use namzu_core::egress::{Doors, OpenDoors};
use namzu_core::{Error, ErrorCode, Result};
use namzu_protocol::ext::{Outcome, Try};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fake::Fault;

/// Nothing in memory takes this long.
const PATIENCE: Duration = Duration::from_secs(10);

/// The doors of the egress boundary in one machine.
#[derive(Debug)]
pub(crate) struct Network {
    fault: Option<Fault>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    proxy: Option<SocketAddr>,
    dns: Option<SocketAddr>,
    ports: BTreeSet<u16>,
}

#[async_trait]
impl OpenDoors for Network {
    async fn open(&self, ports: &[u16]) -> Result<Doors> {
        self.listen(ports).map_err(|err| {
            Error::new(ErrorCode::BackendFailed, "open simulated doors").with_source(err)
        })
    }
}

impl Network {
    pub(crate) fn new(fault: Option<Fault>) -> Self {
        Self {
            fault,
            open: Mutex::default(),
        }
    }

    fn listen(&self, ports: &[u16]) -> io::Result<Doors> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Where an address of a name leads, there is no kernel to say; the numbers do for the probe.
        open.ports.extend(ports);
        let mut doors = Doors::default();
        if open.proxy.is_none() && self.fault != Some(Fault::OpensNoDoors) {
            let tcp = || -> io::Result<TcpListener> {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                listener.set_nonblocking(true)?;
                Ok(listener)
            };
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            udp.set_nonblocking(true)?;
            let proxy = tcp()?;
            open.proxy = Some(proxy.local_addr()?);
            open.dns = Some(udp.local_addr()?);
            doors.proxy.push(proxy);
            doors.dns_udp.push(udp);
            doors.dns_tcp.push(tcp()?);
        }
        Ok(doors)
    }

    /// Asks the boundary for the address of a name.
    pub(crate) async fn resolve(&self, name: &str) -> io::Result<Ipv4Addr> {
        let at = self.with(|open| open.dns)?;
        let socket = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        socket.connect(at).await?;
        socket.send(&query(name)).await?;
        let mut answer = [0; 512];
        let length = within(socket.recv(&mut answer)).await?;
        let answer = answer.get(..length).unwrap_or_default();
        match answer {
            // No error, and one answer: its data is the end of the message.
            [_, _, _, code, _, _, 0, 1, .., a, b, c, d] if code & 0xf == 0 => {
                Ok(Ipv4Addr::new(*a, *b, *c, *d))
            }
            _ => Err(io::Error::other("Name or service not known")),
        }
    }

    /// Fetches through the proxy: the status, and the body. Of `https` only whether it is let through.
    pub(crate) async fn fetch(&self, url: &str) -> io::Result<(u16, String)> {
        let at = self.with(|open| open.proxy)?;
        let (scheme, rest) = url.split_once("://").ok_or(io::ErrorKind::InvalidInput)?;
        let host = rest.split('/').next().unwrap_or_default();
        let request = if scheme == "https" {
            format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n")
        } else {
            format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        };
        let exchange = async {
            let mut proxy = tokio::net::TcpStream::connect(at).await?;
            proxy.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            proxy.read_to_end(&mut answer).await?;
            Ok(String::from_utf8_lossy(&answer).into_owned())
        };
        let answer = within(exchange).await?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((status, body.to_owned()))
    }

    /// Tries what the host asks for. `open`: nothing stands between the machine and this host.
    pub(crate) async fn probe(&self, tries: &[Try], open: bool) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for one in tries {
            outcomes.push(self.try_one(one, open).await);
        }
        outcomes
    }

    async fn try_one(&self, one: &Try, open: bool) -> Outcome {
        let refused = || Outcome::Failed {
            error: "ENETUNREACH: simulated".to_owned(),
            addresses: Vec::new(),
        };
        let datagrams = open || self.fault == Some(Fault::LeaksDatagrams);
        let reached = match one {
            Try::Tcp { to } => open && to.ip().is_loopback(),
            Try::Udp { to } => datagrams && to.ip().is_loopback(),
            Try::Name { name, port } => {
                let Ok(address) = self.resolve(name).await else {
                    return refused();
                };
                let addresses = vec![IpAddr::V4(address)];
                let door = self.with(|open| open.ports.get(port).copied());
                return match door {
                    Ok(_) => Outcome::Reached { addresses },
                    Err(err) => Outcome::Failed {
                        error: err.to_string(),
                        addresses,
                    },
                };
            }
        };
        if reached {
            Outcome::Reached {
                addresses: Vec::new(),
            }
        } else {
            refused()
        }
    }

    fn with<T>(&self, find: impl FnOnce(&Open) -> Option<T>) -> io::Result<T> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        find(&open).ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}

async fn within<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// A query for the IPv4 address of a name (RFC 1035 §4.1).
fn query(name: &str) -> Vec<u8> {
    let mut message = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        // What is no label is no name either, and is answered so.
        message.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}
