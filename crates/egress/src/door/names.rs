//! The addresses that stand for names inside: each name keeps its own for the life of the sandbox.
//!
//! Programs remember what a name resolved to for longer than they are told to, so an address never
//! stands for another name, and no name ever gets another address.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use namzu_core::egress::NAME_NET;

use crate::Name;

/// Names of one sandbox. At most 8 MiB, if every one of them were as long as a name can be.
const MOST: usize = 16_384;

/// Addresses used of each 256: those that look like a network or its broadcast are left out.
const OF_A_BLOCK: u32 = 254;

/// Names and their addresses.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    places: HashMap<Name, u32>,
    /// By place.
    names: Vec<Name>,
}

impl Names {
    /// The address of a name; `None` when there are too many.
    pub(crate) fn address(&self, name: &Name) -> Option<Ipv4Addr> {
        if let Some(place) = self.known().places.get(name) {
            return Some(address_of(*place));
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have been faster.
        if let Some(place) = known.places.get(name) {
            return Some(address_of(*place));
        }
        if known.names.len() >= MOST {
            return None;
        }
        let place = u32::try_from(known.names.len()).ok()?;
        known.names.push(name.clone());
        known.places.insert(name.clone(), place);
        Some(address_of(place))
    }

    /// The name of an address.
    pub(crate) fn name(&self, address: Ipv4Addr) -> Option<Name> {
        let place = usize::try_from(place_of(address)?).ok()?;
        self.known().names.get(place).cloned()
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        // Nothing panics between two changes that belong together.
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address_of(place: u32) -> Ipv4Addr {
    let offset = place / OF_A_BLOCK * 256 + place % OF_A_BLOCK + 1;
    Ipv4Addr::from_bits(NAME_NET.0.to_bits() + offset)
}

fn place_of(address: Ipv4Addr) -> Option<u32> {
    let (net, length) = NAME_NET;
    let offset = address.to_bits().checked_sub(net.to_bits())?;
    if offset >> (u32::BITS - u32::from(length)) != 0 {
        return None;
    }
    match offset % 256 {
        0 | 255 => None,
        last => Some(offset / 256 * OF_A_BLOCK + last - 1),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn a_name_keeps_its_address_and_an_address_its_name() {
        let names = Names::default();
        let first = names.address(&name("a.example.com")).unwrap();
        let second = names.address(&name("b.example.com")).unwrap();
        assert_ne!(first, second);
        assert_eq!(names.address(&name("A.example.com.")), Some(first));
        assert_eq!(names.name(first), Some(name("a.example.com")));
        assert_eq!(names.name(second), Some(name("b.example.com")));
    }

    #[test]
    fn addresses_are_of_the_net_and_look_like_hosts() {
        let mut seen = HashSet::new();
        for place in 0..u32::try_from(MOST).unwrap() {
            let address = address_of(place);
            let [a, b, _, d] = address.octets();
            assert!(a == 198 && (18..=19).contains(&b), "{address}");
            assert!(d != 0 && d != 255, "{address}");
            assert!(seen.insert(address), "{address} stands for two names");
            assert_eq!(place_of(address), Some(place));
        }
    }

    #[test]
    fn an_address_that_was_given_to_nobody_has_no_name() {
        let names = Names::default();
        names.address(&name("a.example.com")).unwrap();
        for address in [
            [198, 18, 0, 0],
            [198, 18, 0, 2],
            [198, 18, 0, 255],
            [198, 17, 255, 255],
            [198, 19, 255, 255],
            [198, 20, 0, 1],
            [127, 0, 0, 1],
            [0, 0, 0, 0],
            [255, 255, 255, 255],
        ] {
            assert_eq!(names.name(address.into()), None, "{address:?}");
        }
    }

    #[test]
    fn a_name_too_many_gets_no_address_and_takes_none_from_others() {
        let names = Names::default();
        let first = names.address(&name("n0.example.com")).unwrap();
        for number in 1..MOST {
            assert!(
                names
                    .address(&name(&format!("n{number}.example.com")))
                    .is_some()
            );
        }
        assert_eq!(names.address(&name("late.example.com")), None);
        assert_eq!(names.address(&name("n0.example.com")), Some(first));
    }
}
