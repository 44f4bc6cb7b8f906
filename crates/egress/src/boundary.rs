//! The boundary of one host process, and the end of one sandbox at it.

mod builder;
mod dial;
mod outside;
mod own;
mod wiring;

use std::fmt;
use std::sync::{Arc, Mutex};

use namzu_core::egress::{Doors, Wiring};
use namzu_core::{Error, ErrorCode, Result};
use namzu_types::{EgressPolicy, SandboxId};
use serde::Serialize;
use tokio::task::JoinSet;

pub use self::builder::BoundaryBuilder;
pub(crate) use self::outside::Outside;
use crate::lock::locked;
use crate::metrics::Metrics;
use crate::place::{Place, Regime};
use crate::policy::Verdict;
use crate::stream::Forwarded;
use crate::tls::ca::Ca;
use crate::{Host, door, parse_authority};

/// The egress boundary of a host process. Cheap to clone; one serves any number of sandboxes.
#[derive(Clone)]
pub struct Boundary {
    outside: Arc<Outside>,
}

/// The end of one sandbox at the boundary. Dropping it closes its doors and ends its flows.
pub struct Egress {
    place: Arc<Place>,
    /// What serves its doors, one set for each time that doors were opened.
    doors: Mutex<Vec<JoinSet<()>>>,
}

/// What a change of policy did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Of the policy now in force; the first is 1.
    pub generation: u64,
    /// Flows that the new policy allows too; they live on untouched.
    pub kept: usize,
    /// Flows that it does not allow; they were ended.
    pub cut: usize,
}

/// What the policy says to something, without trying it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Whether it would be let out, as far as the policy tells: addresses are looked at when the name is
    /// resolved, and method, path and TLS server name when they are sent.
    pub allowed: bool,
    /// The code of the reason.
    pub reason: &'static str,
    /// The reason in words.
    pub text: &'static str,
    /// The rule that decided, e.g. `rules[3]`.
    pub rule: Option<String>,
    /// Of the policy.
    pub generation: u64,
}

/// What a worker inside says of a connection that it forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardedDoor {
    /// The proxy port.
    Proxy,
    /// A look-up over TCP framing (RFC 1035 §4.2.2), whatever it came by.
    Dns,
    /// A connection to the address of a name, at this address and port.
    Named(std::net::SocketAddrV4),
}

impl Boundary {
    /// Starts to set one up.
    #[must_use]
    pub fn builder() -> BoundaryBuilder {
        BoundaryBuilder::default()
    }

    /// Checks a policy without admitting anybody. Secrets and resolvers are not asked.
    ///
    /// # Errors
    ///
    /// `config_invalid` with every reason.
    pub fn check(&self, policy: &EgressPolicy) -> Result<()> {
        if matches!(policy, EgressPolicy::Resolver { .. }) {
            return Ok(());
        }
        crate::policy::Snapshot::compile(policy, 1)
            .map(drop)
            .map_err(invalid)
    }

    /// Makes the end of one sandbox. The sources of its secrets are asked, a resolver is not: it is when
    /// something is to be decided.
    ///
    /// # Errors
    ///
    /// `config_invalid` with every reason; `internal` when there is no randomness for a CA.
    pub async fn admit(&self, id: &SandboxId, policy: &EgressPolicy) -> Result<Egress> {
        let regime = Regime::load(policy, 1, None, &self.outside.limits)
            .await
            .map_err(invalid)?;
        let ca = match regime.snapshot.terminates() {
            true => Some(Ca::generate().map_err(|why| {
                Error::new(ErrorCode::Internal, "cannot make the sandbox's CA").with_source(why)
            })?),
            false => None,
        };
        Ok(Egress {
            place: Place::new(id.clone(), Arc::clone(&self.outside), regime, ca),
            doors: Mutex::default(),
        })
    }

    /// The counters, over all sandboxes.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.outside.metrics
    }
}

impl Egress {
    /// What the sandbox must find inside. Of the policy in force when it is called; variables of a policy
    /// that comes later reach only what is started later, and by whoever sets them.
    #[must_use]
    pub fn wiring(&self) -> Wiring {
        wiring::of(&self.place)
    }

    /// The certificate of its CA as PEM, where the first policy ends TLS.
    #[must_use]
    pub fn ca_pem(&self) -> Option<String> {
        self.place.ca.as_ref().map(Ca::pem)
    }

    /// The ports that named doors are needed for, of the policy in force: to be opened after a change too.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.place.regime.load().snapshot.ports()
    }

    /// Serves doors that were opened inside, until this is dropped. May be called again with further ones.
    /// Must be called in a Tokio runtime with I/O and time.
    ///
    /// # Errors
    ///
    /// Those of handing sockets to the runtime.
    pub fn serve(&self, doors: Doors) -> std::io::Result<()> {
        let tasks = door::serve(&self.place, doors)?;
        locked(&self.doors).push(tasks);
        Ok(())
    }

    /// Serves one connection that a worker forwards, to its end.
    ///
    /// # Cancel safety
    ///
    /// The connection and what it carries end.
    pub async fn serve_forwarded(&self, door: ForwardedDoor, stream: Box<dyn Forwarded>) {
        door::forwarded::serve(Arc::clone(&self.place), door, stream).await;
    }

    /// Puts another policy in force, and ends the flows that it does not allow: they were told when this
    /// returns, and are over unless their task takes longer than 250 ms to hear of it.
    ///
    /// # Errors
    ///
    /// `config_invalid` with every reason; the old policy stays.
    ///
    /// # Cancel safety
    ///
    /// Either policy is in force, whole.
    pub async fn set_policy(&self, policy: &EgressPolicy) -> Result<Change> {
        self.place.change(policy).await.map_err(invalid)
    }

    /// What the policy now says to `host[:port]` (without a port: 443).
    ///
    /// # Errors
    ///
    /// `invalid_argument` for what is no host.
    pub async fn explain(&self, authority: &str) -> Result<Explanation> {
        let parsed = parse_authority(authority).map_err(|why| {
            Error::new(
                ErrorCode::InvalidArgument,
                format!("`{}` is no host[:port]", crate::denial::shown(authority)),
            )
            .with_source(why)
        })?;
        Ok(self
            .explain_host(&parsed.host, parsed.port.unwrap_or(443))
            .await)
    }

    async fn explain_host(&self, host: &Host, port: u16) -> Explanation {
        match self.place.would(host, port).await {
            Ok(verdict) => verdict.into(),
            Err(reason) => Explanation {
                allowed: false,
                reason: reason.code(),
                text: reason.text(),
                rule: None,
                generation: self.place.regime.load().snapshot.generation,
            },
        }
    }
}

impl From<Verdict> for Explanation {
    fn from(verdict: Verdict) -> Self {
        Self {
            allowed: verdict.allows(),
            reason: verdict.reason.code(),
            text: verdict.reason.text(),
            rule: verdict.rule.map(|rule| rule.id.to_string()),
            generation: verdict.generation,
        }
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        // Whoever still waits for an answer is told why there is none; the doors close after this.
        self.place.close();
    }
}

impl fmt::Debug for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boundary")
            .field("lookup", &self.outside.lookup)
            .field("audit", &self.outside.audit)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Egress {
    /// Nothing of its secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generation = self.place.regime.load().snapshot.generation;
        f.debug_struct("Egress")
            .field("sandbox", &self.place.id)
            .field("generation", &generation)
            .finish_non_exhaustive()
    }
}

fn invalid(reasons: Vec<String>) -> Error {
    Error::new(ErrorCode::ConfigInvalid, "the egress policy is refused").with_reasons(reasons)
}

#[cfg(test)]
mod tests;
