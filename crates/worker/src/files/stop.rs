//! Blocking work on its own thread that ends when nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fail::{Fail, Kind, Outcome};

/// Tells blocking work that its caller is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// An error once the caller is gone.
    pub(crate) fn check(&self) -> Outcome<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Fail::new(Kind::Internal, "the caller went away"));
        }
        Ok(())
    }
}

struct OnDrop(Stop);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` where it may block.
///
/// # Cancel safety
/// Dropping the future tells the work to stop at its next [`Stop::check`]; what it did remains.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Stop) -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    let guard = OnDrop(Stop::default());
    let stop = guard.0.clone();
    match tokio::task::spawn_blocking(move || work(&stop)).await {
        Ok(outcome) => outcome,
        Err(error) => Err(Fail::new(
            Kind::Internal,
            format!("the work failed: {error}"),
        )),
    }
}
