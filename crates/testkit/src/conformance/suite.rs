//! The cases as values, for callers with a harness of their own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use namzu_core::{Backend, Result};
use tokio::time::timeout;

use crate::conformance::bench::Bench;
use crate::conformance::case::{Case, When};
use crate::conformance::{
    egress, exec, files, isolation, lifecycle, limits, output, processes, receipt, tar, terminal,
    tunnels, watch, workspace,
};

const THEMES: &[&[Case]] = &[
    lifecycle::CASES,
    exec::CASES,
    output::CASES,
    processes::CASES,
    terminal::CASES,
    workspace::CASES,
    files::CASES,
    tar::CASES,
    watch::CASES,
    limits::CASES,
    egress::CASES,
    egress::listed::CASES,
    egress::carried::CASES,
    egress::change::CASES,
    egress::secrets::CASES,
    isolation::CASES,
    tunnels::CASES,
    receipt::CASES,
];

/// Every case over one backend.
#[derive(Clone)]
pub struct Suite {
    bench: Arc<Bench>,
}

/// How a case went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The claim holds.
    Passed,
    /// It does not, for this reason.
    Failed(String),
    /// The backend does not declare it.
    NotApplicable(String),
    /// It applies, but something to test it with is missing here.
    Unavailable(String),
}

/// One case, before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// `theme::claim`.
    pub name: &'static str,
    /// Set when it will not run.
    pub outcome: Option<Outcome>,
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suite")
            .field("bench", &self.bench)
            .finish_non_exhaustive()
    }
}

impl Suite {
    /// The suite over `backend`, which it makes one sandbox on to see what there is to test with.
    ///
    /// # Errors
    ///
    /// Whatever making that sandbox, or a command in it, fails with.
    pub async fn open(backend: Arc<dyn Backend>) -> Result<Self> {
        Self::open_with(backend, Duration::from_secs(300)).await
    }

    /// As [`Self::open`], with the time after which a case counts as hung. A step inside a case
    /// counts as hung after a tenth of it.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub async fn open_with(backend: Arc<dyn Backend>, patience: Duration) -> Result<Self> {
        let bench = Bench::open(backend, patience / 10).await?;
        Ok(Self {
            bench: Arc::new(bench),
        })
    }

    /// Every case, with what is already known about it.
    #[must_use]
    pub fn plan(&self) -> Vec<Planned> {
        THEMES
            .iter()
            .copied()
            .flatten()
            .map(|case| Planned {
                name: case.name,
                outcome: self.excused(case),
            })
            .collect()
    }

    fn excused(&self, case: &Case) -> Option<Outcome> {
        match (case.when)(&self.bench) {
            When::Runs => None,
            When::NotApplicable(why) => Some(Outcome::NotApplicable(why)),
            When::Unavailable(why) => Some(Outcome::Unavailable(why)),
        }
    }

    /// Runs the case of that name.
    pub async fn run(&self, name: &str) -> Outcome {
        let Some(case) = THEMES
            .iter()
            .copied()
            .flatten()
            .find(|case| case.name == name)
        else {
            return Outcome::NotApplicable(format!("there is no case `{name}`"));
        };
        if let Some(outcome) = self.excused(case) {
            return outcome;
        }
        let bench = Arc::clone(&self.bench);
        let (mut alone, mut shared) = (None, None);
        if case.alone {
            alone = Some(self.bench.quiet.write().await);
        } else {
            shared = Some(self.bench.quiet.read().await);
        }
        let outcome = match timeout(self.bench.patience * 10, (case.run)(bench)).await {
            Ok(Ok(())) => Outcome::Passed,
            Ok(Err(failure)) => Outcome::Failed(failure.to_string()),
            Err(_) => Outcome::Failed(format!(
                "it hung: no verdict within {:?}",
                self.bench.patience * 10
            )),
        };
        drop((alone, shared));
        outcome
    }
}
