//! One line: what is said about a decision, or the end of a flow.

use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// What a line is about.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Event {
    /// Something was asked for.
    Decision,
    /// A flow is over.
    End,
    /// Another policy is in force.
    Policy,
}

/// A line, before it is chained. What is not known is left out.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    /// Milliseconds since 1970.
    pub(crate) ts: u64,
    pub(crate) event: Event,
    pub(crate) sandbox: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flow: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) via: Option<&'static str>,
    /// What was sent where a host should have been: escaped, cut to a length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scheme: Option<crate::Scheme>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sni: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) alpn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<String>,
    /// Without a query, which often has secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) ips: &'a [IpAddr],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dialled: Option<SocketAddr>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) chain: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<&'a str>,
    /// Of the policy.
    #[serde(rename = "gen")]
    pub(crate) generation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    /// Its name, never its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) credential: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_up: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_down: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ms: Option<u64>,
    /// The flow had to end; or, of a policy, how many had to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cut: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<u64>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(event: Event, sandbox: &'a str, generation: u64) -> Self {
        Self {
            ts: now_ms(),
            event,
            sandbox,
            flow: None,
            via: None,
            raw: None,
            host: None,
            port: None,
            scheme: None,
            sni: None,
            alpn: None,
            method: None,
            path: None,
            ips: &[],
            dialled: None,
            chain: &[],
            rule: None,
            generation,
            verdict: None,
            reason: None,
            credential: None,
            bytes_up: None,
            bytes_down: None,
            ms: None,
            cut: None,
            kept: None,
        }
    }
}

impl Line<'_> {
    /// Whether something waited for its turn to be decided about, and this is what was decided.
    pub(super) fn had_its_turn(&self) -> bool {
        match self.event {
            Event::Decision => self.flow.is_none() || self.verdict == Some("allow"),
            // A change of policy is nothing that the sandbox did.
            Event::Policy => true,
            Event::End => false,
        }
    }

    /// Whether it says that nothing happened.
    pub(super) fn refuses(&self) -> bool {
        matches!(self.event, Event::Decision) && self.verdict == Some("deny")
    }
}

/// Milliseconds since 1970; 0 on a host whose clock is before that.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
