//! What the doors need of the sandbox's network, and the right to change it, which is given up.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities,
};

use crate::netns::route as names;

/// An address that is ours if those of names are.
const NAME: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Routes the addresses of names, where that is allowed, and gives up the right to change the network:
/// it is this process's for as long as it has one thread, and then no one's inside.
///
/// # Errors
///
/// The right could not be given up.
pub(crate) fn prepare() -> io::Result<()> {
    // Where it may not, the doors of names cannot be come by; whoever asks for them is told.
    let _ = route();
    // Commands of root would get it back from the bounding set. Without the right to shrink that, they
    // get no more than this process has: it has given up new privileges for good.
    match remove_capability_from_bounding_set(CapabilitySet::NET_ADMIN) {
        Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    let mut own = capabilities(None)?;
    own.effective.remove(CapabilitySet::NET_ADMIN);
    own.permitted.remove(CapabilitySet::NET_ADMIN);
    own.inheritable.remove(CapabilitySet::NET_ADMIN);
    Ok(set_capabilities(None, own)?)
}

/// Routes the addresses of names to the loopback, unless they are already.
pub(super) fn route() -> io::Result<()> {
    if is_routed() { Ok(()) } else { names::set_up() }
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
