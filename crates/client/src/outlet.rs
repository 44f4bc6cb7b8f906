//! The way out of one sandbox: the doors that the egress boundary has inside, and its policy.

mod explain;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use namzu_core::egress::{Gate, Wiring};
use namzu_core::{Error, ErrorCode, Result, stand_in_clashes};
use namzu_egress::policy::Snapshot;
use namzu_egress::{Change, Egress, Explanation};
use namzu_types::{EgressPolicy, SandboxId, SandboxSpec};
use serde::Serialize;

pub(crate) use self::explain::explain;
pub(crate) use self::shared::SharedBoundary;
use crate::doors::Forwarding;
use crate::worker::Worker;

/// The egress policy in force in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicy {
    /// Its kind, e.g. `static`; `unknown` for a sandbox that was found again and whose backend keeps
    /// no record of it.
    pub kind: String,
    /// Counts up with each change; 1 is what the sandbox was made with.
    pub generation: u64,
}

/// The way out of one sandbox. Dropping it closes the doors and ends what goes through them.
pub(crate) struct Outlet {
    id: SandboxId,
    boundary: SharedBoundary,
    /// Variables of the specification: they win over the boundary's.
    own: BTreeSet<String>,
    /// Variables that the sandbox was launched with on the boundary's behalf.
    wired: BTreeMap<String, String>,
    state: tokio::sync::Mutex<State>,
    now: Mutex<NetworkPolicy>,
    /// Variables that the boundary has come to want since the launch.
    late: Mutex<Arc<BTreeMap<String, String>>>,
    /// Why doors are missing inside.
    missing: Mutex<BTreeSet<String>>,
}

#[derive(Default)]
struct State {
    /// The boundary's end. Absent until something may leave.
    egress: Option<Arc<Egress>>,
    entrance: Entrance,
}

/// How the doors get inside.
#[derive(Default)]
enum Entrance {
    /// They do not, for this reason.
    #[default]
    Unknown,
    Closed(&'static str),
    Open {
        gate: Gate,
        worker: Worker,
        /// The loopback's doors are there.
        begun: bool,
        /// Ports that have one.
        ports: BTreeSet<u16>,
        /// Carries what the worker forwards; ends when dropped.
        forwarding: Option<Forwarding>,
    },
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet")
            .field("now", &self.policy())
            .finish_non_exhaustive()
    }
}

/// Whether the boundary must be there for `policy` to let anything out.
pub(crate) const fn needs_doors(policy: &EgressPolicy) -> bool {
    match policy {
        EgressPolicy::Static { .. } | EgressPolicy::Resolver { .. } => true,
        EgressPolicy::DenyAll | EgressPolicy::AllowAll => false,
    }
}

impl Outlet {
    /// The way out of a sandbox that is about to be launched, and what it must find inside.
    ///
    /// A policy that the boundary has no part in costs nothing.
    pub(crate) async fn of_new(
        id: SandboxId,
        boundary: &SharedBoundary,
        spec: &SandboxSpec,
        policy: &EgressPolicy,
    ) -> Result<(Self, Wiring)> {
        let mut wiring = Wiring::default();
        let mut egress = None;
        if needs_doors(policy) {
            let admitted = boundary.get()?.admit(&id, policy).await?;
            wiring = admitted.wiring();
            wiring.doors = true;
            wiring.env.retain(|name, _| !spec.env.contains_key(name));
            egress = Some(Arc::new(admitted));
        }
        let mut outlet = Self::new(id, boundary, policy.kind());
        outlet.own = spec.env.keys().cloned().collect();
        outlet.wired.clone_from(&wiring.env);
        outlet.state.get_mut().egress = egress;
        Ok((outlet, wiring))
    }

    /// The way out of a sandbox that was found, whose policy is said to be of this kind.
    pub(crate) fn of_found(id: SandboxId, boundary: &SharedBoundary, kind: &str) -> Self {
        Self::new(id, boundary, kind)
    }

    fn new(id: SandboxId, boundary: &SharedBoundary, kind: &str) -> Self {
        Self {
            id,
            boundary: boundary.clone(),
            own: BTreeSet::new(),
            wired: BTreeMap::new(),
            state: tokio::sync::Mutex::default(),
            now: Mutex::new(NetworkPolicy {
                kind: kind.to_owned(),
                generation: 1,
            }),
            late: Mutex::default(),
            missing: Mutex::default(),
        }
    }

    /// Gets into the sandbox, once it runs; opens the doors that its policy needs.
    pub(crate) async fn enter(
        &self,
        gate: Option<Gate>,
        worker: &Worker,
        found: bool,
    ) -> Result<()> {
        let mut state = self.state.lock().await;
        state.entrance = match gate {
            Some(gate) => Entrance::Open {
                gate,
                worker: worker.clone(),
                begun: false,
                ports: BTreeSet::new(),
                forwarding: None,
            },
            None => Entrance::Closed(match (found, self.policy().kind.as_str()) {
                (true, _) => "it was found again: only who made it can open doors in it",
                (false, "allow-all") => {
                    "it was made with `allow-all`: it is on a network that the boundary does not guard"
                }
                (false, _) => "its backend cannot open doors in it",
            }),
        };
        let Some(egress) = state.egress.clone() else {
            return Ok(());
        };
        self.open(&mut state.entrance, &egress, &egress.ports())
            .await
    }

    /// Opens the doors that are missing, and remembers those that stay so.
    async fn open(
        &self,
        entrance: &mut Entrance,
        egress: &Arc<Egress>,
        ports: &[u16],
    ) -> Result<()> {
        let missing = entrance.open(egress, ports).await?;
        self.missing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(missing);
        Ok(())
    }

    /// What of the way out is missing, if anything is.
    pub(crate) fn lack(&self) -> Option<String> {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let why: Vec<&str> = missing.iter().map(String::as_str).collect();
        (!why.is_empty()).then(|| {
            format!(
                "what is allowed is let out by the proxy, and not everything without it: {}",
                why.join(", ")
            )
        })
    }

    /// The policy in force.
    pub(crate) fn policy(&self) -> NetworkPolicy {
        self.now
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Variables that a command needs on top of those that the sandbox was launched with.
    pub(crate) fn late_env(&self) -> Arc<BTreeMap<String, String>> {
        Arc::clone(&self.late.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another policy in force.
    pub(crate) async fn set(&self, policy: &EgressPolicy) -> Result<Change> {
        let mut state = self.state.lock().await;
        if let Some(why) = state.entrance.closed() {
            return Err(Error::new(
                ErrorCode::Unsupported,
                "the network policy of this sandbox cannot be changed",
            )
            .with_reasons(vec![why.to_owned()]));
        }
        let reasons = stand_in_clashes(policy, |name| self.own.contains(name));
        if !reasons.is_empty() {
            return Err(
                Error::new(ErrorCode::ConfigInvalid, "invalid egress policy").with_reasons(reasons),
            );
        }
        let boundary = self.boundary.get()?;
        boundary.check(policy)?;
        let egress = match &state.egress {
            Some(egress) => Arc::clone(egress),
            // The change is told in the same numbers whether there was an end at the boundary or not.
            None => Arc::new(boundary.admit(&self.id, &EgressPolicy::DenyAll).await?),
        };
        state.egress = Some(Arc::clone(&egress));
        // Doors first: once the policy is in force whatever it allows works. A door more lets out
        // nothing by itself. What a resolver will name is not known yet.
        let ports = Snapshot::compile(policy, 0).map_or_else(|_| Vec::new(), |new| new.ports());
        self.open(&mut state.entrance, &egress, &ports).await?;
        let change = egress.set_policy(policy).await?;
        self.note(policy.kind(), change.generation, &egress);
        self.open(&mut state.entrance, &egress, &egress.ports())
            .await?;
        Ok(change)
    }

    fn note(&self, kind: &str, generation: u64, egress: &Egress) {
        let mut late = egress.wiring().env;
        late.retain(|name, value| !self.own.contains(name) && self.wired.get(name) != Some(value));
        *self.late.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(late);
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = NetworkPolicy {
            kind: kind.to_owned(),
            generation,
        };
    }

    /// What the policy in force says to `authority`.
    pub(crate) async fn explain(&self, authority: &str) -> Result<Explanation> {
        let egress = self.state.lock().await.egress.clone();
        if let Some(egress) = egress {
            return egress.explain(authority).await;
        }
        let now = self.policy();
        let policy = match now.kind.as_str() {
            "deny-all" => EgressPolicy::DenyAll,
            "allow-all" => EgressPolicy::AllowAll,
            _ => {
                return Err(Error::new(
                    ErrorCode::Unsupported,
                    "the policy of this sandbox is known only to who made it",
                ));
            }
        };
        explain(&self.boundary, &policy, authority, now.generation).await
    }

    /// Closes the doors, and ends what goes through them.
    pub(crate) async fn close(&self) {
        let mut state = self.state.lock().await;
        *state = State {
            egress: None,
            entrance: Entrance::Closed("it was destroyed"),
        };
    }
}

impl Entrance {
    fn closed(&self) -> Option<&'static str> {
        match self {
            Self::Unknown => Some("it does not run yet"),
            Self::Closed(why) => Some(why),
            Self::Open { .. } => None,
        }
    }

    /// Opens the doors that are missing: the loopback's, and those of `ports`. Says which stay so.
    async fn open(&mut self, egress: &Arc<Egress>, wanted: &[u16]) -> Result<Vec<String>> {
        let Self::Open {
            gate,
            worker,
            begun,
            ports,
            forwarding,
        } = self
        else {
            return Err(Error::new(
                ErrorCode::Unsupported,
                "the boundary has no way into this sandbox",
            )
            .with_reasons(self.closed().map(str::to_owned).into_iter().collect()));
        };
        let missing: Vec<u16> = wanted
            .iter()
            .copied()
            .filter(|port| !ports.contains(port))
            .collect();
        if *begun && missing.is_empty() {
            return Ok(Vec::new());
        }
        let lack = match gate {
            Gate::Sockets(gate) => {
                let doors = gate.open(&missing).await?;
                egress.serve(doors).map_err(|err| {
                    Error::new(
                        ErrorCode::BackendFailed,
                        "the doors of a sandbox cannot be served",
                    )
                    .with_source(err)
                })?;
                Vec::new()
            }
            Gate::Channel => match forwarding {
                Some(forwarding) => forwarding.open(&missing).await?,
                None => {
                    let (started, lack) = Forwarding::start(worker, egress, &missing).await?;
                    *forwarding = Some(started);
                    lack
                }
            },
        };
        *begun = true;
        ports.extend(missing);
        Ok(lack)
    }
}
