//! Where connections come from.
#![expect(
    unsafe_code,
    reason = "taking over the descriptors named on the command line"
)]

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with, sockopt,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::config::Listen;
use crate::fd;
use crate::io::FdStream;
use crate::vsock;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Peer {
    /// The maker of the worker; nobody else can be.
    Private,
    /// The host, over vsock: it needs the token for HTTP, while v1 frames cannot carry one.
    Host,
    /// Anybody who can reach the listener; needs the token.
    Anybody,
}

/// A bound listener.
#[derive(Debug)]
pub(crate) enum Listener {
    /// One stream that is there already.
    Stream(FdStream),
    /// A socket that accepts.
    Socket(AsyncFd<OwnedFd>, Kind),
}

/// What a socket accepts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Unix,
    Tcp,
    Vsock,
}

impl Listener {
    /// Binds what a specification says.
    ///
    /// # Errors
    /// The address is taken or may not be used, or the descriptor is not open.
    pub(crate) fn bind(spec: &Listen) -> io::Result<Self> {
        match spec {
            Listen::Fd(fd) => Ok(Self::Stream(FdStream::socket(adopt(*fd)?)?)),
            Listen::Stdio => {
                let (input, output) = take_stdio()?;
                Ok(Self::Stream(FdStream::pair(input, output)?))
            }
            Listen::Listener(fd) => {
                let socket = adopt(*fd)?;
                rustix::io::ioctl_fionbio(&socket, true)?;
                Self::watch(socket, Kind::Unix)
            }
            Listen::Unix(path) => Self::watch(bind_unix(path)?, Kind::Unix),
            Listen::Tcp(address) => Self::watch(bind_tcp(address)?, Kind::Tcp),
            Listen::Vsock(port) => Self::watch(vsock::bind(*port)?, Kind::Vsock),
        }
    }

    fn watch(socket: OwnedFd, kind: Kind) -> io::Result<Self> {
        Ok(Self::Socket(fd::watch(socket, Interest::READABLE)?, kind))
    }
}

/// The next connection of a socket.
///
/// # Errors
/// There is no descriptor for it, or the listener is broken.
///
/// # Cancel safety
/// Dropping the future loses no connection.
pub(crate) async fn accept(socket: &AsyncFd<OwnedFd>, kind: Kind) -> io::Result<(FdStream, Peer)> {
    loop {
        let mut ready = socket.readable().await?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accepted = ready.try_io(|socket| Ok(accept_with(socket, flags)?));
        let connection = match accepted {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) if passes(&error) => continue,
            Ok(Err(error)) => return Err(error),
            Err(_would_block) => continue,
        };
        let peer = match kind {
            Kind::Tcp => {
                // Small frames answered one by one must not wait for each other's acknowledgement.
                let _ = sockopt::set_tcp_nodelay(&connection, true);
                let _ = sockopt::set_socket_keepalive(&connection, true);
                Peer::Anybody
            }
            Kind::Vsock if vsock::peer(connection.as_fd()).ok() == Some(vsock::HOST) => Peer::Host,
            Kind::Vsock | Kind::Unix => Peer::Anybody,
        };
        return Ok((FdStream::socket(connection)?, peer));
    }
}

/// Errors of the connection that was to be accepted, not of the listener.
fn passes(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    ) || matches!(
        error.raw_os_error(),
        Some(libc::EPROTO | libc::ENETDOWN | libc::EHOSTUNREACH)
    )
}

/// Takes over a descriptor that was inherited for this purpose.
///
/// # Errors
/// It is not open.
pub(crate) fn adopt(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes any number, and refuses one that is not open.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: open, as was just seen, and named on the command line for the worker to own, once;
    // nothing else in it does.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Moves standard input and output out of the way of commands, which must never hold them.
fn take_stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((input, output))
}

fn bind_unix(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(path)?;
    let stale = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if stale {
        let probe = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        if connect(&probe, &address) == Err(rustix::io::Errno::CONNREFUSED) {
            std::fs::remove_file(path)?;
        }
    }
    // Others must not get in between bind and chmod either.
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = bind(&socket, &address);
    rustix::process::umask(before);
    bound?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listen(&socket, 128)?;
    Ok(socket)
}

fn bind_tcp(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, address)?;
    listen(&socket, 128)?;
    Ok(socket)
}
