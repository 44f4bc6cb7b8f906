//! What a look at this host finds.

use std::fmt;

use serde::Serialize;

/// One thing that a backend looked at on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The backend's label, e.g. `process:bubblewrap`.
    pub backend: String,
    /// What was looked at, e.g. `user namespaces`.
    pub subject: String,
    /// Whether it is as the backend needs it.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What a person can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Whether something is as a backend needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is.
    Ok,
    /// The backend works with less: something is held less firmly or not at all.
    Warning,
    /// The backend cannot work.
    Problem,
}

impl Verdict {
    /// The wire form, e.g. `warning`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
