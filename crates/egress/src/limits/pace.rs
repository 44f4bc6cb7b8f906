//! So many in a second, with a burst.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::locked;

/// Counts against a rate: keeps the time by which all that was let through would have been through at an
/// even pace.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Option<Instant>>);

impl Pace {
    /// Lets one more through, which takes `each`, where the even pace then lies no more than `burst` ahead.
    ///
    /// # Errors
    ///
    /// How long it has to wait, if nobody else is faster. It does not count.
    pub(crate) fn take(&self, each: Duration, burst: Duration) -> Result<(), Duration> {
        let now = Instant::now();
        let mut even = locked(&self.0);
        let next = even.unwrap_or(now).max(now) + each;
        let early = next.duration_since(now).saturating_sub(burst);
        if !early.is_zero() {
            return Err(early);
        }
        *even = Some(next);
        Ok(())
    }

    /// Counts one that is through already, whatever the pace: those after it wait for it.
    pub(crate) fn owe(&self, each: Duration) {
        let now = Instant::now();
        let mut even = locked(&self.0);
        *even = Some(even.unwrap_or(now).max(now) + each);
    }
}
