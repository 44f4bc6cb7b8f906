//! Files between the host and a sandbox, with the sandbox as the enemy.

mod bridge;
pub(crate) mod download;
mod pack;
mod progress;
mod sparse;
mod target;
mod unpack;
pub(crate) mod upload;

use namzu_sandbox::{Error, ErrorCode, Phase};

use self::progress::Progress;

/// Deepest directory, either way: each open level of the host costs a descriptor.
const MAX_DEPTH: usize = 200;

/// How to copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Most bytes that may be written to the host.
    pub(crate) max_size: u64,
    /// Follow a symlink named on the command line.
    pub(crate) follow: bool,
    /// Show progress, where somebody can see it.
    pub(crate) progress: bool,
}

/// `path` is more than [`MAX_DEPTH`] levels deep.
fn too_deep(doing: &str, path: &[u8]) -> Error {
    let shown = String::from_utf8_lossy(&path[..path.len().min(64)]);
    Error::new(
        ErrorCode::InvalidArgument,
        format!("{doing}: `{shown}`… is more than {MAX_DEPTH} levels deep"),
    )
    .during(Phase::Files)
}
