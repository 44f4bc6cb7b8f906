//! Files between the host and a sandbox, with the sandbox as the enemy.

mod bridge;
mod depth;
pub(crate) mod download;
mod pack;
mod progress;
mod sparse;
mod target;
mod unpack;
pub(crate) mod upload;

use self::progress::Progress;

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
