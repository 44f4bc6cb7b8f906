//! The servers: each enters in the log what it gets, and answers.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsAcceptor;

use super::certificates::Authority;
use super::http;
use super::log::Log;

/// Where there are servers: the web in the clear on 80 and 8080, in TLS on 443 and 8443, something that
/// introduces itself as SSH on 22, and on the others something that says back what it is told.
pub const TCP_PORTS: &[u16] = &[22, 25, 53, 80, 443, 853, 5432, 6379, 8080, 8443];

/// Where datagrams are taken.
pub const UDP_PORTS: &[u16] = &[53, 443];

/// Sockets on every address of a network.
pub(super) struct Sockets {
    tcp: Vec<TcpListener>,
    udp: Vec<UdpSocket>,
}

/// Binds all ports in the namespace of this thread.
pub(super) fn bind() -> io::Result<Sockets> {
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let tcp = TCP_PORTS.iter().map(|port| {
        let listener = TcpListener::bind((any, *port))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let udp = UDP_PORTS.iter().map(|port| {
        let socket = UdpSocket::bind((any, *port))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    Ok(Sockets {
        tcp: tcp.collect::<io::Result<_>>()?,
        udp: udp.collect::<io::Result<_>>()?,
    })
}

impl Sockets {
    pub(super) fn serve(
        self,
        runtime: &Handle,
        log: &Log,
        authority: &Arc<Authority>,
    ) -> io::Result<()> {
        let _inside = runtime.enter();
        let acceptor = acceptor(authority).map_err(io::Error::other)?;
        for listener in self.tcp {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            runtime.spawn(accept(listener, log.clone(), acceptor.clone()));
        }
        for socket in self.udp {
            let socket = tokio::net::UdpSocket::from_std(socket)?;
            runtime.spawn(datagrams(socket, log.clone()));
        }
        Ok(())
    }
}

fn acceptor(authority: &Arc<Authority>) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let resolver = Arc::clone(authority);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config).into())
}

async fn accept(listener: tokio::net::TcpListener, log: Log, acceptor: TlsAcceptor) {
    while let Ok((stream, from)) = listener.accept().await {
        let Ok(to) = stream.local_addr() else {
            continue;
        };
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let at = log.enter(from, to, None);
        let (log, acceptor) = (log.clone(), acceptor.clone());
        tokio::spawn(async move {
            // It is the other side that tests look at; how this one ends is of no matter.
            let _ = stream.set_nodelay(true);
            let _ = serve(stream, to, &log, at, &acceptor).await;
        });
    }
}

async fn serve(
    mut stream: TcpStream,
    to: SocketAddr,
    log: &Log,
    at: usize,
    acceptor: &TlsAcceptor,
) -> io::Result<()> {
    match to.port() {
        80 | 8080 => http::serve(stream, to, log, at).await,
        443 | 8443 => {
            let stream = acceptor.accept(stream).await?;
            let tls = stream.get_ref().1;
            log.named(at, tls.server_name().unwrap_or_default());
            if tls.alpn_protocol() == Some(b"h2") {
                return http::serve_h2(TokioIo::new(stream), log.clone(), at).await;
            }
            http::serve(stream, to, log, at).await
        }
        22 => {
            stream.write_all(b"SSH-2.0-outside\r\n").await?;
            echo(stream, log, at).await
        }
        _ => echo(stream, log, at).await,
    }
}

/// Says back what it is told, until that ends.
pub(super) async fn echo(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    log: &Log,
    at: usize,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return stream.shutdown().await;
        }
        log.received(at, &buffer[..read]);
        stream.write_all(&buffer[..read]).await?;
    }
}

async fn datagrams(socket: tokio::net::UdpSocket, log: Log) {
    let mut buffer = vec![0; 2048];
    // The address that it was sent to is not told; any is one too many.
    let to = socket.local_addr();
    while let Ok(to) = to.as_ref()
        && let Ok((read, from)) = socket.recv_from(&mut buffer).await
    {
        log.enter(from, *to, Some(&buffer[..read]));
    }
}
