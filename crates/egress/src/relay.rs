//! Carries bytes both ways until both ways have ended.
//!
//! An idle flow holds neither pipe nor buffer: both are borrowed from the boundary's [stock] when
//! bytes are there, and given back when none are left.

mod copy;
mod splice;
pub(crate) mod stock;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

pub(crate) use self::splice::broken;
use crate::Reason;
use crate::place::Flow;
use crate::stream::{Inside, Line};

/// How often it is looked whether anything flowed.
const TICK: Duration = Duration::from_secs(10 * 60);
/// After so many looks in a row at which nothing had, a flow ends: two hours.
const QUIET_TICKS: u32 = 12;

/// Why carrying ended before both ways had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// One of the two connections broke off.
    Broken,
    /// It had to.
    Cut(Reason),
}

/// A way through the boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// What both ways of a flow look at.
struct Meter<'a> {
    flow: &'a Flow,
    stock: &'a stock::Stock,
    moved: AtomicBool,
}

impl Meter<'_> {
    /// Counts bytes before they go on.
    fn count(&self, way: Way, bytes: usize) -> Result<(), End> {
        self.moved.store(true, Ordering::Relaxed);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        match way {
            Way::Up => self.flow.up(bytes),
            Way::Down => self.flow.down(bytes),
        }
        .map_err(End::Cut)
    }

    /// Waits until nothing has moved for too long. One timer a flow, which no byte touches.
    async fn quiet(&self) {
        let mut quiet = 0;
        while quiet < QUIET_TICKS {
            tokio::time::sleep(TICK).await;
            quiet = if self.moved.swap(false, Ordering::Relaxed) {
                0
            } else {
                quiet + 1
            };
        }
    }
}

/// Carries bytes between a program inside and the outside until both ways have ended, the flow is cut or
/// its quota is used up; `early` was read from inside already. Two TCP sockets are spliced in the kernel.
///
/// The end of one way is passed on as such; a connection that breaks off, and every cut, resets both.
#[expect(
    clippy::manual_async_fn,
    reason = "the parameters of an async function are kept twice, for as long as the tunnel lasts"
)]
pub(crate) fn carry(
    flow: Flow,
    mut inside: Inside,
    mut outside: TcpStream,
    early: impl AsRef<[u8]> + Send,
) -> impl Future<Output = ()> + Send {
    async move {
        let why = both(&flow, &mut inside, &mut outside, early).await;
        // Before the books are closed, so that whoever waits for a cut finds it done.
        drop((inside, outside));
        flow.end(why);
    }
}

/// As [`carry`], for streams of any kind that the caller then drops; says why it ended if it was not of its
/// own accord.
pub(crate) async fn both<A: Line, B: Line>(
    flow: &Flow,
    inside: &mut A,
    outside: &mut B,
    early: impl AsRef<[u8]> + Send,
) -> Option<Reason> {
    let meter = Meter {
        flow,
        stock: &flow.place.outside.stock,
        moved: AtomicBool::new(true),
    };
    let carried = async {
        if !early.as_ref().is_empty() {
            meter.count(Way::Up, early.as_ref().len())?;
            outside
                .write_all(early.as_ref())
                .await
                .map_err(|_| End::Broken)?;
            outside.flush().await.map_err(|_| End::Broken)?;
        }
        // A hello is kilobytes, a tunnel may be idle for hours.
        drop(early);
        match (inside.tcp(), outside.tcp()) {
            (Some(inside), Some(outside)) => splice::both(&meter, inside, outside).await,
            _ => copy::both(&meter, inside, outside).await,
        }
    };
    let ended = tokio::select! {
        biased;
        ended = carried => ended,
        why = flow.cut() => Err(End::Cut(why)),
        () = meter.quiet() => Err(End::Cut(Reason::Deadline)),
    };
    let why = match ended {
        Ok(()) => return None,
        Err(End::Broken) => None,
        Err(End::Cut(why)) => Some(why),
    };
    inside.doom();
    outside.doom();
    why
}

#[cfg(test)]
mod tests;
