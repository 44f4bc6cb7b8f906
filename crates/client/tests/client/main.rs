//! The client against a worker that plays its part badly, and against the real one.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod carriers;
mod egress;
mod exec;
mod fake;
mod hostile;
mod http;
mod lane;
mod leaks;
mod provider;
mod real;
