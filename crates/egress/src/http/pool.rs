//! Idle connections to the outside that a later request of the same sandbox may use.

/// Idle connections of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Pool {}
