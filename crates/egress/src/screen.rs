//! Which addresses may be dialled at all. No I/O.
//!
//! Every address falls in one of three classes, whatever way it is written. Public ones pass; private
//! ones pass where a rule's `inward` covers them; what is forbidden passes never, not even under a policy
//! that allows everything.

mod embedded;
mod table;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use ipnet::IpNet;

pub(crate) use self::embedded::spellings;
pub use self::embedded::unwrap;
use self::table::Class;
pub(crate) use self::table::{covers_forbidden, is_forbidden_range, is_private_range};
use crate::Reason;

/// What this host adds to the tables: its own addresses, and prefixes under which its network hides IPv4.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// Addresses of the host's own interfaces, and that it is known by outside. They are treated as
    /// private, even where they are public.
    pub own: Vec<IpAddr>,
    /// NAT64 prefixes of the operator, beside the well-known one: of 32, 40, 48, 56, 64 or 96 bits
    /// (RFC 6052). One of another length forbids all that it covers.
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
        let mut class = Class::Public;
        let mut covered = true;
        // An address and each address that is hidden in it must pass.
        for spelling in spellings(address, &self.nat64)? {
            let found = match table::class(spelling) {
                Class::Public if self.is_own(spelling) => Class::Private,
                found => found,
            };
            class = class.max(found);
            covered &= found == Class::Public || inward.iter().any(|net| net.contains(&spelling));
        }
        match class {
            Class::Forbidden => Err(Reason::AddressForbidden),
            Class::Private if !covered => Err(Reason::AddressPrivate),
            Class::Private | Class::Public => Ok(()),
        }
    }

    /// Screens all addresses that a name resolved to: one that may not be dialled spoils the answer, for
    /// whoever gives such an answer wants one of them dialled.
    ///
    /// # Errors
    ///
    /// The gravest of the reasons of [`Self::check`]; [`Reason::LookupFailed`] when there is no address.
    pub fn check_all(&self, addresses: &[IpAddr], inward: &[IpNet]) -> Result<(), Reason> {
        let mut worst = match addresses {
            [] => Err(Reason::LookupFailed),
            _ => Ok(()),
        };
        for address in addresses {
            match self.check(*address, inward) {
                Ok(()) => {}
                Err(Reason::AddressPrivate) if worst.is_ok() => {
                    worst = Err(Reason::AddressPrivate);
                }
                Err(Reason::AddressPrivate) => {}
                Err(reason) => worst = Err(reason),
            }
        }
        worst
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.own.iter().any(|own| unwrap(*own) == address)
    }
}
