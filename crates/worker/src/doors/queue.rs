//! Who has come by a door and is not forwarded yet.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{sleep, timeout};

/// Who waits at a door here; more wait in the kernel's backlog, and datagrams are lost.
const WAITING: usize = 64;
/// The longest query and answer over UDP.
const LONGEST: usize = 4096;
/// What is read at once of somebody who says little.
const FEW: usize = 4096;
/// For an answer to a datagram.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is waited after a socket failed: out of descriptors, most likely, and those of others come back.
const PAUSE: Duration = Duration::from_millis(50);

/// Somebody who came by a door.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// With a connection.
    Stream(TcpStream),
    /// With one query, to be answered from the same socket.
    Datagram {
        query: Vec<u8>,
        peer: SocketAddr,
        socket: Arc<UdpSocket>,
    },
}

/// Who came by one door, in their order.
#[derive(Debug)]
pub(super) struct Queue {
    sender: mpsc::Sender<Arrived>,
    receiver: Mutex<mpsc::Receiver<Arrived>>,
}

impl Default for Queue {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        Self {
            sender,
            receiver: Mutex::new(receiver),
        }
    }
}

impl Queue {
    pub(super) fn sender(&self) -> mpsc::Sender<Arrived> {
        self.sender.clone()
    }

    /// Ends who waits. Where somebody waits for them there are none.
    pub(super) fn clear(&self) {
        if let Ok(mut receiver) = self.receiver.try_lock() {
            while receiver.try_recv().is_ok() {}
        }
    }

    /// Waits for the next one. First come, first served; whoever gives up waiting takes nobody with him.
    pub(super) async fn next(&self) -> Arrived {
        match self.receiver.lock().await.recv().await {
            Some(arrived) => arrived,
            // The queue itself holds a sender.
            None => std::future::pending().await,
        }
    }
}

/// Accepts for ever.
pub(super) async fn accept(listener: TcpListener, sender: mpsc::Sender<Arrived>) {
    // Room first: what is not accepted waits in the kernel, bounded by it.
    while let Ok(room) = sender.reserve().await {
        match listener.accept().await {
            Ok((stream, _)) => room.send(Arrived::Stream(stream)),
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Takes datagrams for ever.
pub(super) async fn receive(socket: UdpSocket, sender: mpsc::Sender<Arrived>) {
    let socket = Arc::new(socket);
    let mut datagram = [0; LONGEST];
    while !sender.is_closed() {
        match socket.recv_from(&mut datagram).await {
            Ok((length, peer)) => {
                let query = datagram.get(..length).unwrap_or_default().to_vec();
                let socket = Arc::clone(&socket);
                // A full queue loses it, as networks do: whoever asked asks again.
                let _ = sender.try_send(Arrived::Datagram {
                    query,
                    peer,
                    socket,
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

impl Arrived {
    /// The address that was connected to.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Stream(stream) => stream.local_addr().ok(),
            Self::Datagram { .. } => None,
        }
    }

    /// Carries it to its end. The bytes of one side are the other's business, so are its errors.
    pub(crate) async fn carry(self, mut host: impl AsyncRead + AsyncWrite + Unpin, buffer: usize) {
        match self {
            Self::Stream(mut stream) => {
                let _ = stream.set_nodelay(true);
                let (from_host, to_host) = split(&mut host);
                let (from_inside, to_inside) = stream.split();
                let broken = async {
                    let down = async { pump(from_host, to_inside, buffer).await.map_err(|_| true) };
                    let up = async { pump(from_inside, to_host, buffer).await.map_err(|_| false) };
                    tokio::try_join!(down, up).is_err_and(|of_host| of_host)
                };
                if broken.await {
                    // The host broke it off: an orderly end would pass for the whole of it.
                    let _ = sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
                }
            }
            Self::Datagram {
                query,
                peer,
                socket,
            } => {
                if let Ok(Ok(answer)) = timeout(PATIENCE, exchange(host, &query)).await {
                    let _ = socket.send_to(&answer, peer).await;
                }
            }
        }
    }
}

/// Carries one way to its end, and passes that on. What is idle from the start holds little; `most` is
/// what is read at once where bytes come fast.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    most: usize,
) -> io::Result<()> {
    let mut buffer = vec![0; FEW];
    loop {
        let length = from.read(&mut buffer).await?;
        let bytes = buffer.get(..length).unwrap_or_default();
        if bytes.is_empty() {
            return to.shutdown().await;
        }
        to.write_all(bytes).await?;
        to.flush().await?;
        if length == buffer.len() && length < most {
            buffer.resize(most, 0);
        }
    }
}

/// Sends a query and reads the answer, each with two bytes of length before it.
async fn exchange(
    mut host: impl AsyncRead + AsyncWrite + Unpin,
    query: &[u8],
) -> io::Result<Vec<u8>> {
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    host.write_all(&[&length.to_be_bytes()[..], query].concat())
        .await?;
    host.flush().await?;
    let length = usize::from(host.read_u16().await?);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut answer = vec![0; length];
    host.read_exact(&mut answer).await?;
    host.shutdown().await?;
    Ok(answer)
}
