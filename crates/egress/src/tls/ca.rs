//! The certificate authority of one sandbox: made with it, kept in memory, gone with it.

/// An authority.
pub(crate) struct Ca {}
