//! What was decided and what flowed, one JSON line each, chained by hashes.

use std::fmt::Debug;

/// Where audit lines go.
pub trait AuditSink: Debug + Send + Sync {
    /// Writes one line, without a line end.
    ///
    /// # Errors
    ///
    /// Those of the medium; the boundary then denies what it cannot record.
    fn write(&self, line: &[u8]) -> std::io::Result<()>;
}

/// Writes audit lines; by default nowhere.
#[derive(Clone, Debug, Default)]
pub struct Audit {}
