//! A policy in force and all that changes with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use namzu_types::{EgressLimits, EgressPolicy};

use super::source::Source;
use crate::broker::Broker;
use crate::limits;
use crate::policy::Snapshot;

/// A policy in force and all that changes with it.
pub(crate) struct Regime {
    pub(crate) snapshot: Snapshot,
    pub(crate) broker: Arc<Broker>,
    /// What is asked for the list, where the policy is a resolver.
    pub(super) source: Option<Arc<Source>>,
    /// What it answered, of which the snapshot was made.
    pub(super) hosts: Arc<[String]>,
    pub(super) limits: EgressLimits,
}

impl Regime {
    /// Compiles a policy and asks for its secrets. A resolver is asked when something is to be decided.
    ///
    /// # Errors
    ///
    /// Every reason. A policy with a fault has no secret asked for.
    pub(crate) async fn load(
        policy: &EgressPolicy,
        generation: u64,
        previous: Option<&Broker>,
        defaults: &EgressLimits,
    ) -> Result<Self, Vec<String>> {
        let none = BTreeMap::new();
        let (snapshot, credentials, source) = match policy {
            EgressPolicy::Resolver { resolve } => (
                Snapshot::from_hosts(&[], generation),
                &none,
                Some(Arc::new(Source::new(resolve.clone()))),
            ),
            EgressPolicy::Static { credentials, .. } => {
                (Snapshot::compile(policy, generation), credentials, None)
            }
            EgressPolicy::DenyAll | EgressPolicy::AllowAll => {
                (Snapshot::compile(policy, generation), &none, None)
            }
        };
        let snapshot = snapshot?;
        let broker = Broker::load(credentials, previous).await?;
        Ok(Self {
            limits: limits::over(&snapshot.limits, defaults),
            snapshot,
            broker: Arc::new(broker),
            source,
            hosts: Arc::from([]),
        })
    }

    /// The same policy after its resolver answered otherwise.
    pub(super) fn answered(&self, hosts: Arc<[String]>) -> Result<Self, Vec<String>> {
        Ok(Self {
            snapshot: Snapshot::from_hosts(&hosts, self.snapshot.generation + 1)?,
            broker: Arc::clone(&self.broker),
            source: self.source.clone(),
            hosts,
            limits: self.limits.clone(),
        })
    }

    /// Whether somebody has to be asked for the policy.
    pub(super) const fn asks(&self) -> bool {
        self.source.is_some()
    }
}
