//! The tables of addresses: IANA's special-purpose registries, and what clouds keep for themselves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Anybody's.
    Public,
    /// Of this host or its networks: reached where a rule says so.
    Private,
    /// Reached never.
    Forbidden,
}

const PRIVATE_V4: &[Ipv4Net] = &[
    net4([10, 0, 0, 0], 8),
    net4([172, 16, 0, 0], 12),
    net4([192, 168, 0, 0], 16),
    // Loopback.
    net4([127, 0, 0, 0], 8),
    // Shared between a carrier and its customers; virtual networks use it too.
    net4([100, 64, 0, 0], 10),
];

const FORBIDDEN_V4: &[Ipv4Net] = &[
    // "This network": Linux takes 0.0.0.0 for loopback.
    net4([0, 0, 0, 0], 8),
    // Link-local, with the metadata services of nearly all clouds.
    net4([169, 254, 0, 0], 16),
    // Alibaba's metadata service.
    net4([100, 100, 100, 200], 32),
    // Azure's WireServer.
    net4([168, 63, 129, 16], 32),
    // IETF protocol assignments, with Oracle's old metadata service, 192.0.0.192.
    net4([192, 0, 0, 0], 24),
    // Documentation.
    net4([192, 0, 2, 0], 24),
    net4([198, 51, 100, 0], 24),
    net4([203, 0, 113, 0], 24),
    // Relays of 6to4, long withdrawn.
    net4([192, 88, 99, 0], 24),
    // Benchmarking; the names of a sandbox have their addresses here.
    net4([198, 18, 0, 0], 15),
    // Multicast, then what is reserved, with broadcast.
    net4([224, 0, 0, 0], 4),
    net4([240, 0, 0, 0], 4),
];

const PRIVATE_V6: &[Ipv6Net] = &[
    // Loopback.
    net6([0, 0, 0, 0, 0, 0, 0, 1], 128),
    // Unique local.
    net6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
];

/// All that is allocated to the public; what is in neither list and not here is reserved.
const GLOBAL_V6: Ipv6Net = net6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// The well-known prefix of NAT64 (RFC 6052).
pub(super) const NAT64: Ipv6Net = net6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
/// Its local one (RFC 8215), whose use only an operator's prefix explains.
pub(super) const NAT64_LOCAL: Ipv6Net = net6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48);

const FORBIDDEN_V6: &[Ipv6Net] = &[
    // Metadata services: AWS, Google, Oracle, Scaleway, OpenStack and Alibaba.
    net6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32),
    net6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
    net6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128),
    net6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128),
    net6([0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1], 128),
    net6([0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200], 128),
    // IETF protocol assignments, with Teredo, 2001::/32.
    net6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    // Documentation.
    net6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    net6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
    // 6to4.
    net6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
];

/// The class of an address that hides no other.
pub(super) fn class(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(v4) if within(FORBIDDEN_V4, |net| net.contains(&v4)) => Class::Forbidden,
        IpAddr::V4(v4) if within(PRIVATE_V4, |net| net.contains(&v4)) => Class::Private,
        IpAddr::V4(_) => Class::Public,
        IpAddr::V6(v6) if within(FORBIDDEN_V6, |net| net.contains(&v6)) => Class::Forbidden,
        IpAddr::V6(v6) if within(PRIVATE_V6, |net| net.contains(&v6)) => Class::Private,
        IpAddr::V6(v6) if GLOBAL_V6.contains(&v6) => Class::Public,
        IpAddr::V6(_) => Class::Forbidden,
    }
}

/// Whether all of `range` is private.
pub(crate) fn is_private_range(range: &IpNet) -> bool {
    match range {
        IpNet::V4(range) => within(PRIVATE_V4, |net| net.contains(range)),
        IpNet::V6(range) => within(PRIVATE_V6, |net| net.contains(range)),
    }
}

/// Whether all of `range` is forbidden.
pub(crate) fn is_forbidden_range(range: &IpNet) -> bool {
    match range {
        IpNet::V4(range) => within(FORBIDDEN_V4, |net| net.contains(range)),
        IpNet::V6(range) => {
            let outside = |net: &Ipv6Net| !net.contains(range) && !range.contains(net);
            // What is translated may be anything, which only the address itself tells.
            let others = [GLOBAL_V6, NAT64, NAT64_LOCAL];
            within(FORBIDDEN_V6, |net| net.contains(range))
                || others.iter().chain(PRIVATE_V6).all(outside)
        }
    }
}

/// The first forbidden range that `range` holds, all or a part of.
pub(crate) fn covers_forbidden(range: &IpNet) -> Option<IpNet> {
    match range {
        IpNet::V4(range) => FORBIDDEN_V4
            .iter()
            .find(|net| net.contains(range) || range.contains(*net))
            .map(|net| IpNet::V4(*net)),
        IpNet::V6(range) => FORBIDDEN_V6
            .iter()
            .find(|net| net.contains(range) || range.contains(*net))
            .map(|net| IpNet::V6(*net)),
    }
}

fn within<N>(nets: &[N], holds: impl Fn(&N) -> bool) -> bool {
    nets.iter().any(holds)
}

const fn net4([a, b, c, d]: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn net6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix)
}
