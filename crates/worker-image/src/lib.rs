//! The worker's bytes, built statically for Linux by this crate's build script.
//!
//! `NAMZU_WORKER_BIN=PATH` at build time takes a worker built elsewhere instead.
#![forbid(unsafe_code)]

/// The worker: a static Linux executable. Empty where this crate is built for another system.
pub static WORKER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/worker"));

#[cfg(target_os = "linux")]
mod memfd;
#[cfg(target_os = "linux")]
pub use crate::memfd::memfd;
