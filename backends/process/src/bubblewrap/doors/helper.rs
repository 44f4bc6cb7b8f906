//! The process that makes the sockets: the worker's bytes in another role, on the host.
//!
//! It joins the sandbox's network namespace and runs nothing of the sandbox. What it sends is
//! therefore no descriptor out of a sandbox; it is checked all the same.

use std::collections::BTreeSet;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::Stdio;

use namzu_core::egress::{DNS_PORT, Doors, PROXY_PORT};
use namzu_core::spawn::{Setup, command, prepare};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketFlags, SocketType, recvmsg, send, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::Child;

use crate::error::Error;

/// The most ports that can be asked for at once. Each costs this process a descriptor.
const MOST_PORTS: usize = 1024;
/// More than the helper says at once.
const MAX_PACKET: usize = 512;
/// Room for more descriptors than a packet may carry, so that an excess is seen.
const ROOM: usize = 2;

/// A helper that waits to be asked. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Helper {
    line: AsyncFd<OwnedFd>,
    child: Child,
}

/// What a packet says.
#[derive(Debug)]
enum Packet {
    Door(u8, u16, OwnedFd),
    End,
    Refused(String),
    Failed(String),
}

impl Helper {
    /// Starts one that joins `netns` at once.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O.
    pub(super) fn start(worker: &OwnedFd, netns: OwnedFd) -> io::Result<Self> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        #[expect(
            deprecated,
            reason = "the safe one of two: what its successor asks the caller to uphold, an \
                      `OwnedFd` upholds"
        )]
        let line = AsyncFd::with_interest(ours, Interest::READABLE)?;
        let mut helper = command(format!("/proc/self/fd/{}", worker.as_raw_fd()));
        helper
            .arg("doors")
            .current_dir("/")
            .stdin(theirs)
            .stdout(netns)
            .stderr(Stdio::null());
        prepare(
            &mut helper,
            Setup {
                session: true,
                ..Setup::default()
            },
        );
        let child = helper.spawn()?;
        Ok(Self { line, child })
    }

    /// Has doors opened: all of them, or none.
    pub(super) async fn ask(
        mut self,
        loopback: bool,
        ports: &BTreeSet<u16>,
    ) -> Result<Doors, Error> {
        if ports.len() > MOST_PORTS {
            return Err(Error::Doors(format!(
                "{} ports are more than {MOST_PORTS}",
                ports.len()
            )));
        }
        let mut request = vec![if loopback { b'+' } else { b'-' }];
        request.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        // A failure is told in the answer.
        let sent = send(self.line.get_ref(), &request, SendFlags::NOSIGNAL);
        let mut doors = Doors::default();
        loop {
            match self.packet().await {
                Ok(Packet::Door(kind, port, socket)) => put(&mut doors, kind, port, socket)?,
                Ok(Packet::End) => break,
                Ok(Packet::Refused(text)) => return Err(Error::Joining(text)),
                Ok(Packet::Failed(text)) => return Err(Error::Doors(text)),
                Err(err) => {
                    let err = sent.err().map_or(err, io::Error::from);
                    return Err(Error::Doors(format!("the helper failed: {err}")));
                }
            }
        }
        check(&doors, loopback, ports)?;
        // It has nothing left to do. Nothing of it stays behind in the sandbox's network.
        self.child.wait().await.map_err(Error::StartHelper)?;
        Ok(doors)
    }

    async fn packet(&self) -> io::Result<Packet> {
        loop {
            let mut ready = self.line.readable().await?;
            if let Ok(received) = ready.try_io(|line| receive(line.get_ref())) {
                return received;
            }
        }
    }
}

fn receive(line: &OwnedFd) -> io::Result<Packet> {
    let mut bytes = [0_u8; MAX_PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ROOM))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        line,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut sockets: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if received.flags.contains(ReturnFlags::CTRUNC) {
        // There is room, so it is this process that has none.
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    let packet = bytes.get(..received.bytes).unwrap_or_default();
    parse(packet, sockets.pop(), sockets.is_empty())
}

/// Of a packet with one socket or none, and `alone`, no second.
fn parse(packet: &[u8], socket: Option<OwnedFd>, alone: bool) -> io::Result<Packet> {
    match (packet, socket, alone) {
        ([], ..) => Err(io::ErrorKind::UnexpectedEof.into()),
        ([kind @ (b'P' | b'T' | b'U' | b'N'), high, low], Some(socket), true) => Ok(Packet::Door(
            *kind,
            u16::from_be_bytes([*high, *low]),
            socket,
        )),
        ([b'.'], None, true) => Ok(Packet::End),
        ([b'?', text @ ..], None, true) => Ok(Packet::Refused(printable(text))),
        ([b'!', text @ ..], None, true) => Ok(Packet::Failed(printable(text))),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn printable(text: &[u8]) -> String {
    String::from_utf8_lossy(text)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn put(doors: &mut Doors, kind: u8, port: u16, socket: OwnedFd) -> Result<(), Error> {
    match (kind, port) {
        (b'P', PROXY_PORT) => doors.proxy.push(socket.into()),
        (b'T', DNS_PORT) => doors.dns_tcp.push(socket.into()),
        (b'U', DNS_PORT) => doors.dns_udp.push(socket.into()),
        (b'N', port) => doors.named.push((port, socket.into())),
        _ => return Err(unasked()),
    }
    Ok(())
}

/// Exactly what was asked for.
fn check(doors: &Doors, loopback: bool, ports: &BTreeSet<u16>) -> Result<(), Error> {
    let each = usize::from(loopback);
    let counts = [doors.proxy.len(), doors.dns_tcp.len(), doors.dns_udp.len()];
    // In order, as they were asked for.
    let named = doors.named.iter().map(|(port, _)| port);
    if counts == [each; 3] && named.eq(ports) {
        Ok(())
    } else {
        Err(unasked())
    }
}

fn unasked() -> Error {
    Error::Doors("the helper gave what nobody asked for".to_owned())
}

#[cfg(test)]
mod tests;
