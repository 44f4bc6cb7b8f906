//! Secrets: kept on the host, put into requests where a rule says so, taken out of what comes back.

/// The secrets of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Broker {}
