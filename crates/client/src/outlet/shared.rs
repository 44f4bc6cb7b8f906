//! The boundary that the sandboxes of one provider share.

use std::fmt;
use std::sync::{Arc, OnceLock};

use namzu_core::Result;
use namzu_egress::Boundary;

/// A boundary that is set up when it is first needed: most sandboxes let nothing out.
#[derive(Clone, Default)]
pub(crate) struct SharedBoundary(Arc<OnceLock<Boundary>>);

impl fmt::Debug for SharedBoundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBoundary")
            .field("set_up", &self.0.get().is_some())
            .finish()
    }
}

impl From<Boundary> for SharedBoundary {
    fn from(boundary: Boundary) -> Self {
        Self(Arc::new(OnceLock::from(boundary)))
    }
}

impl SharedBoundary {
    /// The boundary; by default one that resolves as the host does and trusts the roots it trusts.
    pub(crate) fn get(&self) -> Result<&Boundary> {
        if let Some(boundary) = self.0.get() {
            return Ok(boundary);
        }
        let fresh = Boundary::builder().build()?;
        Ok(self.0.get_or_init(|| fresh))
    }
}
