//! The process tier: namespaces around a process tree on the caller's own Linux.
//!
//! The worker is PID 1 of one long-lived sandbox that `bwrap` builds: a root of its own with
//! nothing of the host but its programs, read-only; a network namespace with nothing but `lo`; a
//! system-call filter; cgroups or rlimits. Commands are the worker's children, so each costs what
//! it costs outside.
#![deny(unsafe_code)]

mod config;
mod error;

#[cfg(target_os = "linux")]
mod backend;
#[cfg(target_os = "linux")]
mod bubblewrap;
#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod diagnose;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod seccomp;

#[cfg(target_os = "linux")]
pub use crate::backend::ProcessBackend;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use crate::bubblewrap::channel::ChannelDoors;
#[cfg(target_os = "linux")]
pub use crate::bubblewrap::jail::{NetworkJail, own_environment};
pub use crate::config::{Config, Engine, NAME};
#[cfg(target_os = "linux")]
pub use crate::diagnose::diagnose;
