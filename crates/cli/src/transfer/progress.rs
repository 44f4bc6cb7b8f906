//! A progress bar for transfers that take long, on a terminal only.

use std::io::IsTerminal;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How long a transfer takes before anybody wants to know.
const LONG: Duration = Duration::from_secs(1);

/// Counts bytes, and shows the count once the transfer takes long.
#[derive(Clone, Debug)]
pub(crate) struct Progress(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    bar: OnceLock<ProgressBar>,
    started: Instant,
    total: Option<u64>,
    seen: std::sync::atomic::AtomicU64,
}

impl Progress {
    /// Counts towards `total` where it is known. Silent unless `wanted` and standard error is a
    /// terminal.
    pub(crate) fn new(wanted: bool, total: Option<u64>) -> Self {
        Self((wanted && std::io::stderr().is_terminal()).then(|| {
            Arc::new(Inner {
                bar: OnceLock::new(),
                started: Instant::now(),
                total,
                seen: 0.into(),
            })
        }))
    }

    /// Counts bytes.
    pub(crate) fn add(&self, bytes: u64) {
        let Some(inner) = &self.0 else { return };
        let seen = bytes
            + inner
                .seen
                .fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
        if inner.started.elapsed() >= LONG {
            inner
                .bar
                .get_or_init(|| bar(inner.total))
                .set_position(seen);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        ),
        None => (
            ProgressBar::no_length(),
            "{spinner} {bytes} {bytes_per_sec}",
        ),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
