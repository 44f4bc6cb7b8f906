//! How fast one sandbox may fill the audit log.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::limits::Pace;

/// The bytes of a piece of the log. Most lines fit into one.
const PIECE: usize = 512;
/// What a piece takes, so that a sandbox may fill half a megabyte in a second.
const EACH: Duration = Duration::from_millis(1);
/// How much of that it may be ahead.
const BURST: Duration = Duration::from_secs(4);

/// The turns of one sandbox. Whoever has none waits for one: no line is lost by it.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pace: Pace,
    /// Held by whoever is next. It is fair, and who gives up waiting has taken nothing.
    next: Mutex<()>,
}

impl Turns {
    /// Waits until one more line may be written, and counts a piece for it. Those who wait do so in the order
    /// they came, each no longer than those before it take.
    ///
    /// # Cancel safety
    ///
    /// Nothing was counted.
    pub(super) async fn take(&self) {
        let _next = self.next.lock().await;
        while let Err(early) = self.pace.take(EACH, BURST) {
            sleep(early).await;
        }
    }

    /// Counts what a line of so many bytes takes; `taken`: beyond the piece that was counted for it when its
    /// turn came. Nobody waits here, but whoever is next does.
    pub(super) fn owe(&self, bytes: usize, taken: bool) {
        let pieces = bytes.div_ceil(PIECE).saturating_sub(usize::from(taken));
        self.pace
            .owe(EACH * u32::try_from(pieces).unwrap_or(u32::MAX));
    }
}
