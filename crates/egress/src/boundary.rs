//! The boundary of one host process, and the end of one sandbox at it.

mod dial;
mod outside;
mod own;

use std::sync::Arc;

use namzu_core::egress::{Doors, Wiring};
use namzu_core::{Duplex, Result};
use namzu_types::{EgressPolicy, SandboxId};
use serde::Serialize;

use crate::place::Place;

pub(crate) use self::outside::Outside;

/// The egress boundary of a host process. Cheap to clone; one serves any number of sandboxes.
#[derive(Clone)]
pub struct Boundary {
    outside: Arc<Outside>,
}

/// Sets up a [`Boundary`].
#[derive(Debug, Default)]
pub struct BoundaryBuilder {}

/// The end of one sandbox at the boundary. Dropping it closes its doors and ends its flows.
pub struct Egress {
    place: Arc<Place>,
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

    /// Checks a policy without admitting anybody.
    ///
    /// # Errors
    ///
    /// `config_invalid` with every reason.
    pub fn check(&self, policy: &EgressPolicy) -> Result<()> {
        let _ = policy;
        Ok(())
    }

    /// Makes the end of one sandbox.
    ///
    /// # Errors
    ///
    /// `config_invalid` with every reason.
    pub async fn admit(&self, id: &SandboxId, policy: &EgressPolicy) -> Result<Egress> {
        let _ = (id, policy, &self.outside);
        Err(namzu_core::Error::new(
            namzu_core::ErrorCode::Internal,
            "not written",
        ))
    }
}

impl Egress {
    /// What the sandbox must find inside.
    #[must_use]
    pub fn wiring(&self) -> Wiring {
        Wiring::default()
    }

    /// The ports that named doors are needed for.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.place.regime.load().snapshot.ports()
    }

    /// Serves doors that were opened inside, until this is dropped.
    ///
    /// # Errors
    ///
    /// Those of handing sockets to the runtime.
    pub fn serve(&self, doors: Doors) -> std::io::Result<()> {
        let _ = doors;
        Ok(())
    }

    /// Serves one connection that a worker forwards.
    pub async fn serve_forwarded(&self, door: ForwardedDoor, stream: Box<dyn Duplex>) {
        let _ = (door, stream);
    }

    /// Puts another policy in force, and ends the flows that it does not allow.
    ///
    /// # Errors
    ///
    /// `config_invalid` with every reason; the old policy stays.
    pub async fn set_policy(&self, policy: &EgressPolicy) -> Result<Change> {
        let _ = policy;
        Err(namzu_core::Error::new(
            namzu_core::ErrorCode::Internal,
            "not written",
        ))
    }

    /// What the policy now says to `host[:port]` (without a port: 443).
    ///
    /// # Errors
    ///
    /// `invalid_argument` for what is no host.
    pub async fn explain(&self, authority: &str) -> Result<Explanation> {
        let _ = authority;
        Err(namzu_core::Error::new(
            namzu_core::ErrorCode::Internal,
            "not written",
        ))
    }
}
