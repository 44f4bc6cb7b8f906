//! HTTP/1.1 between programs inside and the outside: one strict reading of each head, rewritten and sent on.
//!
//! ```text
//!  client ─ scan ─ head ─► Ask ─► Place::admit ─► broker ─► pool or dial ─ exchange ─► server
//!         ◄──────────────── write ◄──────── pump, scrub ◄──────── response ◄─ scan ─
//! ```
//!
//! Nothing is passed on as it came: heads are written anew, chunks are framed anew, trailers and what
//! concerns one hop end here.

pub(crate) mod body;
mod client;
mod exchange;
pub(crate) mod fields;
pub(crate) mod head;
pub(crate) mod pool;
mod pump;
pub(crate) mod response;
pub(crate) mod scan;
mod serve;
pub(crate) mod server;
pub(crate) mod target;
mod write;

pub(crate) use self::serve::{is_connect, read_connect, serve};
pub(crate) use self::write::{host_field, refusal};
use crate::{Host, Scheme};

/// What a connection may ask for.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// Anything, in absolute form: it came to the proxy port.
    Proxy,
    /// Only this, in origin form: it is what the connection was opened for.
    Fixed {
        host: Host,
        port: u16,
        scheme: Scheme,
    },
}
