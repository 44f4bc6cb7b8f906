//! How much one sandbox may let flow. Each has meters of its own, so one's excess is nobody else's.

mod pace;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use namzu_types::EgressLimits;
use tokio::time::Instant;

pub(crate) use self::pace::Pace;
use crate::lock::locked;
use crate::{Name, Reason};

const FLOWS: u32 = 256;
const FLOWS_PER_SECOND: u32 = 200;
const NAMES_PER_MINUTE: u32 = 60;
const MINUTE: Duration = Duration::from_secs(60);
/// Connections from inside that may be open beside those that are flows: an idle proxy connection, one
/// whose head is awaited.
const IDLE_CONNECTIONS: u64 = 256;
/// HTTP/2 connections that end here at once. Each may hold some 7 MiB of bodies that the program inside
/// does not take, or that the outside does not.
const HTTP2: u64 = 32;

/// The meters of one sandbox.
#[derive(Debug)]
pub(crate) struct Limiter {
    caps: Mutex<Caps>,
    flows: AtomicU64,
    connections: AtomicU64,
    http2: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
    /// Kept apart from the lock: they are asked for each piece that is carried.
    most_up: AtomicU64,
    most_down: AtomicU64,
    pace: Pace,
    names: Mutex<HashMap<Name, Instant>>,
}

#[derive(Clone, Copy, Debug)]
struct Caps {
    flows: u64,
    per_second: u32,
    names: usize,
}

/// What is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    limiter: Arc<Limiter>,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Flow,
    Connection,
    Http2,
}

/// What `policy` says, and for what it leaves out what `defaults` says.
pub(crate) fn over(policy: &EgressLimits, defaults: &EgressLimits) -> EgressLimits {
    EgressLimits {
        flows: policy.flows.or(defaults.flows),
        flows_per_second: policy.flows_per_second.or(defaults.flows_per_second),
        bytes_up: policy.bytes_up.or(defaults.bytes_up),
        bytes_down: policy.bytes_down.or(defaults.bytes_down),
        names_per_minute: policy.names_per_minute.or(defaults.names_per_minute),
    }
}

impl Caps {
    fn of(limits: &EgressLimits) -> Self {
        let names = limits.names_per_minute.unwrap_or(NAMES_PER_MINUTE);
        Self {
            flows: limits.flows.unwrap_or(FLOWS).into(),
            per_second: limits.flows_per_second.unwrap_or(FLOWS_PER_SECOND),
            names: usize::try_from(names).unwrap_or(usize::MAX),
        }
    }
}

impl Default for Limiter {
    fn default() -> Self {
        Self::new(&EgressLimits::default())
    }
}

impl Limiter {
    pub(crate) fn new(limits: &EgressLimits) -> Self {
        Self {
            caps: Mutex::new(Caps::of(limits)),
            flows: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            http2: AtomicU64::new(0),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            most_up: AtomicU64::new(limits.bytes_up.unwrap_or(u64::MAX)),
            most_down: AtomicU64::new(limits.bytes_down.unwrap_or(u64::MAX)),
            pace: Pace::default(),
            names: Mutex::default(),
        }
    }

    /// Puts other limits in force. What is open already stays open; bytes stay counted.
    pub(crate) fn set(&self, limits: &EgressLimits) {
        *locked(&self.caps) = Caps::of(limits);
        self.most_up
            .store(limits.bytes_up.unwrap_or(u64::MAX), Relaxed);
        self.most_down
            .store(limits.bytes_down.unwrap_or(u64::MAX), Relaxed);
    }

    /// One more flow: it counts until the permit is dropped, and against the rate.
    ///
    /// # Errors
    ///
    /// [`Reason::TooManyFlows`], [`Reason::TooFast`], [`Reason::QuotaUsed`].
    pub(crate) fn flow(self: &Arc<Self>) -> Result<Permit, Reason> {
        let caps = *locked(&self.caps);
        self.quota()?;
        let permit = self
            .take(What::Flow, caps.flows)
            .ok_or(Reason::TooManyFlows)?;
        self.pace(caps.per_second)?;
        Ok(permit)
    }

    /// One more connection from inside to a door, whatever comes of it.
    ///
    /// # Errors
    ///
    /// [`Reason::TooManyFlows`].
    pub(crate) fn connection(self: &Arc<Self>) -> Result<Permit, Reason> {
        let most = locked(&self.caps).flows.saturating_add(IDLE_CONNECTIONS);
        self.take(What::Connection, most)
            .ok_or(Reason::TooManyFlows)
    }

    /// One more HTTP/2 connection that ends here; `None` where there are as many as there may be.
    pub(crate) fn http2(self: &Arc<Self>) -> Option<Permit> {
        self.take(What::Http2, HTTP2)
    }

    /// One more look-up of `name`. Only different names count: a program that asks again learns and tells
    /// nothing new.
    ///
    /// # Errors
    ///
    /// [`Reason::TooFast`].
    pub(crate) fn name(&self, name: &Name) -> Result<(), Reason> {
        let most = locked(&self.caps).names;
        let now = Instant::now();
        let mut names = locked(&self.names);
        if let Some(asked) = names.get_mut(name)
            && now.duration_since(*asked) < MINUTE
        {
            return Ok(());
        }
        if names.len() >= most {
            names.retain(|_, asked| now.duration_since(*asked) < MINUTE);
        }
        if names.len() >= most {
            return Err(Reason::TooFast);
        }
        names.insert(name.clone(), now);
        Ok(())
    }

    /// Counts bytes out of the sandbox.
    ///
    /// # Errors
    ///
    /// [`Reason::QuotaUsed`] once they are more than may be.
    pub(crate) fn up(&self, bytes: u64) -> Result<(), Reason> {
        count(&self.up, &self.most_up, bytes)
    }

    /// Counts bytes into the sandbox.
    ///
    /// # Errors
    ///
    /// [`Reason::QuotaUsed`] once they are more than may be.
    pub(crate) fn down(&self, bytes: u64) -> Result<(), Reason> {
        count(&self.down, &self.most_down, bytes)
    }

    /// Whether nothing may be carried any more.
    fn quota(&self) -> Result<(), Reason> {
        let used = |count: &AtomicU64, most: &AtomicU64| {
            let most = most.load(Relaxed);
            most != u64::MAX && count.load(Relaxed) >= most
        };
        if used(&self.up, &self.most_up) || used(&self.down, &self.most_down) {
            return Err(Reason::QuotaUsed);
        }
        Ok(())
    }

    fn counter(&self, what: What) -> &AtomicU64 {
        match what {
            What::Flow => &self.flows,
            What::Connection => &self.connections,
            What::Http2 => &self.http2,
        }
    }

    fn take(self: &Arc<Self>, what: What, most: u64) -> Option<Permit> {
        self.counter(what)
            .fetch_update(Relaxed, Relaxed, |now| (now < most).then(|| now + 1))
            .ok()?;
        Some(Permit {
            limiter: Arc::clone(self),
            what,
        })
    }

    /// One more at `per_second`, with a burst of what a second allows.
    fn pace(&self, per_second: u32) -> Result<(), Reason> {
        let second = Duration::from_secs(1);
        let each = second.checked_div(per_second).ok_or(Reason::TooFast)?;
        self.pace.take(each, second).map_err(|_| Reason::TooFast)
    }
}

fn count(counter: &AtomicU64, most: &AtomicU64, bytes: u64) -> Result<(), Reason> {
    let before = counter.fetch_add(bytes, Relaxed);
    if before.saturating_add(bytes) > most.load(Relaxed) {
        return Err(Reason::QuotaUsed);
    }
    Ok(())
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.counter(self.what).fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(json: &str) -> Arc<Limiter> {
        Arc::new(Limiter::new(&serde_json::from_str(json).unwrap()))
    }

    #[test]
    fn flows_at_once_are_bounded_and_come_back() {
        let limiter = limiter(r#"{"flows": 2}"#);
        let held = (limiter.flow().unwrap(), limiter.flow().unwrap());
        assert_eq!(limiter.flow().unwrap_err(), Reason::TooManyFlows);
        drop(held.0);
        limiter.flow().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_allows_its_share_and_no_more() {
        let limiter = limiter(r#"{"flowsPerSecond": 4}"#);
        for _ in 0..4 {
            limiter.flow().unwrap();
        }
        assert_eq!(limiter.flow().unwrap_err(), Reason::TooFast);
        tokio::time::advance(Duration::from_millis(251)).await;
        limiter.flow().unwrap();
        assert_eq!(limiter.flow().unwrap_err(), Reason::TooFast);
        tokio::time::advance(Duration::from_secs(10)).await;
        for _ in 0..4 {
            limiter.flow().unwrap();
        }
        assert_eq!(limiter.flow().unwrap_err(), Reason::TooFast);
    }

    #[test]
    fn a_rate_of_nothing_lets_nothing_through() {
        let limiter = limiter(r#"{"flowsPerSecond": 0}"#);
        assert_eq!(limiter.flow().unwrap_err(), Reason::TooFast);
    }

    #[test]
    fn a_quota_ends_what_runs_and_what_would_begin() {
        let limiter = limiter(r#"{"bytesUp": 10, "bytesDown": 5}"#);
        limiter.up(10).unwrap();
        assert_eq!(limiter.up(1).unwrap_err(), Reason::QuotaUsed);
        assert_eq!(limiter.flow().unwrap_err(), Reason::QuotaUsed);
        limiter.set(&EgressLimits::default());
        limiter.up(u64::MAX / 2).unwrap();
        limiter.flow().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn only_different_names_count() {
        let limiter = limiter(r#"{"namesPerMinute": 2}"#);
        let name = |text: &str| Name::parse(text).unwrap();
        for _ in 0..10 {
            limiter.name(&name("a.example")).unwrap();
            limiter.name(&name("b.example")).unwrap();
        }
        assert_eq!(
            limiter.name(&name("c.example")).unwrap_err(),
            Reason::TooFast
        );
        tokio::time::advance(MINUTE).await;
        limiter.name(&name("c.example")).unwrap();
    }

    #[test]
    fn connections_that_ask_for_nothing_are_bounded_too() {
        let limiter = limiter(r#"{"flows": 1}"#);
        let held: Vec<_> = std::iter::from_fn(|| limiter.connection().ok())
            .take(10_000)
            .collect();
        assert_eq!(held.len(), 257);
        drop(held);
        limiter.connection().unwrap();
    }

    #[test]
    fn connections_that_hold_much_are_fewer() {
        let limiter = limiter("{}");
        let held: Vec<_> = std::iter::from_fn(|| limiter.http2()).take(1000).collect();
        assert_eq!(held.len(), 32);
        drop(held);
        limiter.http2().unwrap();
    }
}
