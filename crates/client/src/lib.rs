//! From a channel to a sandbox: the HTTP connection, the worker's client, `Sandbox`, its provider.
//!
//! Nothing here knows which backend it talks to. Whatever comes from the worker is hostile: its
//! messages are parsed in `namzu-protocol`, each behind a length cap.
#![forbid(unsafe_code)]

mod collect;
mod conn;
mod detail;
mod doors;
mod fault;
mod files;
mod lane;
mod messages;
mod outlet;
mod output;
mod process;
mod provider;
mod sandbox;
mod self_test;
mod tunnel;
mod worker;

pub use namzu_types::{ExecLimits, ExecRequest, ExitStatus, OutputCap, PtySize};
pub use tokio_util::sync::CancellationToken;

pub use crate::detail::oldest_cursor;
pub use crate::files::{FileInfo, FileKind, FileReader, Files, Watch, WatchEvent, WatchKind};
pub use crate::outlet::NetworkPolicy;
pub use crate::output::{Captured, ExecOutput, Usage, partial_output};
pub use crate::process::{Cursor, Ended, Event, Process, ProcessInfo, Selector, Stdin, Stream};
pub use crate::provider::{Deadlines, SandboxProvider};
pub use crate::sandbox::Sandbox;
pub use crate::tunnel::{Reach, Tunnel};
