//! The addresses that stand for names inside: each name keeps its own for the life of the sandbox.

use std::net::Ipv4Addr;

use crate::Name;

/// Names and their addresses.
#[derive(Debug, Default)]
pub(crate) struct Names {}

impl Names {
    /// The address of a name; `None` when there are too many.
    pub(crate) fn address(&self, name: &Name) -> Option<Ipv4Addr> {
        let _ = name;
        None
    }

    /// The name of an address.
    pub(crate) fn name(&self, address: Ipv4Addr) -> Option<Name> {
        let _ = address;
        None
    }
}
