//! IPv4 addresses that hide inside IPv6 addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::table::{NAT64, NAT64_LOCAL};
use crate::Reason;

/// The address itself, or the IPv4 address that it maps (`::ffff:a.b.c.d`) or is compatible with
/// (`::a.b.c.d`). These are the same destination, so they are one value from the start.
#[must_use]
pub fn unwrap(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] => v4(high, low).into(),
        // `::` and `::1` are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => address,
        [0, 0, 0, 0, 0, 0, high, low] => v4(high, low).into(),
        _ => address,
    }
}

/// The addresses that `address` stands for and that must each pass: itself, or the IPv4 that a NAT64
/// prefix hides in it.
///
/// # Errors
///
/// [`Reason::AddressForbidden`] for what tunnels (6to4, Teredo, ISATAP, a local NAT64 prefix that the
/// operator did not name): where it leads is not for us to know.
pub(crate) fn spellings(
    address: IpAddr,
    operator: &[IpNet],
) -> Result<impl Iterator<Item = IpAddr>, Reason> {
    let address = unwrap(address);
    let mut hidden = Vec::new();
    if let IpAddr::V6(v6) = address {
        let own = operator.iter().filter_map(|net| match net {
            IpNet::V6(net) if net.contains(&v6) => Some(*net),
            _ => None,
        });
        for prefix in own {
            hidden.push(translated(v6, prefix.prefix_len()).ok_or(Reason::AddressForbidden)?);
        }
        if hidden.is_empty() && NAT64.contains(&v6) {
            hidden.push(translated(v6, 96).ok_or(Reason::AddressForbidden)?);
        }
        if hidden.is_empty() && (NAT64_LOCAL.contains(&v6) || is_isatap(v6)) {
            return Err(Reason::AddressForbidden);
        }
    }
    // What is translated leaves the network as IPv4, so that is what counts.
    let itself = hidden.is_empty().then_some(address);
    Ok(itself.into_iter().chain(hidden.into_iter().map(IpAddr::V4)))
}

/// RFC 6052 §2.2: the address follows the prefix and jumps over bits 64 to 71, which are zero.
fn translated(address: Ipv6Addr, prefix: u8) -> Option<Ipv4Addr> {
    let octets = address.octets();
    let picked = match prefix {
        32 => [4, 5, 6, 7],
        40 => [5, 6, 7, 9],
        48 => [6, 7, 9, 10],
        56 => [7, 9, 10, 11],
        64 => [9, 10, 11, 12],
        96 => [12, 13, 14, 15],
        _ => return None,
    };
    let clean = octets[8] == 0;
    clean.then(|| Ipv4Addr::from(picked.map(|index: usize| octets[index])))
}

/// RFC 5214 §6.1: an interface identifier of `[02]00:5efe` and an IPv4 address, under any prefix.
fn is_isatap(address: Ipv6Addr) -> bool {
    let [_, _, _, _, high, low, _, _] = address.segments();
    matches!(high, 0 | 0x0200) && low == 0x5efe
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}
