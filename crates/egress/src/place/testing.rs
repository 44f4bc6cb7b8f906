//! A place for tests: names from a table, no audit, nothing but loopback.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use namzu_types::EgressPolicy;

use super::{Place, Regime};
use crate::boundary::Outside;
use crate::policy::Snapshot;
use crate::{Answer, Lookup, LookupError, Name};

/// Names from a table, and how often it was asked.
#[derive(Debug, Default)]
pub(crate) struct Table {
    names: HashMap<String, Vec<IpAddr>>,
    pub(crate) asked: AtomicUsize,
}

#[async_trait]
impl Lookup for Table {
    async fn lookup(&self, name: &Name) -> Result<Answer, LookupError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match self.names.get(name.as_str()) {
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
        Self::of(
            &names
                .iter()
                .map(|name| (*name, vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]))
                .collect::<Vec<_>>(),
        )
    }

    pub(crate) fn of(names: &[(&str, Vec<IpAddr>)]) -> Self {
        Self {
            names: names
                .iter()
                .map(|(name, to)| ((*name).to_owned(), to.clone()))
                .collect(),
            asked: AtomicUsize::new(0),
        }
    }
}

/// What tests set of the outside; the rest is as a builder without settings has it.
pub(crate) fn outside(lookup: impl Lookup + 'static) -> Outside {
    Outside::bare(Arc::new(lookup))
}

/// A policy from JSON, e.g. `{"kind": "static", "rules": [{"host": "a.test", "inward": ["127.0.0.1/32"]}]}`.
pub(crate) fn policy(json: &str) -> EgressPolicy {
    serde_json::from_str(json).unwrap()
}

/// A place under `policy`; `lookup` is the only way its names are resolved.
pub(crate) fn place(policy: &EgressPolicy, lookup: impl Lookup + 'static) -> Arc<Place> {
    place_at(policy, outside(lookup))
}

/// A place under `policy` at `outside`, whose fields (roots) a test may have set.
pub(crate) fn place_at(policy: &EgressPolicy, outside: Outside) -> Arc<Place> {
    let regime = Regime {
        snapshot: Snapshot::compile(policy, 1).unwrap(),
        broker: crate::broker::Broker::default(),
    };
    Arc::new(Place {
        id: "test".parse().unwrap(),
        outside: Arc::new(outside),
        regime: ArcSwap::from_pointee(regime),
        limiter: Arc::default(),
        names: crate::door::names::Names::default(),
        pool: crate::http::pool::Pool::default(),
        ca: None,
        upstream: crate::tls::upstream::Upstream::default(),
        flows: super::Registry::default(),
    })
}

impl Place {
    /// Puts another policy in force as [`Egress::set_policy`](crate::Egress::set_policy) does.
    pub(crate) async fn change(&self, policy: &EgressPolicy) {
        let generation = self.regime.load().snapshot.generation + 1;
        self.regime.store(Arc::new(Regime {
            snapshot: Snapshot::compile(policy, generation).unwrap(),
            broker: crate::broker::Broker::default(),
        }));
        let lost: Vec<_> = self
            .flows
            .live()
            .into_iter()
            .filter(|entry| {
                let ask = super::registry::locked(&entry.ask);
                !crate::policy::decide(&self.regime.load().snapshot, &ask.question()).allows()
            })
            .collect();
        for entry in &lost {
            entry.cut_for(crate::Reason::Narrowed);
        }
        tokio::task::yield_now().await;
    }

    /// Ends the sandbox.
    pub(crate) fn close(&self) {
        self.flows.close(crate::Reason::Closed);
    }
}
