//! What is refused, before anything is started.

use namzu_backend_process::{Config, Engine, ProcessBackend};
use namzu_core::Backend as _;
use namzu_core::egress::Wiring;
use namzu_types::{Access, EgressPolicy, ErrorCode, Limits, SandboxSpec, Workspace};

use crate::support::{doors, provider};

#[tokio::test]
async fn engines_that_are_not_written_are_refused_by_name() {
    for engine in [Engine::Native, Engine::Seatbelt] {
        let err = ProcessBackend::new(&Config { engine }).unwrap_err();
        assert_eq!(err.code(), ErrorCode::BackendNotAvailable);
        assert!(err.to_string().contains(engine.as_str()));
    }
}

#[tokio::test]
async fn what_is_not_held_is_refused() {
    let specs = [
        SandboxSpec {
            workspace: Workspace::Host {
                path: "/".into(),
                access: Access::ReadWrite,
            },
            ..SandboxSpec::default()
        },
        SandboxSpec {
            workspace: Workspace::Host {
                path: "/nonexistent".into(),
                access: Access::ReadOnly,
            },
            ..SandboxSpec::default()
        },
        SandboxSpec {
            limits: Limits {
                memory: Some(1),
                ..Limits::default()
            },
            ..SandboxSpec::default()
        },
    ];
    for (spec, code) in specs.into_iter().zip([
        ErrorCode::ConfigInvalid,
        ErrorCode::ConfigInvalid,
        ErrorCode::InvalidArgument,
    ]) {
        let provider = provider();
        assert_eq!(provider.plan(&spec).await.unwrap_err().code(), code);
        assert_eq!(provider.create(spec).await.unwrap_err().code(), code);
    }
}

#[tokio::test]
async fn walls_and_doors_that_do_not_fit_are_refused() {
    let backend = ProcessBackend::new(&Config::default()).unwrap();
    for (egress, wiring, code) in [
        (
            EgressPolicy::hosts(["example.com"]),
            Wiring::default(),
            ErrorCode::Unsupported,
        ),
        (EgressPolicy::AllowAll, doors(), ErrorCode::Internal),
    ] {
        let spec = SandboxSpec {
            id: Some("test-misfit".parse().unwrap()),
            egress: Some(egress),
            ..SandboxSpec::default()
        };
        let refused = backend.launch(&spec, &wiring).await.unwrap_err();
        assert_eq!(refused.code(), code);
    }
}

#[tokio::test]
async fn a_policy_of_hosts_is_enforced_and_the_plan_says_by_what() {
    let spec = SandboxSpec {
        egress: Some(EgressPolicy::hosts(["example.com"])),
        ..SandboxSpec::default()
    };
    let backend = ProcessBackend::new(&Config::default()).unwrap();
    let network = backend.plan(&spec).await.unwrap().network;
    assert_eq!(network.strength, namzu_types::Strength::Enforced);
    assert_eq!(network.mechanism, "network namespace, egress boundary");
}

#[tokio::test]
async fn this_host_is_diagnosed_as_fit() {
    let findings = namzu_backend_process::diagnose().await;
    assert!(
        findings
            .iter()
            .all(|finding| finding.verdict != namzu_core::Verdict::Problem),
        "{findings:#?}"
    );
}
