//! A place for tests: names from a table, no audit, nothing but loopback.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use namzu_types::EgressPolicy;

use super::{Ask, Place, Regime, Via};
use crate::boundary::Outside;
use crate::{Answer, Authority, Lookup, LookupError, Name, parse_authority};

/// Names from a table that can be changed, and how often it was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    names: Arc<Mutex<HashMap<String, Vec<IpAddr>>>>,
    pub(crate) asked: Arc<AtomicUsize>,
}

#[async_trait]
impl Lookup for Table {
    async fn lookup(&self, name: &Name) -> Result<Answer, LookupError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match self.names.lock().unwrap().get(name.as_str()) {
            Some(addresses) => Ok(Answer {
                addresses: addresses.clone(),
                chain: Vec::new(),
            }),
            None => Err(LookupError("not in the table".to_owned())),
        }
    }
}

impl Table {
    /// All of `names` lead to 127.0.0.1.
    pub(crate) fn loopback(names: &[&str]) -> Self {
        let table = Self::default();
        for name in names {
            table.set(name, &[IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        }
        table
    }

    pub(crate) fn set(&self, name: &str, addresses: &[IpAddr]) {
        let mut names = self.names.lock().unwrap();
        names.insert(name.to_owned(), addresses.to_vec());
    }

    /// How many look-ups there were.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// What tests set of the outside, e.g. its roots; the rest is empty.
pub(crate) fn outside(lookup: impl Lookup + 'static) -> Outside {
    Outside::bare(Arc::new(lookup))
}

/// A policy from JSON, e.g. `{"kind": "static", "rules": [{"host": "a.test", "inward": ["127.0.0.1/32"]}]}`.
pub(crate) fn policy(json: &str) -> EgressPolicy {
    serde_json::from_str(json).unwrap()
}

/// A place under `policy`, which has no credentials; `lookup` is the only way its names are resolved.
pub(crate) fn place(policy: &EgressPolicy, lookup: impl Lookup + 'static) -> Arc<Place> {
    place_at(policy, outside(lookup))
}

/// A place under `policy`, which has no credentials, at `outside`.
pub(crate) fn place_at(policy: &EgressPolicy, outside: Outside) -> Arc<Place> {
    let made = std::pin::pin!(place_with(policy, outside));
    match made.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(place) => place,
        Poll::Pending => panic!("a policy with credentials: use `place_with`"),
    }
}

/// A place under `policy` at `outside`. It has a CA if the policy ends TLS.
pub(crate) async fn place_with(policy: &EgressPolicy, outside: Outside) -> Arc<Place> {
    let regime = Regime::load(policy, 1, None, &outside.limits)
        .await
        .unwrap();
    let ends_tls = regime.snapshot.terminates();
    let ca = ends_tls.then(|| crate::tls::ca::Ca::generate().unwrap());
    Place::new("test".parse().unwrap(), Arc::new(outside), regime, ca)
}

/// `host:port` by CONNECT.
pub(crate) fn ask(authority: &str) -> Ask {
    let Authority { host, port } = parse_authority(authority).unwrap();
    Ask::new(Via::Connect, host, port.unwrap_or(443))
}

/// A screen that knows some addresses of the host.
pub(crate) fn own(addresses: &[IpAddr]) -> ArcSwap<crate::screen::Screen> {
    ArcSwap::from_pointee(crate::screen::Screen {
        own: addresses.to_vec(),
        nat64: Vec::new(),
    })
}
