//! The host's own addresses: what listens on them was meant for its neighbours, not for a sandbox.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::Instant;

use crate::lock::locked;
use crate::screen::Screen;

/// How old what is known of the host may be.
const FRESH: Duration = Duration::from_secs(10);

/// Where the host's addresses come from.
#[derive(Debug)]
pub(crate) struct Own {
    /// `None`: they are given, and not looked up.
    read: Mutex<Option<Instant>>,
    /// Given beside those that are looked up.
    extra: Vec<IpAddr>,
}

impl Own {
    /// Nothing is looked up: the screen stays as it was made.
    pub(crate) const fn fixed() -> Self {
        Self {
            read: Mutex::new(None),
            extra: Vec::new(),
        }
    }

    /// Those of the interfaces, and `extra`.
    pub(crate) fn looked_up(extra: Vec<IpAddr>) -> (Self, Vec<IpAddr>) {
        let addresses = all(&extra);
        let own = Self {
            read: Mutex::new(Some(Instant::now())),
            extra,
        };
        (own, addresses)
    }

    /// Looks them up again if they may have changed. Two small files of the kernel: no disk is waited for.
    pub(crate) fn refresh(&self, screen: &ArcSwap<Screen>) {
        {
            let mut read = locked(&self.read);
            match &mut *read {
                Some(when) if when.elapsed() >= FRESH => *when = Instant::now(),
                _ => return,
            }
        }
        let own = all(&self.extra);
        let now = screen.load();
        if now.own != own {
            let nat64 = now.nat64.clone();
            screen.store(Arc::new(Screen { own, nat64 }));
        }
    }
}

fn all(extra: &[IpAddr]) -> Vec<IpAddr> {
    let mut addresses = extra.to_vec();
    for (path, parse) in [
        (
            "/proc/self/net/fib_trie",
            fib_trie as fn(&str) -> Vec<IpAddr>,
        ),
        ("/proc/self/net/if_inet6", if_inet6),
    ] {
        match std::fs::read_to_string(path) {
            Ok(text) => addresses.extend(parse(&text)),
            // A host without IPv6 has no such file.
            Err(why) => tracing::debug!(path, %why, "addresses of this host are not known"),
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// The leaves of the routing table that are this host: an address, and below it `/32 host LOCAL`.
fn fib_trie(text: &str) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    let mut leaf = None;
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.trim().parse::<Ipv4Addr>().ok();
        } else if line.starts_with("/32 host LOCAL") {
            addresses.extend(leaf.map(IpAddr::V4));
        }
    }
    addresses
}

/// An address as 32 digits, then what interface has it.
fn if_inet6(text: &str) -> Vec<IpAddr> {
    let digits = text.lines().filter_map(|line| line.split(' ').next());
    digits
        .filter(|digits| digits.len() == 32)
        .filter_map(|digits| u128::from_str_radix(digits, 16).ok())
        .map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIB_TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.0.0.0/24 2 0 2
        |-- 10.0.0.0
           /32 link BROADCAST
           /24 link UNICAST
        |-- 10.0.0.5
           /32 host LOCAL
Local:
     |-- 127.0.0.0
        /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
        |-- nonsense
           /32 host LOCAL
";

    #[test]
    fn only_what_is_this_host_is_its_own() {
        let wanted: Vec<IpAddr> = vec!["10.0.0.5".parse().unwrap(), "127.0.0.1".parse().unwrap()];
        assert_eq!(fib_trie(FIB_TRIE), wanted);
        let text = "fe800000000000000042acfffe110002 02 40 20 80     eth0\nshort 01\n\n";
        let wanted: Vec<IpAddr> = vec!["fe80::42:acff:fe11:2".parse().unwrap()];
        assert_eq!(if_inet6(text), wanted);
    }

    #[test]
    fn the_loopback_and_what_was_given_are_among_them() {
        let given: IpAddr = "203.0.113.7".parse().unwrap();
        let (_, own) = Own::looked_up(vec![given]);
        assert!(own.contains(&given));
        assert!(own.contains(&"127.0.0.1".parse().unwrap()), "{own:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn they_are_looked_up_again_after_a_while() {
        let (own, _) = Own::looked_up(Vec::new());
        let screen = ArcSwap::from_pointee(Screen::default());
        own.refresh(&screen);
        assert!(screen.load().own.is_empty());
        tokio::time::advance(FRESH).await;
        own.refresh(&screen);
        assert!(!screen.load().own.is_empty());
    }
}
