//! The egress boundary: the only way out of a sandbox, and what decides what takes it.
//!
//! One path leads out, whatever the door: parse → decide → resolve → screen every address → dial the
//! address that was screened → look at who answered. A name that is denied is never resolved, and
//! whoever is not named by a rule is denied.
//!
//! ```text
//!  door (proxy, socks, named, dns, inside TLS) ── Ask ──► Place::admit ── Flow ──► Flow::dial ──► outside
//!                                                          policy::decide             lookup, screen
//! ```
//!
//! The modules `host`, `policy`, `screen` and the parsers of `http` and `door` do no I/O.
#![forbid(unsafe_code)]

mod audit;
mod boundary;
mod broker;
mod denial;
mod door;
mod host;
mod http;
mod limits;
mod lock;
mod lookup;
mod metrics;
mod place;
pub mod policy;
mod proxy;
mod reader;
mod reason;
mod relay;
pub mod screen;
mod stream;
mod tls;

pub use crate::audit::{
    AuditFile, AuditSink, VerifyError, verify as verify_audit, verify_rest as verify_audit_rest,
};
pub use crate::boundary::{Boundary, BoundaryBuilder, Change, Egress, Explanation, ForwardedDoor};
pub use crate::host::{Authority, Host, HostError, Name, Scheme, is_host_allowed, parse_authority};
pub use crate::lookup::{Answer, Lookup, LookupError};
pub use crate::metrics::Metrics;
pub use crate::proxy::{EgressProxy, EgressProxyBuilder};
pub use crate::reason::Reason;
pub use crate::stream::Forwarded;
