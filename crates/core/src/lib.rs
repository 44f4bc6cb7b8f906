//! The contract between the library and its backends: the trait, the guard, the receipt, errors.
//!
//! A backend isolates and gives back a line to the worker; everything else is written once, above.
#![deny(unsafe_code)]

mod backend;
mod channel;
pub mod egress;
mod envelope;
mod error;
mod finding;
mod guard;
#[cfg(target_os = "linux")]
pub mod janitor;
pub mod layout;
#[cfg(target_os = "linux")]
pub mod owner;
mod receipt;
#[cfg(target_os = "linux")]
pub mod runtime_dir;
pub mod source;
pub mod spawn;

pub use namzu_types as types;
pub use namzu_types::{ErrorCode, Phase};

pub use crate::backend::{Backend, Launched, Teardown};
pub use crate::channel::{Channel, Duplex, DuplexChannel, HttpChannel};
pub use crate::envelope::{SerializedSandboxError, serialize_sandbox_error};
pub use crate::error::{Chain, Error, Result};
pub use crate::finding::{Finding, Verdict};
pub use crate::guard::{Guarded, malformed, refusals, stand_in_clashes};
pub use crate::receipt::{IsolationReport, Receipt, SandboxEnvironment, backend_label};
