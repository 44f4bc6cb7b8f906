//! One claim about a backend, and when it can be put to the test.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::conformance::bench::Bench;
use crate::conformance::check::Verdict;

/// A case on its way.
pub(crate) type Running = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// One claim.
pub(crate) struct Case {
    /// `theme::claim`.
    pub(crate) name: &'static str,
    /// Whether it applies to this backend and can be tested here.
    pub(crate) when: fn(&Bench) -> When,
    /// Tests it.
    pub(crate) run: fn(Arc<Bench>) -> Running,
    /// It measures this process, so nothing else may run beside it.
    pub(crate) alone: bool,
}

/// Whether a case runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// It does.
    Runs,
    /// The backend does not declare it: the case of the other side runs instead.
    NotApplicable(String),
    /// It applies, but something to test it with is missing here.
    Unavailable(String),
}

impl When {
    /// Runs if the backend declares `what`.
    pub(crate) fn declared(yes: bool, what: &str) -> Self {
        if yes {
            Self::Runs
        } else {
            Self::NotApplicable(format!("{what} not declared"))
        }
    }

    /// Runs if the backend does not declare `what`: the other side of [`Self::declared`].
    pub(crate) fn undeclared(no: bool, what: &str) -> Self {
        if no {
            Self::NotApplicable(format!("{what} declared"))
        } else {
            Self::Runs
        }
    }

    /// Runs if `yes`; otherwise `lack` is missing here.
    pub(crate) fn available(yes: bool, lack: &str) -> Self {
        if yes {
            Self::Runs
        } else {
            Self::Unavailable(lack.to_owned())
        }
    }

    /// Runs if both do; what does not apply wins over what is not available.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::NotApplicable(why), _) | (_, Self::NotApplicable(why)) => {
                Self::NotApplicable(why)
            }
            (Self::Unavailable(why), _) | (_, Self::Unavailable(why)) => Self::Unavailable(why),
            (Self::Runs, Self::Runs) => Self::Runs,
        }
    }
}

/// Runs on every backend.
pub(crate) const fn always(_: &Bench) -> When {
    When::Runs
}

/// Lists the function `$claim` as the case `$theme::$claim`.
macro_rules! case {
    ($theme:literal, $claim:ident, $when:expr) => {
        $crate::conformance::case::case!($theme, $claim, $when, false)
    };
    ($theme:literal, $claim:ident, $when:expr, alone) => {
        $crate::conformance::case::case!($theme, $claim, $when, true)
    };
    ($theme:literal, $claim:ident, $when:expr, $alone:literal) => {
        $crate::conformance::case::Case {
            name: concat!($theme, "::", stringify!($claim)),
            when: $when,
            run: |bench| Box::pin($claim(bench)),
            alone: $alone,
        }
    };
}

pub(crate) use case;
