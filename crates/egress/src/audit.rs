//! What was decided and what flowed, one JSON line each, chained by hashes.
//!
//! Each line carries the hash of the line before it (`prev`) and counts up (`seq`), so that a line that was
//! changed, taken out or put in is [seen](verify). Lines cut off the end are not: compare the count.
//!
//! Lines are written by a thread of their own. What is admitted waits while too many lines of its sandbox
//! do, and is denied while the medium fails: nothing is let out that cannot be recorded. Each sandbox has
//! its own room in the queue, so that one that is refused without end holds back nobody else, and turns of
//! its own, so that it cannot fill the medium for all.

mod chain;
mod file;
mod line;
mod turns;
mod writer;

use std::fmt::Debug;
use std::sync::Arc;

pub use self::chain::{VerifyError, verify, verify_rest};
pub use self::file::AuditFile;
pub(crate) use self::line::{Event, Line};
use self::turns::Turns;
use self::writer::{Room, Writer};
use crate::Reason;
use crate::metrics::Metrics;

/// Where audit lines go.
pub trait AuditSink: Debug + Send + Sync {
    /// Writes one line, without a line end. A line whose write failed is written again: whatever of it was
    /// written must be taken back.
    ///
    /// Called by one thread that does nothing else, so it may block.
    ///
    /// # Errors
    ///
    /// Those of the medium; the boundary then denies what it cannot record.
    fn write(&self, line: &[u8]) -> std::io::Result<()>;

    /// The last line that was written, by whomever, so that the chain goes on. `None`: a new one begins.
    ///
    /// # Errors
    ///
    /// Those of the medium.
    fn last(&self) -> std::io::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

/// Writes audit lines; by default nowhere. Clones have the same room and the same turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audit(Option<Desk>);

/// Where one sandbox has its lines written.
#[derive(Clone, Debug)]
struct Desk {
    writer: Arc<Writer>,
    room: Room,
    turns: Arc<Turns>,
}

impl Audit {
    /// Writes to `sink` from now on.
    ///
    /// # Errors
    ///
    /// What it says about its last line, and those of starting a thread.
    pub(crate) fn start(sink: Arc<dyn AuditSink>, metrics: Arc<Metrics>) -> std::io::Result<Self> {
        Ok(Self(Some(Desk::at(Arc::new(Writer::start(
            sink, metrics,
        )?)))))
    }

    /// For another sandbox, with room and turns of its own.
    pub(crate) fn share(&self) -> Self {
        let desk = self.0.as_ref();
        Self(desk.map(|desk| Desk::at(Arc::clone(&desk.writer))))
    }

    /// Whether there is anybody to write to.
    pub(crate) const fn wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Waits until the sandbox may have one more decision recorded: nothing it does fills the log faster than
    /// it may. To be called before each decision, and by each that is told what was decided.
    ///
    /// # Cancel safety
    ///
    /// The turn was not taken, or is lost.
    pub(crate) async fn turn(&self) {
        if let Some(desk) = &self.0 {
            // Not part of what every flow keeps.
            Box::pin(desk.turns.take()).await;
        }
    }

    /// Waits until there is room for what will be said about one more decision.
    ///
    /// # Errors
    ///
    /// [`Reason::AuditFailed`] while nothing can be written.
    pub(crate) async fn ready(&self) -> Result<(), Reason> {
        match &self.0 {
            None => Ok(()),
            Some(desk) => desk.writer.ready(&desk.room).await,
        }
    }

    /// Writes a line.
    pub(crate) fn write(&self, line: &Line<'_>) {
        if let Some(desk) = &self.0 {
            let bytes = desk.writer.push(line, &desk.room);
            desk.turns.owe(bytes, line.had_its_turn());
        }
    }
}

impl Desk {
    fn at(writer: Arc<Writer>) -> Self {
        Self {
            writer,
            room: Room::default(),
            turns: Arc::default(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
