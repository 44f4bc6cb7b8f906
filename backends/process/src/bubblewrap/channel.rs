//! Sandboxes as places are that the host cannot have sockets in, such as containers: the worker serves
//! the egress boundary's doors. For tests of those doors; whoever can have sockets inside is better
//! served by them.

use super::args::Args;

/// What the worker is let do to its network before it serves doors.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelDoors {
    /// Set it up, and listen on low ports. It is the root of its user namespace: that of any other user
    /// would be one below, which does not own the network.
    WithRights,
    /// Nothing, as where whoever made the place kept the rights.
    WithoutRights,
}

/// What setting up takes, and what giving it up takes.
const RIGHTS: [&str; 3] = ["CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE", "CAP_SETPCAP"];

impl ChannelDoors {
    pub(crate) fn has_rights(self) -> bool {
        self == Self::WithRights
    }

    /// Lets the worker have its rights.
    pub(crate) fn grant(self, args: &mut Args) {
        if self.has_rights() {
            for right in RIGHTS {
                args.words(["--cap-add", right]);
            }
        }
    }
}
