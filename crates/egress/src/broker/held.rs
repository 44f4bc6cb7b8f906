//! The value of one secret as it is now: read again when its source may have changed.

use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use namzu_core::{Chain, source};
use namzu_types::{Secret, ValueSource};
use tokio::time::Instant;

use super::form::{Ready, Usage};
use crate::lock::locked;

/// How long a source may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// How long an environment variable, a file, or that there is no value, is not looked at again.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a program or a closure is not asked again.
const ASK_EVERY: Duration = Duration::from_secs(60);

/// A secret with its source.
pub(super) struct Held {
    source: ValueSource,
    usage: Usage,
    state: Mutex<State>,
    /// Held by whoever asks the source: one at a time.
    asking: tokio::sync::Mutex<()>,
}

struct State {
    /// `None` while the source gives no value.
    ready: Option<Arc<Ready>>,
    looked: Instant,
    stamp: Option<Stamp>,
}

/// What tells one version of a file from another, without reading it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    async fn of(source: &ValueSource) -> Option<Self> {
        let ValueSource::File(path) = source else {
            return None;
        };
        let found = tokio::fs::metadata(path).await.ok()?;
        Some(Self {
            file: (found.dev(), found.ino()),
            bytes: found.size(),
            written: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

impl Held {
    /// Asks `source` for the first time; `usage` may depend on what it says.
    ///
    /// # Errors
    ///
    /// Why there is no value that can be used, without showing it.
    pub(super) async fn load(
        source: ValueSource,
        usage: impl FnOnce(&Secret) -> Result<Usage, String>,
    ) -> Result<Arc<Self>, String> {
        let stamp = Stamp::of(&source).await;
        let secret = resolve(&source).await?;
        let usage = usage(&secret)?;
        let ready = usage
            .prepare(secret)
            .map_err(|why| format!("the secret cannot be used: {why}"))?;
        Ok(Arc::new(Self {
            source,
            usage,
            state: Mutex::new(State {
                ready: Some(Arc::new(ready)),
                looked: Instant::now(),
                stamp,
            }),
            asking: tokio::sync::Mutex::default(),
        }))
    }

    pub(super) const fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The value as it is now. `None`: the source gives none.
    pub(super) async fn current(self: &Arc<Self>) -> Option<Arc<Ready>> {
        if let Some(known) = self.known() {
            return known;
        }
        // A task of its own: a request that is given up neither ends the asking nor, by that, lets a
        // sandbox have the source asked as often as it likes.
        let held = Arc::clone(self);
        tokio::spawn(async move { held.refresh().await })
            .await
            .ok()
            .flatten()
    }

    /// What is known, if that is still good.
    fn known(&self) -> Option<Option<Arc<Ready>>> {
        let state = locked(&self.state);
        let good = match (&self.source, &state.ready) {
            (_, None) => LOOK_EVERY,
            (ValueSource::Value(_), Some(_)) => Duration::MAX,
            (ValueSource::Env(_) | ValueSource::File(_), Some(_)) => LOOK_EVERY,
            (_, Some(_)) => ASK_EVERY,
        };
        (state.looked.elapsed() < good).then(|| state.ready.clone())
    }

    async fn refresh(&self) -> Option<Arc<Ready>> {
        let _turn = self.asking.lock().await;
        if let Some(known) = self.known() {
            return known;
        }
        // Before the file is read: what is written meanwhile is seen the next time.
        let stamp = Stamp::of(&self.source).await;
        if stamp.is_some() {
            let mut state = locked(&self.state);
            if state.stamp == stamp && state.ready.is_some() {
                state.looked = Instant::now();
                return state.ready.clone();
            }
        }
        let ready = self.read().await.map(Arc::new);
        let mut state = locked(&self.state);
        match &ready {
            Err(why) if state.ready.is_some() => {
                tracing::warn!("a credential has no value now: {why}");
            }
            Ok(_) if state.ready.is_none() => tracing::info!("a credential has a value again"),
            Ok(_) | Err(_) => {}
        }
        *state = State {
            ready: ready.ok(),
            looked: Instant::now(),
            stamp,
        };
        state.ready.clone()
    }

    async fn read(&self) -> Result<Ready, String> {
        let secret = resolve(&self.source).await?;
        self.usage.prepare(secret).map_err(str::to_owned)
    }
}

async fn resolve(source: &ValueSource) -> Result<Secret, String> {
    source::resolve(source, DEADLINE)
        .await
        .map_err(|err| Chain(&err).to_string())
}
