//! What goes between the host process and this one: packets, each whole or not at all.
//!
//! A request is `+` (the loopback's doors too) or `-` (only those of ports), then ports of two
//! bytes. The answer is a packet for each door, of a letter and the port, with the socket; then `.`. Or
//! it is one packet of [`REFUSED`] or [`FAILED`] and a text. Numbers are big-endian.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};

/// The host does not let us in.
pub(super) const REFUSED: u8 = b'?';
/// Something failed inside.
pub(super) const FAILED: u8 = b'!';
/// All has been sent.
const END: u8 = b'.';

/// The most ports of one request; each costs the host process a descriptor.
const MOST_PORTS: usize = 1024;

/// A kind of door.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Proxy,
    DnsTcp,
    DnsUdp,
    Named,
}

/// What is asked for.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Request {
    pub(super) loopback: bool,
    pub(super) ports: Vec<u16>,
}

impl Request {
    /// Waits for one; `None` when the other end is gone.
    pub(super) fn receive(line: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        // A byte more than the longest, so that an excess is seen.
        let mut bytes = [0; 1 + 2 * MOST_PORTS + 1];
        let (length, _) = loop {
            match recv(line, &mut bytes, RecvFlags::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        match bytes.get(..length) {
            None | Some([]) => Ok(None),
            Some(packet) => Self::parse(packet)
                .map(Some)
                .ok_or_else(|| io::ErrorKind::InvalidData.into()),
        }
    }

    fn parse(packet: &[u8]) -> Option<Self> {
        let (sign, ports) = packet.split_first()?;
        let loopback = match sign {
            b'+' => true,
            b'-' => false,
            _ => return None,
        };
        let (pairs, []) = ports.as_chunks() else {
            return None;
        };
        let ports: Vec<u16> = pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
        (ports.len() <= MOST_PORTS && !ports.contains(&0)).then_some(Self { loopback, ports })
    }
}

/// Hands a socket over.
pub(super) fn send(
    line: BorrowedFd<'_>,
    kind: Kind,
    port: u16,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    let letter = match kind {
        Kind::Proxy => b'P',
        Kind::DnsTcp => b'T',
        Kind::DnsUdp => b'U',
        Kind::Named => b'N',
    };
    let [high, low] = port.to_be_bytes();
    packet(line, &[letter, high, low], &[socket])
}

/// Says that all has been sent.
pub(super) fn end(line: BorrowedFd<'_>) -> io::Result<()> {
    packet(line, &[END], &[])
}

/// Says what went wrong.
pub(super) fn fail(line: BorrowedFd<'_>, sign: u8, text: &str) -> io::Result<()> {
    packet(line, &[&[sign], text.as_bytes()].concat(), &[])
}

fn packet(line: BorrowedFd<'_>, bytes: &[u8], sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !sockets.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(sockets)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        // Whoever asked may be gone; that is no reason to die of a signal.
        match sendmsg(
            line,
            &[IoSlice::new(bytes)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        ) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_whole_or_not_at_all() {
        let parsed = Request::parse(b"+\x01\xbb\x00\x50");
        let wanted = Request {
            loopback: true,
            ports: vec![443, 80],
        };
        assert_eq!(parsed, Some(wanted));
        assert_eq!(Request::parse(b"-").map(|it| it.loopback), Some(false));
        for bad in [&b""[..], b"x", b"+\x01", b"+\0\0", b"-\x01\xbb\x01"] {
            assert_eq!(Request::parse(bad), None, "{bad:?}");
        }
        let mut long = vec![b'+'];
        long.extend([1; 2 * MOST_PORTS + 2]);
        assert_eq!(Request::parse(&long), None);
    }
}
