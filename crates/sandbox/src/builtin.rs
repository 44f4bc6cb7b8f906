//! The backends of this build: one line each.

use namzu_types::Tier;

use crate::registry::{BackendStatus, State};

/// The label, the tier, and either `unwritten`, or the feature with a configuration to ask for the
/// capabilities and the way to make a backend from one. Those written so far need Linux.
macro_rules! backends {
    (@state $label:literal $feature:literal $variant:ident($sample:expr) => $make:expr) => {{
        #[cfg(all(feature = $feature, target_os = "linux"))]
        {
            use std::sync::Arc;

            use namzu_types::config::*;

            State::Built {
                factory: Arc::new(|request| match request.config {
                    BackendConfig::$variant(config) => {
                        Ok(Arc::new($make(config, request)?) as Arc<dyn namzu_core::Backend>)
                    }
                    // Only a registry that was put together wrongly gets here.
                    other => Err(namzu_core::Error::new(
                        namzu_core::ErrorCode::Internal,
                        format!("the factory for {} was asked for {}", $label, other.label()),
                    )),
                }),
                sample: Some(Box::new(BackendConfig::$variant($sample))),
            }
        }
        #[cfg(not(all(feature = $feature, target_os = "linux")))]
        {
            State::Absent {
                status: BackendStatus::NotBuilt,
                reason: concat!("was left out of this build: feature `", $feature, "`, on Linux"),
            }
        }
    }};
    (@state $label:literal unwritten) => {
        State::Absent {
            status: BackendStatus::NotWritten,
            reason: "is not written yet",
        }
    };
    ($($label:literal $tier:ident [$($state:tt)+])*) => {
        [$(($label, Tier::$tier, backends!(@state $label $($state)+)),)*]
    };
}

/// Every backend that a configuration can name.
pub(crate) fn backends() -> [(&'static str, Tier, State); 10] {
    backends! {
        "passthrough" Passthrough ["backend-passthrough"
            Passthrough(PassthroughBackendConfig {}) =>
            |_, _| namzu_backend_passthrough::PassthroughBackend::new()]
        "process:bubblewrap" Process ["backend-process"
            Process(ProcessBackendConfig { engine: ProcessEngine::Bubblewrap }) =>
            |config, _| namzu_backend_process::ProcessBackend::new(config)]
        "process:native" Process [unwritten]
        "process:seatbelt" Process [unwritten]
        "container:docker" Container [unwritten]
        "container:runsc" Container [unwritten]
        "container:aci-standby-pool" Container [unwritten]
        "microvm:e2b" Microvm [unwritten]
        "microvm:fly-machines" Microvm [unwritten]
        "microvm:self-hosted" Microvm [unwritten]
    }
}
