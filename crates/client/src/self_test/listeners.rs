//! What this host opens for the time of a test: whatever in a sandbox gets here has found a hole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

/// Listeners that answer on this host's own addresses, until dropped.
#[derive(Default)]
pub(super) struct Listeners {
    tcp: Vec<SocketAddr>,
    udp: Vec<SocketAddr>,
    answering: JoinSet<()>,
}

impl Listeners {
    /// Opens them on the loopback and on the addresses that the host's routes begin at. What cannot
    /// be opened is left out: the other tries do not need it.
    pub(super) async fn open() -> Self {
        let mut listeners = Self::default();
        for address in own().await {
            if let Ok(tcp) = TcpListener::bind((address, 0)).await
                && let Ok(at) = tcp.local_addr()
            {
                listeners.tcp.push(at);
                listeners.answering.spawn(async move {
                    // Accepting is the whole answer. An error is the end of this listener's proof only.
                    while tcp.accept().await.is_ok() {}
                });
            }
            if let Ok(udp) = UdpSocket::bind((address, 0)).await
                && let Ok(at) = udp.local_addr()
            {
                listeners.udp.push(at);
                listeners.answering.spawn(async move {
                    let mut word = [0; 64];
                    while let Ok((length, from)) = udp.recv_from(&mut word).await {
                        let said = word.get(..length).unwrap_or_default();
                        // Whoever asked from elsewhere need not hear it.
                        let _ = udp.send_to(said, from).await;
                    }
                });
            }
        }
        listeners
    }

    /// Where they listen; true for datagrams.
    pub(super) fn addresses(&self) -> Vec<(bool, SocketAddr)> {
        let tcp = self.tcp.iter().map(|at| (false, *at));
        tcp.chain(self.udp.iter().map(|at| (true, *at))).collect()
    }
}

/// The loopback's address, and those that packets of this host would bear to the world. Connecting a
/// datagram socket asks the routes and sends nothing.
async fn own() -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into()];
    let four: IpAddr = Ipv4Addr::UNSPECIFIED.into();
    let six: IpAddr = Ipv6Addr::UNSPECIFIED.into();
    for (any, nowhere) in [four, six].into_iter().zip(super::NOWHERE) {
        if let Ok(socket) = UdpSocket::bind((any, 0)).await
            && socket.connect((nowhere, 9)).await.is_ok()
            && let Ok(at) = socket.local_addr()
            && !found.contains(&at.ip())
        {
            found.push(at.ip());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn what_gets_through_is_answered() {
        let listeners = Listeners::open().await;
        let all = listeners.addresses();
        assert!(all.iter().any(|(_, at)| at.ip().is_loopback()), "{all:?}");
        for (datagrams, at) in all {
            if datagrams {
                let socket = UdpSocket::bind((at.ip(), 0)).await.unwrap();
                socket.connect(at).await.unwrap();
                socket.send(b"probe").await.unwrap();
                assert_eq!(socket.recv(&mut [0; 64]).await.unwrap(), 5);
            } else {
                TcpStream::connect(at).await.unwrap();
            }
        }
    }
}
