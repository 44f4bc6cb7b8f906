//! How much one sandbox may let flow.

/// The meters of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Limiter {}
