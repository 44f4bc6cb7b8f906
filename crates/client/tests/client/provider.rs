//! Making, finding and ending sandboxes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use namzu_client::{Deadlines, ExecRequest, SandboxProvider};
use namzu_core::types::{Access, Control, EgressPolicy, Limits, SandboxSpec, Workspace};
use namzu_core::{ErrorCode, Phase};

use crate::fake::FakeBackend;

fn idle() -> Arc<FakeBackend> {
    FakeBackend::new(|_| async {})
}

#[tokio::test]
async fn names_tell_the_tier_and_the_backend() {
    let provider = idle().provider();
    assert_eq!(provider.id(), "namzu-process-fake");
    assert_eq!(provider.name(), "@namzu/sandbox: process:fake");
    let provider = provider.with_label("process:auto");
    assert_eq!(provider.name(), "@namzu/sandbox: process:auto");
    assert_eq!(provider.environment(), "basic");
}

#[tokio::test]
async fn a_request_overrides_the_defaults_field_by_field() {
    let backend = idle();
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };
    let defaults = SandboxSpec {
        egress: Some(EgressPolicy::DenyAll),
        limits: Limits {
            memory: Some(1),
            lifetime: Some(Duration::from_secs(1)),
            ..Limits::default()
        },
        env: map(&[("A", "1"), ("B", "1")]),
        ..SandboxSpec::default()
    };
    let provider = SandboxProvider::new(backend.clone(), defaults);
    let spec = SandboxSpec {
        limits: Limits {
            memory: Some(2),
            ..Limits::default()
        },
        env: map(&[("B", "2")]),
        ..SandboxSpec::default()
    };
    let sandbox = provider.create(spec).await.unwrap();
    let merged = backend.specs.lock().unwrap().pop().unwrap();
    assert_eq!(merged.limits.memory, Some(2));
    assert_eq!(merged.limits.lifetime, Some(Duration::from_secs(1)));
    assert_eq!(merged.env, map(&[("A", "1"), ("B", "2")]));
    assert_eq!(merged.egress, Some(EgressPolicy::DenyAll));
    assert_eq!(Some(sandbox.id()), merged.id.as_ref());
}

#[tokio::test]
async fn some_defaults_hold_for_every_request() {
    let host = Workspace::Host {
        path: "/srv".into(),
        access: Access::ReadWrite,
    };
    let defaults = SandboxSpec {
        workspace: host,
        require: vec![Control::Memory],
        detach: true,
        ..SandboxSpec::default()
    };
    let provider = SandboxProvider::new(idle(), defaults);
    let spec = SandboxSpec {
        workspace: Workspace::Private,
        require: vec![Control::Pids],
        detach: false,
        ..SandboxSpec::default()
    };
    let err = provider.plan(&spec).await.unwrap_err();
    let reasons = err.reasons().join("\n");
    for held in ["a host directory as workspace", "`pids` enforced"] {
        assert!(reasons.contains(held), "{reasons}");
    }
}

#[tokio::test]
async fn every_sandbox_has_a_name_of_its_own() {
    let backend = idle();
    let (a, b) = (backend.sandbox().await, backend.sandbox().await);
    assert_ne!(a.id(), b.id());
}

#[tokio::test]
async fn what_the_backend_did_not_declare_never_reaches_it() {
    let backend = idle();
    let spec = SandboxSpec {
        egress: Some(EgressPolicy::AllowAll),
        ..SandboxSpec::default()
    };
    let err = backend.provider().create(spec).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::Unsupported);
    assert!(backend.specs.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_never_gets_ready_is_a_create_timeout() {
    let backend = idle();
    backend.stuck.store(true, Ordering::SeqCst);
    let err = backend
        .provider()
        .create(SandboxSpec::default())
        .await
        .unwrap_err();
    assert_eq!(err.code(), ErrorCode::CreateTimeout);
    assert_eq!(err.phase(), Some(Phase::Create));
    assert_eq!(err.backend(), Some("process:fake"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_never_answers_is_a_connect_timeout_and_taken_down() {
    let backend = FakeBackend::raw(|io| async move {
        let _io = io;
        std::future::pending::<()>().await;
    });
    let err = backend
        .provider()
        .create(SandboxSpec::default())
        .await
        .unwrap_err();
    assert_eq!(err.code(), ErrorCode::ConnectTimeout);
    assert_eq!(backend.fate.destroyed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_detached_sandbox_that_does_not_answer_is_taken_down_too() {
    let backend = FakeBackend::raw(|io| async move { drop(io) });
    let spec = SandboxSpec {
        detach: true,
        ..SandboxSpec::default()
    };
    let err = backend.provider().create(spec).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::SandboxLost);
    assert_eq!(backend.fate.destroyed.load(Ordering::SeqCst), 1);
    let found = backend
        .provider()
        .connect(&"found".parse().unwrap())
        .await
        .unwrap_err();
    assert_eq!(found.code(), ErrorCode::SandboxLost);
    assert_eq!(backend.fate.destroyed.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_answered_is_a_request_timeout() {
    let backend = FakeBackend::new(|call| async move {
        let _call = call;
        std::future::pending::<()>().await;
    });
    let provider = backend.provider().with_deadlines(Deadlines {
        request: Duration::from_secs(3),
        ..Deadlines::default()
    });
    let sandbox = provider.create(SandboxSpec::default()).await.unwrap();
    let err = sandbox.files().stat("/x").await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::RequestTimeout);
    let err = sandbox.files().write("/x", "y").await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::RequestTimeout);
    let err = sandbox.files().read("/x", 9).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::RequestTimeout);
}

#[tokio::test]
async fn dropping_a_sandbox_kills_it() {
    let backend = idle();
    drop(backend.sandbox().await);
    assert_eq!(backend.fate.killed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn dropping_a_detached_sandbox_leaves_it() {
    let backend = idle();
    let spec = SandboxSpec {
        detach: true,
        ..SandboxSpec::default()
    };
    let sandbox = backend.provider().create(spec).await.unwrap();
    let id = sandbox.id().clone();
    drop(sandbox);
    drop(backend.provider().connect(&id).await.unwrap());
    assert_eq!(backend.fate.killed.load(Ordering::SeqCst), 0);
    assert_eq!(backend.fate.destroyed.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_sandbox_that_is_found_has_the_receipt_of_its_maker() {
    let backend = idle();
    let spec = SandboxSpec {
        detach: true,
        labels: [("job".to_owned(), "7".to_owned())].into(),
        ..SandboxSpec::default()
    };
    let made = backend.provider().create(spec).await.unwrap();
    assert_eq!(made.receipt().egress, "deny-all");
    let found = backend.provider().connect(made.id()).await.unwrap();
    assert_eq!(found.receipt(), made.receipt());
    // One whose backend keeps no record.
    let other = "other".parse().unwrap();
    let found = backend.provider().connect(&other).await.unwrap();
    assert_eq!(found.receipt().egress, "unknown");
    assert!(found.receipt().labels.is_empty());
}

#[tokio::test]
async fn destroying_ends_what_runs() {
    let backend = FakeBackend::new(|call| async move {
        let mut script = call.started(7);
        script.reset().await;
    });
    let sandbox = backend.sandbox().await;
    let mut process = sandbox.spawn(ExecRequest::new(["x"])).await.unwrap();
    sandbox.destroy().await.unwrap();
    sandbox.destroy().await.unwrap();
    let err = process.next().await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::SandboxLost);
    let err = sandbox.exec(ExecRequest::new(["x"])).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::SandboxLost);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_call_hears_how_the_sandbox_ended() {
    let backend = FakeBackend::new(|call| async move {
        let mut script = call.started(7);
        script.reset().await;
    });
    let sandbox = Arc::new(backend.sandbox().await);
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let mut process = sandbox.spawn(ExecRequest::new(["x"])).await.unwrap();
        running.spawn(async move { process.next().await.unwrap_err().code() });
    }
    *backend.fate.obituary.lock().unwrap() = Some(ErrorCode::OutOfMemory);
    backend.fate.cut();
    let codes = running.join_all().await;
    assert_eq!(codes, vec![ErrorCode::OutOfMemory; 64]);
}

#[tokio::test]
async fn a_process_that_outlives_its_sandbox_says_so() {
    let backend = FakeBackend::new(|call| async move {
        let mut script = call.started(7);
        script.reset().await;
    });
    let sandbox = backend.sandbox().await;
    let mut process = sandbox.spawn(ExecRequest::new(["x"])).await.unwrap();
    drop(sandbox);
    assert_eq!(backend.fate.killed.load(Ordering::SeqCst), 1);
    let err = process.next().await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::SandboxLost);
}
