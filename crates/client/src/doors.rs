//! Doors that the worker serves inside and forwards over the channel.

use std::sync::Arc;

use namzu_core::{Error, ErrorCode, Result};
use namzu_egress::Egress;

use crate::worker::Worker;

/// Carries what the worker forwards to the boundary, until dropped.
pub(crate) struct Forwarding {}

impl Forwarding {
    /// Has the worker open the loopback's doors and those of `ports`.
    pub(crate) async fn start(
        worker: &Worker,
        egress: &Arc<Egress>,
        ports: &[u16],
    ) -> Result<Self> {
        let _ = (worker, egress, ports);
        Err(Error::new(
            ErrorCode::Unsupported,
            "this worker forwards no doors",
        ))
    }

    /// Has the worker open doors for more ports.
    pub(crate) async fn open(&self, ports: &[u16]) -> Result<()> {
        let _ = ports;
        Err(Error::new(
            ErrorCode::Unsupported,
            "this worker forwards no doors",
        ))
    }
}
