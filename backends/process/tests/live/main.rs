//! Attacks on live sandboxes, and what must work in them. Each test is a claim of the threat model.

mod crash;
mod detach;
mod filesystem;
mod kernel;
mod limits;
mod network;
mod refusals;
mod support;
mod toolchains;
