//! The resolver of a policy: asked by one at a time, for a moment believed, and a denial if it fails.

use std::sync::Arc;
use std::time::Duration;

use namzu_core::{Chain, source};
use namzu_types::ValueSource;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::metrics::Metrics;

/// How long it may take.
const DEADLINE: Duration = Duration::from_secs(2);
/// How long an answer holds.
pub(super) const BELIEVED: Duration = Duration::from_secs(5);
/// How long a failure holds, so that a sandbox cannot keep a program of the host running.
const FAILED: Duration = Duration::from_secs(1);

/// Where the list of a policy comes from.
pub(super) struct Source {
    from: ValueSource,
    last: Mutex<Option<Answered>>,
}

/// What it last said, and when. `None`: it failed.
type Answered = (Instant, Option<Arc<[String]>>);

impl Source {
    pub(super) fn new(from: ValueSource) -> Self {
        Self {
            from,
            last: Mutex::new(None),
        }
    }

    /// The list: one host a line. `None` when it failed.
    ///
    /// # Cancel safety
    ///
    /// Whoever waits next asks again.
    pub(super) async fn hosts(&self, metrics: &Metrics) -> Option<Arc<[String]>> {
        // Whoever comes while one asks waits here, and then finds the answer.
        let mut last = self.last.lock().await;
        if let Some((when, hosts)) = &*last {
            let holds = if hosts.is_some() { BELIEVED } else { FAILED };
            if when.elapsed() < holds {
                return hosts.clone();
            }
        }
        let answer = ask(self.from.clone()).await;
        metrics.resolvers.count(&answer);
        let hosts = match answer {
            Ok(text) => Some(text.lines().map(str::trim).map(str::to_owned).collect()),
            Err(why) => {
                tracing::warn!(%why, "the resolver of an egress policy failed");
                None
            }
        };
        *last = Some((Instant::now(), hosts.clone()));
        hosts
    }
}

/// In a task of its own: a closure that panics, or blocks its thread, fails and nothing more.
async fn ask(from: ValueSource) -> Result<String, String> {
    let mut task = JoinSet::new();
    task.spawn(async move { source::resolve(&from, DEADLINE).await });
    match timeout(DEADLINE, task.join_next()).await {
        Ok(Some(Ok(Ok(list)))) => Ok(list.expose().to_owned()),
        Ok(Some(Ok(Err(why)))) => Err(Chain(&why).to_string()),
        Ok(Some(Err(_)) | None) => Err("it panicked".to_owned()),
        Err(_) => Err(format!("it took longer than {} s", DEADLINE.as_secs())),
    }
}
