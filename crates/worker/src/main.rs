//! The worker: the one program inside a sandbox, serving the four wires of `docs/protocol.md`.

mod auth;
mod config;
mod files;
mod http;
mod process;
mod router;
mod rpc;
mod user;
mod v1;
mod worker;

fn main() {}
