//! Which backends there are, and how each is made from its configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use namzu_client::SandboxProvider;
use namzu_core::layout::ValidLayout;
use namzu_core::{Backend, Chain, Error, ErrorCode, Phase, Result};
use namzu_types::config::BackendConfig;
use namzu_types::{Capabilities, SandboxProviderConfig, Tier};
use serde::Serialize;

/// One line for each backend: its label, its tier, and its feature with the way to make it, or
/// `unwritten`.
macro_rules! backends {
    (@state $feature:literal $sample:expr => $factory:expr) => {{
        #[cfg(feature = $feature)]
        {
            State::Built {
                factory: Arc::new($factory),
                sample: Some($sample),
            }
        }
        #[cfg(not(feature = $feature))]
        {
            State::LeftOut { feature: $feature }
        }
    }};
    (@state unwritten) => { State::NotWritten };
    ($($label:literal $tier:ident [$($state:tt)+])*) => {
        [$(($label, Tier::$tier, backends!(@state $($state)+)),)*]
    };
}

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
enum State {
    Built {
        factory: Factory,
        /// A configuration with which to ask for the capabilities; third parties give none.
        sample: Option<BackendConfig>,
    },
    LeftOut {
        feature: &'static str,
    },
    NotWritten,
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
        let entries = backends! {
            "passthrough" Passthrough [unwritten]
            "process:bubblewrap" Process [unwritten]
            "process:native" Process [unwritten]
            "process:seatbelt" Process [unwritten]
            "container:docker" Container [unwritten]
            "container:runsc" Container [unwritten]
            "container:aci-standby-pool" Container [unwritten]
            "microvm:e2b" Microvm [unwritten]
            "microvm:fly-machines" Microvm [unwritten]
            "microvm:self-hosted" Microvm [unwritten]
        };
        Self {
            entries: entries
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
        let mut feature = None;
        let mut known = false;
        for (_, entry) in candidates {
            known = true;
            match &entry.state {
                State::Built { factory, sample: _ } => return Ok(factory),
                State::LeftOut { feature: name } => feature = feature.or(Some(*name)),
                State::NotWritten => {}
            }
        }
        Err(refused(match (feature, known) {
            (Some(name), _) => {
                format!("backend `{label}` was left out of this build: feature `{name}`")
            }
            (None, true) => format!("backend `{label}` is not written yet"),
            (None, false) => format!("backend `{label}` is not known"),
        }))
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
        let (status, capabilities, reason) = match &self.state {
            State::Built {
                factory,
                sample: Some(config),
            } => match factory(BackendRequest {
                config,
                layout: None,
            }) {
                Ok(backend) => (BackendStatus::Available, Some(backend.capabilities()), None),
                Err(err) => (
                    BackendStatus::HostUnsupported,
                    None,
                    Some(Chain(&err).to_string()),
                ),
            },
            // Without a configuration nothing can be asked.
            State::Built { sample: None, .. } => (BackendStatus::Available, None, None),
            State::LeftOut { feature } => (
                BackendStatus::NotBuilt,
                None,
                Some(format!("left out of this build: feature `{feature}`")),
            ),
            State::NotWritten => (
                BackendStatus::NotWritten,
                None,
                Some("not written yet".to_owned()),
            ),
        };
        BackendInfo {
            label: label.to_owned(),
            tier: self.tier,
            status,
            capabilities,
            reason,
        }
    }
}
