//! Which addresses may be dialled at all. No I/O.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::Reason;

/// What this host adds to the tables: its own addresses, and prefixes under which its network hides IPv4.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// Addresses of the host's own interfaces, and that it is known by outside.
    pub own: Vec<IpAddr>,
    /// NAT64 prefixes of the operator, beside the well-known one.
    pub nat64: Vec<IpNet>,
}

impl Screen {
    /// Screens an address that a name resolved to, or that a rule names. Metadata services, multicast and
    /// what is reserved are denied whatever `inward` says.
    ///
    /// # Errors
    ///
    /// [`Reason::AddressForbidden`] or [`Reason::AddressPrivate`].
    pub fn check(&self, address: IpAddr, inward: &[IpNet]) -> Result<(), Reason> {
        let _ = (address, inward);
        Err(Reason::AddressForbidden)
    }
}
