//! Looks at this host.

use namzu_core::{Finding, Verdict};
use namzu_types::Tier;

use crate::registry::{BackendStatus, Registry};

/// Looks at this host with the eyes of every backend of this build. A backend may make a sandbox
/// and take it down again; nothing else changes.
pub async fn doctor() -> Vec<Finding> {
    let findings = whether_usable();
    #[cfg(all(feature = "backend-process", target_os = "linux"))]
    let findings = [findings, namzu_backend_process::diagnose().await].concat();
    findings
}

fn whether_usable() -> Vec<Finding> {
    Registry::builtin()
        .backends()
        .into_iter()
        .filter_map(|info| {
            let (verdict, found) = match info.status {
                // What it needs was found; only a real try shows that a sandbox can be built.
                BackendStatus::Available if info.tier == Tier::Process => {
                    (Verdict::Ok, "bwrap is there".to_owned())
                }
                BackendStatus::Available => (Verdict::Ok, "can be used".to_owned()),
                BackendStatus::HostUnsupported => (Verdict::Problem, info.reason?),
                BackendStatus::NotBuilt | BackendStatus::NotWritten => return None,
            };
            Some(Finding {
                backend: info.label,
                subject: "backend".to_owned(),
                verdict,
                found,
                fix: info.fix,
            })
        })
        .collect()
}
