//! What the doors need of the sandbox's network, and the rights to it, which are given up.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities,
};

use crate::netns::route as names;

/// What the doors take: to change the network, to listen on low ports, and to give all this up.
const RIGHTS: [CapabilitySet; 3] = [
    CapabilitySet::NET_ADMIN,
    CapabilitySet::NET_BIND_SERVICE,
    CapabilitySet::SETPCAP,
];

/// What this process keeps, to itself: doors of low ports may be asked for later.
const KEPT: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;

/// An address that is ours if those of names are.
const NAME: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Routes the addresses of names, where that is allowed, and gives up the rights that the doors take,
/// while this process has one thread: it keeps that to listen on low ports, and what it starts
/// gets none of them.
///
/// # Errors
///
/// They could not be given up.
pub(crate) fn prepare() -> io::Result<()> {
    // Where it may not, the doors of names cannot be come by; whoever asks for them is told.
    if !is_routed() {
        let _ = names::set_up();
    }
    let mut own = capabilities(None)?;
    for right in RIGHTS {
        // Commands of root would get it back from the bounding set. Without the right to shrink that,
        // they get no more than this process has: it has given up new privileges for good.
        match remove_capability_from_bounding_set(right) {
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        if right != KEPT {
            own.effective.remove(right);
            own.permitted.remove(right);
        }
        // What can be inherited is also what commands of other users are given unasked.
        own.inheritable.remove(right);
    }
    Ok(set_capabilities(None, own)?)
}

/// Whether the addresses of names lead to the loopback: then whoever sends to one of them is that one.
/// Nothing is sent.
pub(super) fn is_routed() -> bool {
    let from = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect((NAME, 9))?;
        socket.local_addr()
    };
    from().is_ok_and(|from| from.ip() == NAME)
}
