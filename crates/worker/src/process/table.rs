//! The commands of one worker.

/// Commands by pid and tag, running and lately exited.
#[derive(Debug, Default)]
pub(crate) struct Table {}
