//! The fd lane: descriptors that become the standard streams of commands.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use namzu_protocol::ext::{LaneMessage, STDERR, STDIN, STDOUT};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

/// More unclaimed messages than this close the lane.
const MOST_UNCLAIMED: usize = 64;
/// Room for more descriptors than a message may carry, so that an excess is seen.
const ROOM: usize = 8;

type Streams = [Option<OwnedFd>; 3];

/// The worker's end of the lane.
#[derive(Debug)]
pub(crate) struct Lane(Mutex<State>);

#[derive(Debug)]
struct State {
    /// `None` once the lane is closed.
    socket: Option<OwnedFd>,
    unclaimed: HashMap<u64, Streams>,
}

impl Lane {
    /// The lane over a `SOCK_SEQPACKET` socket.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(Mutex::new(State {
            socket: Some(socket),
            unclaimed: HashMap::new(),
        }))
    }

    /// The descriptors of message `id`: standard input, output and error. A message is sent
    /// before the start that names it, so it is here, or it never was.
    pub(crate) fn claim(&self, id: u64) -> Option<Streams> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.unclaimed.contains_key(&id) {
            let received = receive(state.socket.as_ref()?);
            match received {
                Ok(Some((message, streams))) => {
                    let repeated = state.unclaimed.insert(message, streams).is_some();
                    if repeated || state.unclaimed.len() > MOST_UNCLAIMED {
                        state.close();
                    }
                }
                Ok(None) => return None,
                Err(_) => state.close(),
            }
        }
        state.unclaimed.remove(&id)
    }
}

impl State {
    fn close(&mut self) {
        self.socket = None;
        self.unclaimed.clear();
    }
}

/// The next message, or `None` when there is none now.
fn receive(socket: &OwnedFd) -> io::Result<Option<(u64, Streams)>> {
    let mut bytes = [0_u8; LaneMessage::LEN + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ROOM))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            flags,
        ) {
            Ok(received) => break received,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    };
    // Collected first, whatever the message says: what is dropped is closed.
    let descriptors: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    if received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Err(malformed());
    }
    let message = LaneMessage::decode(&bytes[..received.bytes]).map_err(|_| malformed())?;
    if descriptors.len() != message.descriptors() {
        return Err(malformed());
    }
    let mut descriptors = descriptors.into_iter();
    let streams = [STDIN, STDOUT, STDERR].map(|bit| {
        if message.mask & bit != 0 {
            descriptors.next()
        } else {
            None
        }
    });
    Ok(Some((message.id, streams)))
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::AsFd;

    use rustix::net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, sendmsg, socketpair,
    };

    use super::*;

    fn pair() -> (OwnedFd, Lane) {
        let (host, worker) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        (host, Lane::new(worker))
    }

    fn send(host: &OwnedFd, bytes: &[u8], count: usize) {
        let null = std::fs::File::open("/dev/null").unwrap();
        let descriptors = vec![null.as_fd(); count];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if count > 0 {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        }
        sendmsg(
            host,
            &[IoSlice::new(bytes)],
            &mut ancillary,
            SendFlags::empty(),
        )
        .unwrap();
    }

    fn message(id: u64, mask: u8) -> [u8; LaneMessage::LEN] {
        LaneMessage { id, mask }.encode()
    }

    #[test]
    fn descriptors_go_where_the_mask_says() {
        let (host, lane) = pair();
        send(&host, &message(7, STDIN | STDERR), 2);
        send(&host, &message(8, STDOUT), 1);
        let streams = lane.claim(8).unwrap();
        assert!(matches!(streams, [None, Some(_), None]));
        assert!(matches!(lane.claim(7).unwrap(), [Some(_), None, Some(_)]));
        assert!(lane.claim(7).is_none(), "claimed once");
        for fd in streams.iter().flatten() {
            assert!(
                rustix::io::fcntl_getfd(fd)
                    .unwrap()
                    .contains(rustix::io::FdFlags::CLOEXEC)
            );
        }
    }

    #[test]
    fn a_message_that_does_not_parse_closes_the_lane() {
        for (bytes, count) in [
            (&b"short"[..], 1),
            (&[0; 32], 1),
            (&message(1, 0), 0),
            (&message(1, 8), 1),
            (&message(1, STDOUT), 0),
            (&message(1, STDOUT), 2),
            (&message(1, STDOUT), 16),
        ] {
            let (host, lane) = pair();
            send(&host, &message(9, STDOUT), 1);
            send(&host, bytes, count);
            assert!(lane.claim(1).is_none());
            assert!(
                lane.claim(9).is_none(),
                "{bytes:?} with {count} must close the lane"
            );
        }
    }

    #[test]
    fn too_many_unclaimed_messages_close_the_lane() {
        let (host, lane) = pair();
        for id in 0..=MOST_UNCLAIMED as u64 {
            send(&host, &message(id, STDOUT), 1);
            if id % 8 == 7 {
                // Asked for one that never comes, so that the socket's queue is read.
                assert!(lane.claim(u64::MAX).is_none());
            }
        }
        assert!(lane.claim(u64::MAX).is_none());
        assert!(lane.claim(0).is_none());
    }
}
