//! What is refused, before anything is started.

use namzu_backend_process::{Config, Engine, ProcessBackend};
use namzu_types::{Access, EgressPolicy, ErrorCode, Limits, SandboxSpec, Workspace};

use crate::support::provider;

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
            egress: Some(EgressPolicy::hosts(["example.com"])),
            ..SandboxSpec::default()
        },
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
        ErrorCode::Unsupported,
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
async fn this_host_is_diagnosed_as_fit() {
    let findings = namzu_backend_process::diagnose().await;
    assert!(
        findings
            .iter()
            .all(|finding| finding.verdict != namzu_core::Verdict::Problem),
        "{findings:#?}"
    );
}
