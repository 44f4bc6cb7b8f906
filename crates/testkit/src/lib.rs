//! The conformance suite that every backend runs, third-party ones too, and a backend in memory.
//!
//! A backend's `tests/conformance.rs`, listed in its manifest as a `[[test]]` with
//! `harness = false`, is one call:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//!
//! use namzu_core::Backend;
//! # use namzu_testkit::fake::Fake as Mine;
//!
//! /// The backend, or why this host cannot run it.
//! fn backend() -> Result<Arc<dyn Backend>, String> {
//!     Ok(Arc::new(Mine::new()))
//! }
//!
//! fn main() -> ExitCode {
//!     namzu_testkit::conformance::main("mine", backend())
//! }
//! ```
//!
//! `cargo test -p mine --test conformance -- exec::` then runs one theme. Cases that do not apply
//! or cannot run here are shown as ignored, each with its reason in its name.
#![forbid(unsafe_code)]

mod archive;
pub mod conformance;
pub mod fake;
#[cfg(target_os = "linux")]
pub mod network;
