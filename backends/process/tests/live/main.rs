//! Attacks on live sandboxes, and what must work in them. Each test is a claim of the threat model.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod channel;
mod crash;
mod detach;
mod doors;
mod filesystem;
mod host_workspace;
mod kernel;
mod limits;
mod network;
mod ordinary;
mod refusals;
mod support;
mod toolchains;
