//! The backend that `--backend` names.

use namzu_sandbox::{
    BackendInfo, BackendStatus, Error, ErrorCode, Phase, SandboxProviderConfig, backends,
};
use serde_json::json;

use crate::failure::Failure;

/// The configuration that a label stands for: `TIER`, or `TIER:NAME` with the name in the field
/// that the tier is told apart by.
pub(crate) fn named(label: &str) -> Result<SandboxProviderConfig, Failure> {
    let (tier, name) = match label.split_once(':') {
        Some((tier, name)) => (tier, Some(name)),
        None => (label, None),
    };
    let mut backend = json!({ "tier": tier });
    if let Some(name) = name {
        let field = match tier {
            "container" => "runtime",
            "microvm" => "service",
            _ => "engine",
        };
        backend[field] = name.into();
    }
    SandboxProviderConfig::from_value(&json!({ "backend": backend })).map_err(|err| {
        let known = backends();
        // Nobody writes a configuration to learn that it is of no use.
        if let Some(absent) = absent(label, &known) {
            return absent.into();
        }
        Failure::Usage(match meant(label, &known) {
            Some(meant) => format!("--backend {label} is unknown; perhaps {meant} was meant"),
            None => format!(
                "--backend {label} is not enough of a configuration: {}; give it with --config",
                err.reasons().join("; ")
            ),
        })
    })
}

/// The refusal of a label, or of a whole tier, that this build cannot use whatever is configured.
fn absent(label: &str, known: &[BackendInfo]) -> Option<Error> {
    let is_built = |info: &BackendInfo| {
        matches!(
            info.status,
            BackendStatus::Available | BackendStatus::HostUnsupported
        )
    };
    let mut named = known.iter().filter(|info| {
        let tier = info.label.split(':').next();
        info.label == label || tier == Some(label)
    });
    let first = named.next()?;
    if is_built(first) || named.any(is_built) {
        return None;
    }
    let why = first.reason.as_deref().unwrap_or("is not there");
    let there: Vec<&str> = known
        .iter()
        .filter(|info| is_built(info))
        .map(|info| info.label.as_str())
        .collect();
    let hint = match there.as_slice() {
        [] => "this build has no backend at all".to_owned(),
        there => format!("this build has {}", there.join(", ")),
    };
    Some(
        Error::new(
            ErrorCode::BackendNotAvailable,
            format!("backend `{label}` {why}"),
        )
        .with_hint(hint)
        .on(label)
        .during(Phase::Configure),
    )
}

/// The label whose tier was left out.
fn meant<'a>(name: &str, known: &'a [BackendInfo]) -> Option<&'a str> {
    known
        .iter()
        .map(|info| info.label.as_str())
        .find(|label| label.split_once(':').is_some_and(|(_, rest)| rest == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_is_said_before_a_configuration_is_asked_for() {
        for label in ["container:docker", "container", "microvm:e2b", "microvm"] {
            let failure = named(label).unwrap_err();
            assert_eq!(failure.exit_code(), 202, "{label}: {failure}");
            let text = failure.to_string();
            assert!(
                text.contains(&format!("`{label}` is not written")),
                "{text}"
            );
        }
    }

    #[test]
    fn a_name_without_its_tier_is_completed() {
        let failure = named("docker").unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        assert!(
            failure.to_string().contains("container:docker"),
            "{failure}"
        );
    }
}
