//! The wires between host and worker, without I/O: bytes in, typed messages out, and back.
//!
//! Four wires are spoken (see `docs/protocol.md`): envd's Connect RPC ([`process`],
//! [`filesystem`], [`connect`]), v1 over HTTP and over frames ([`v1`]), and our own extension
//! ([`ext`]). Both ends use these types, so what one writes the other reads.
//!
//! # Security
//!
//! Every byte that comes from a sandbox is hostile. All decoders here take a cap, check a declared
//! length against it before they allocate, bound the number of elements of a list
//! ([`MAX_LIST_ITEMS`]), and return an error instead of panicking. They are fuzzed (`fuzz/`).
#![forbid(unsafe_code)]

pub mod connect;
pub mod ext;
pub mod filesystem;
pub mod httperror;
pub mod path_text;
pub mod permissions;
pub mod process;
pub mod query;
pub mod signature;
pub mod v1;

mod body;
mod codec;
mod json;
mod list;
mod oneof;
mod timestamp;

pub use bytes::Bytes;

pub use crate::body::{JsonBody, from_json, to_json};
pub use crate::codec::{Codec, DecodeError, WireMessage};
pub use crate::list::MAX_LIST_ITEMS;
pub use crate::timestamp::Timestamp;
