//! Which backends there are, and how each is made from its configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use namzu_client::SandboxProvider;
use namzu_core::layout::ValidLayout;
use namzu_core::{Backend, Chain, Error, ErrorCode, Phase, Result};
use namzu_egress::policy::Snapshot;
use namzu_types::config::BackendConfig;
use namzu_types::{Capabilities, EgressPolicy, SandboxProviderConfig, Tier};
use serde::Serialize;

use crate::builtin;

/// What a [`Factory`] makes a backend from.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BackendRequest<'a> {
    /// The `backend` part of the configuration.
    pub config: &'a BackendConfig,
    /// The resolved layout, on the container tier.
    pub layout: Option<&'a ValidLayout>,
}

/// Makes a backend. It starts nothing, and fails with `host_unsupported` where this host cannot
/// carry the backend at all.
pub type Factory = Arc<dyn Fn(BackendRequest<'_>) -> Result<Arc<dyn Backend>> + Send + Sync>;

/// The backends that a configuration can name, by label. A value: nothing here is global.
#[derive(Clone)]
pub struct Registry {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone)]
struct Entry {
    tier: Tier,
    state: State,
}

#[derive(Clone)]
pub(crate) enum State {
    Built {
        factory: Factory,
        /// A configuration with which to ask for the capabilities; third parties give none.
        sample: Option<Box<BackendConfig>>,
    },
    Absent {
        status: BackendStatus,
        reason: &'static str,
    },
}

/// One backend, as [`Registry::backends`] lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendInfo {
    /// The label, e.g. `process:bubblewrap`.
    pub label: String,
    /// The tier.
    pub tier: Tier,
    /// Whether it can be used here.
    pub status: BackendStatus,
    /// What it can hold and do on this host, at best; absent where it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What a person can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Whether a backend can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendStatus {
    /// It can.
    Available,
    /// It is part of this build, but this host lacks what it needs.
    HostUnsupported,
    /// It was left out of this build.
    NotBuilt,
    /// Nobody has written it yet.
    NotWritten,
}

impl Registry {
    /// Every backend of this build, and the names of those that are not part of it.
    #[must_use]
    pub fn builtin() -> Self {
        Self {
            entries: builtin::backends()
                .into_iter()
                .map(|(label, tier, state)| (label.to_owned(), Entry { tier, state }))
                .collect(),
        }
    }

    /// Makes the backend called `label` with `factory` from now on, in place of what was there.
    ///
    /// A backend of one's own for a configuration that this crate knows takes that one's label,
    /// e.g. `container:docker`. One that no configuration describes needs no registry: give it to
    /// [`SandboxProvider::new`].
    #[must_use]
    pub fn with(
        mut self,
        label: impl Into<String>,
        tier: Tier,
        factory: impl Fn(BackendRequest<'_>) -> Result<Arc<dyn Backend>> + Send + Sync + 'static,
    ) -> Self {
        let state = State::Built {
            factory: Arc::new(factory),
            sample: None,
        };
        self.entries.insert(label.into(), Entry { tier, state });
        self
    }

    /// Makes the provider that `config` describes. Starts nothing.
    ///
    /// # Errors
    ///
    /// `config_invalid`, `layout_invalid`; `backend_not_available` for a backend that this build
    /// does not have; `host_unsupported`.
    pub fn provider(&self, config: &SandboxProviderConfig) -> Result<SandboxProvider> {
        config.validate()?;
        check_egress(config.default_egress.as_ref())?;
        let label = config.backend.label();
        let factory = self.factory(&label, config.backend.tier())?;
        let layout = config.layout.as_ref().map(ValidLayout::new).transpose()?;
        let request = BackendRequest {
            config: &config.backend,
            layout: layout.as_ref(),
        };
        let backend = factory(request).map_err(|err| err.on(&label).during(Phase::Configure))?;
        Ok(SandboxProvider::new(backend, config.defaults()).with_label(label))
    }

    fn factory(&self, label: &str, tier: Tier) -> Result<&Factory> {
        let refused = |why: String| {
            let there: Vec<&str> = self.built().collect();
            let hint = if there.is_empty() {
                "this build has no backend at all".to_owned()
            } else {
                format!("this build has {}", there.join(", "))
            };
            Error::new(ErrorCode::BackendNotAvailable, why)
                .with_hint(hint)
                .on(label)
                .during(Phase::Configure)
        };
        // `auto` is the choice of whichever engine is there; the backend itself chooses.
        let candidates = self.entries.iter().filter(|(known, entry)| {
            known.as_str() == label || (label == "process:auto" && entry.tier == tier)
        });
        let mut why = "is not known";
        for (_, entry) in candidates {
            match &entry.state {
                State::Built { factory, sample: _ } => return Ok(factory),
                // What was left out is there for the asking, what is not written is not.
                State::Absent {
                    status: BackendStatus::NotBuilt,
                    reason,
                } => why = reason,
                State::Absent { reason, status: _ } if why == "is not known" => why = reason,
                State::Absent { .. } => {}
            }
        }
        Err(refused(format!("backend `{label}` {why}")))
    }

    fn built(&self) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .filter(|(_, entry)| matches!(entry.state, State::Built { .. }))
            .map(|(label, _)| label.as_str())
    }

    /// Every backend that a configuration can name, with what it can do on this host.
    #[must_use]
    pub fn backends(&self) -> Vec<BackendInfo> {
        self.entries
            .iter()
            .map(|(label, entry)| entry.info(label))
            .collect()
    }
}

/// Refuses a policy at once that every sandbox made with it would be refused for.
fn check_egress(policy: Option<&EgressPolicy>) -> Result<()> {
    let Some(policy @ EgressPolicy::Static { .. }) = policy else {
        return Ok(());
    };
    Snapshot::compile(policy, 0).map(drop).map_err(|reasons| {
        let located = reasons
            .into_iter()
            .map(|reason| format!("`defaultEgress`: {reason}"))
            .collect();
        Error::new(ErrorCode::ConfigInvalid, "invalid configuration")
            .with_reasons(located)
            .during(Phase::Configure)
    })
}

impl Default for Registry {
    /// [`Registry::builtin`].
    fn default() -> Self {
        Self::builtin()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.built()).finish()
    }
}

impl Entry {
    fn info(&self, label: &str) -> BackendInfo {
        let mut info = BackendInfo {
            label: label.to_owned(),
            tier: self.tier,
            status: BackendStatus::Available,
            capabilities: None,
            reason: None,
            fix: None,
        };
        match &self.state {
            State::Built {
                factory,
                sample: Some(config),
            } => match factory(BackendRequest {
                config,
                layout: None,
            }) {
                Ok(backend) => info.capabilities = Some(backend.capabilities()),
                Err(err) => {
                    info.status = BackendStatus::HostUnsupported;
                    info.reason = Some(Chain(&err).to_string());
                    info.fix = err.hint().map(str::to_owned);
                }
            },
            // Without a configuration nothing can be asked.
            State::Built { sample: None, .. } => {}
            State::Absent { status, reason } => {
                info.status = *status;
                info.reason = Some((*reason).to_owned());
            }
        }
        info
    }
}
