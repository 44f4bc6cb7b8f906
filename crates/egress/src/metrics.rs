//! Counters, in Prometheus' text format.

/// Counters of a boundary.
#[derive(Debug, Default)]
pub struct Metrics {}
