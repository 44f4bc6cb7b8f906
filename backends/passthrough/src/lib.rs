//! The passthrough tier: the worker runs on the host as it is, behind no wall at all.
//!
//! For tests and for code that is trusted. It has to be named; nothing falls back to it.
#![forbid(unsafe_code)]

mod config;
mod error;

#[cfg(target_os = "linux")]
mod backend;

#[cfg(target_os = "linux")]
pub use crate::backend::PassthroughBackend;
pub use crate::config::{Config, NAME};
