//! From create to destroy, and every way of not getting there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use namzu_client::{Cursor, ExecRequest, ExitStatus, Sandbox, Selector};
use namzu_core::ErrorCode;
use namzu_core::types::{SandboxId, Strength};
use tokio::task::JoinSet;

use crate::conformance::bench::{Bench, line, run, sh, spec};
use crate::conformance::case::{Case, When, always, case};
use crate::conformance::check::{Failure, Verdict, ensure, ensure_eq, refused_with};
use crate::conformance::limits::is_refused;
use crate::conformance::{crash, host};

pub(crate) const CASES: &[Case] = &[
    case!(
        "lifecycle",
        a_created_sandbox_takes_commands_at_once,
        always
    ),
    case!(
        "lifecycle",
        an_id_asked_for_is_kept_and_others_differ,
        always
    ),
    case!("lifecycle", twenty_live_side_by_side, always),
    case!("lifecycle", destroy_is_idempotent_and_final, always),
    case!("lifecycle", destroy_ends_what_runs, always),
    case!("lifecycle", destroying_an_unknown_name_is_success, always),
    case!("lifecycle", destroy_leaves_no_trace, |b| b.local()),
    case!("lifecycle", drop_leaves_no_trace, |b| b.local()),
    case!("lifecycle", a_dropped_create_leaves_no_trace, |b| b.local()),
    case!("lifecycle", a_killed_host_process_leaves_no_trace, |b| b
        .local()),
    case!("lifecycle", a_killed_worker_is_a_lost_sandbox, |b| b
        .local()),
    case!("lifecycle", a_detached_sandbox_is_found_again, |b| {
        When::declared(b.capabilities.detach, "detaching")
    }),
    case!(
        "lifecycle",
        a_dropped_detached_create_leaves_no_trace,
        |b| {
            b.local()
                .and(When::declared(b.capabilities.detach, "detaching"))
        }
    ),
    case!("lifecycle", a_detached_sandbox_says_how_it_ended, |b| {
        When::declared(b.capabilities.detach, "detaching").and(When::declared(
            b.capabilities.lifetime > Strength::None,
            "a lifetime",
        ))
    }),
    case!("lifecycle", detaching_undeclared_is_refused, |b| {
        When::undeclared(b.capabilities.detach, "detaching")
    }),
];

async fn a_created_sandbox_takes_commands_at_once(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    run(&sandbox, ExecRequest::new(["true"])).await?;
    ensure!(
        sandbox.workspace().starts_with('/'),
        "the workspace is at {:?}",
        sandbox.workspace()
    );
    sandbox.files().write("a file", "x").await?;
    ensure!(
        sandbox.receipt().backend.starts_with(bench.tier.as_str()),
        "the receipt names {:?}",
        sandbox.receipt().backend
    );
    Ok(())
}

pub(crate) fn fresh_id(what: &str) -> Verdict<SandboxId> {
    Ok(host::marker(what)?.parse()?)
}

async fn an_id_asked_for_is_kept_and_others_differ(bench: Arc<Bench>) -> Verdict {
    let id = fresh_id("id")?;
    let wanted = id.clone();
    let sandbox = bench.sandbox_with(|s| s.id = Some(wanted)).await?;
    ensure_eq!(sandbox.id(), &id, "the id asked for");
    let (one, two) = (bench.sandbox().await?, bench.sandbox().await?);
    ensure!(one.id() != two.id(), "two sandboxes are named {}", one.id());
    Ok(())
}

async fn twenty_live_side_by_side(bench: Arc<Bench>) -> Verdict {
    let mut making = JoinSet::new();
    for _ in 0..20 {
        let bench = Arc::clone(&bench);
        making.spawn(async move { bench.sandbox().await });
    }
    let mut all = Vec::new();
    while let Some(made) = making.join_next().await {
        all.push(made??);
    }
    let ids: BTreeSet<_> = all.iter().map(|s| s.id().clone()).collect();
    ensure_eq!(ids.len(), 20, "names of twenty sandboxes");
    for (number, sandbox) in all.iter().enumerate() {
        sandbox.files().write("number", number.to_string()).await?;
    }
    for (number, sandbox) in all.iter().enumerate() {
        let seen = run(sandbox, ExecRequest::new(["cat", "number"])).await?;
        ensure_eq!(seen, number.to_string().into_bytes(), "file of one of them");
    }
    Ok(())
}

/// Fails the case when taking it down hangs.
async fn destroyed(bench: &Bench, sandbox: &Sandbox) -> Verdict {
    tokio::time::timeout(bench.patience, Box::pin(sandbox.destroy()))
        .await
        .map_err(|_| Failure::new(format!("destroy hangs for {:?}", bench.patience)))??;
    Ok(())
}

async fn destroy_is_idempotent_and_final(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let id = sandbox.id().clone();
    destroyed(&bench, &sandbox).await?;
    destroyed(&bench, &sandbox).await?;
    bench.provider.destroy(&id).await?;
    refused_with(
        sandbox.exec(ExecRequest::new(["true"])).await,
        ErrorCode::SandboxLost,
        "a command after destroy",
    )?;
    refused_with(
        sandbox.files().stat("/").await,
        ErrorCode::SandboxLost,
        "a file call after destroy",
    )?;
    Ok(())
}

async fn destroy_ends_what_runs(bench: Arc<Bench>) -> Verdict {
    let sandbox = Arc::new(bench.sandbox().await?);
    let inner = Arc::clone(&sandbox);
    let mut calls = JoinSet::new();
    let mut request = ExecRequest::new(["sleep", "100000"]);
    request.tag = Some("running".into());
    calls.spawn(async move { inner.exec(request).await });
    crate::conformance::exec::listed(&bench, &sandbox, "running", true).await?;
    destroyed(&bench, &sandbox).await?;
    let ended = tokio::time::timeout(bench.patience, calls.join_next())
        .await
        .map_err(|_| Failure::new("a command hangs after its sandbox was destroyed"))?
        .ok_or_else(|| Failure::new("the call vanished"))??;
    match ended {
        // It may still be told how the command was ended, but not that it ended by itself.
        Ok(output) => ensure!(
            matches!(output.status, ExitStatus::Signal(_)),
            "a command whose sandbox is destroyed ended with {:?}",
            output.status
        ),
        Err(err) => ensure_eq!(err.code(), ErrorCode::SandboxLost, "a destroyed sandbox"),
    }
    Ok(())
}

async fn destroying_an_unknown_name_is_success(bench: Arc<Bench>) -> Verdict {
    bench.provider.destroy(&fresh_id("nobody")?).await?;
    Ok(())
}

/// A sandbox with daemons in it that everybody can find by its id.
async fn inhabited(bench: &Bench, what: &str) -> Verdict<(Sandbox, String)> {
    let id = fresh_id(what)?;
    let name = id.to_string();
    let sandbox = bench.sandbox_with(|s| s.id = Some(id)).await?;
    inhabit(&sandbox, &name).await?;
    let up = host::marked(&name)?;
    ensure!(up.len() >= 2, "only {up:?} are up");
    Ok((sandbox, name))
}

/// Starts a command and a daemon that carry the marker, deaf to polite signals.
pub(crate) async fn inhabit(sandbox: &Sandbox, marker: &str) -> Verdict {
    let script = "trap '' HUP INT TERM; \
         setsid sh -c 'trap \"\" HUP INT TERM; echo up > daemon-up; while :; do sleep 1000; done' \"$0\" & \
         until [ -s daemon-up ]; do :; done; echo up; while :; do sleep 1000; done";
    let mut request = sh(script);
    request.argv.push(marker.as_bytes().to_vec());
    let mut process = sandbox.spawn_background(request).await?;
    crate::conformance::processes::read_at_least(&mut process, 3).await?;
    run(sandbox, sh("echo x > /tmp/left; echo x > left")).await?;
    Ok(())
}

async fn destroy_leaves_no_trace(bench: Arc<Bench>) -> Verdict {
    let (sandbox, name) = inhabited(&bench, "destroyed").await?;
    destroyed(&bench, &sandbox).await?;
    // At once: whoever was told that it is destroyed may rely on it.
    let left = host::traces(&name);
    ensure!(
        left.is_empty(),
        "after destroy returned the host has {left:?}"
    );
    host::all_gone(bench.patience, &name).await
}

async fn drop_leaves_no_trace(bench: Arc<Bench>) -> Verdict {
    let (sandbox, name) = inhabited(&bench, "dropped").await?;
    drop(sandbox);
    host::all_gone(bench.patience, &name).await?;
    host::no_trace(bench.patience, &name).await
}

async fn a_dropped_create_leaves_no_trace(bench: Arc<Bench>) -> Verdict {
    dropped_creates_leave_no_trace(&bench, false).await
}

async fn a_dropped_detached_create_leaves_no_trace(bench: Arc<Bench>) -> Verdict {
    dropped_creates_leave_no_trace(&bench, true).await
}

async fn dropped_creates_leave_no_trace(bench: &Bench, detach: bool) -> Verdict {
    // With whatever holds a memory limit, too.
    let memory = (bench.capabilities.memory > Strength::None).then_some(256 << 20);
    let mut names = Vec::new();
    // From before the first step to after the last one.
    for micros in [
        0, 100, 300, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000,
    ] {
        let id = fresh_id("cancelled")?;
        let create = Box::pin(bench.provider.create(spec(|s| {
            s.id = Some(id.clone());
            s.limits.memory = memory;
            s.detach = detach;
        })));
        let made = tokio::time::timeout(Duration::from_micros(micros), create).await;
        if let Ok(Ok(sandbox)) = made {
            // In time, so that nothing was dropped.
            destroyed(bench, &sandbox).await?;
        }
        names.push(id.to_string());
    }
    for name in names {
        host::all_gone(bench.patience, &name).await?;
        host::no_trace(bench.patience, &name).await?;
        if detach {
            let listed = bench.provider.list().await?;
            ensure!(
                listed.iter().all(|info| info.id.as_str() != name),
                "{name} is listed"
            );
        }
    }
    Ok(())
}

async fn a_detached_sandbox_says_how_it_ended(bench: Arc<Bench>) -> Verdict {
    let id = fresh_id("mortal")?;
    let wanted = id.clone();
    let made = bench
        .sandbox_with(|s| {
            s.id = Some(wanted);
            s.detach = true;
            s.limits.lifetime = Some(Duration::from_millis(1500));
            s.labels.insert("job".into(), "43".into());
        })
        .await?;
    let receipt = made.receipt();
    drop(made);
    let found = bench.provider.connect(&id).await?;
    ensure_eq!(found.receipt(), receipt, "the receipt of one found again");
    let call = Box::pin(found.exec(ExecRequest::new(["sleep", "600"])));
    let ended = tokio::time::timeout(bench.patience, call)
        .await
        .map_err(|_| Failure::new("a sandbox lives on past its lifetime"))?;
    refused_with(
        ended,
        ErrorCode::LifetimeExceeded,
        "a call to a sandbox that lived as long as it may",
    )?;
    Ok(())
}

async fn a_killed_host_process_leaves_no_trace(bench: Arc<Bench>) -> Verdict {
    let id = fresh_id("crashed")?;
    let name = id.to_string();
    crash::kill_a_host(&name).await?;
    host::all_gone(bench.patience, &name).await?;
    host::no_trace(bench.patience, &name).await
}

async fn a_killed_worker_is_a_lost_sandbox(bench: Arc<Bench>) -> Verdict {
    let (sandbox, name) = inhabited(&bench, "headless").await?;
    // The worker is the parent of the command: so much the host can see of any of them.
    let marked = host::marked(&name)?;
    let worker = marked
        .iter()
        .filter_map(|pid| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
            parent.trim().parse::<u32>().ok()
        })
        .find(|parent| !marked.contains(parent))
        .ok_or_else(|| Failure::new("no worker is the parent of a command"))?;
    let killed = namzu_core::spawn::command("/bin/sh")
        .args(["-c", &format!("kill -9 {worker}")])
        .status()
        .await?;
    ensure!(killed.success(), "the worker could not be killed");
    let call = Box::pin(sandbox.exec(ExecRequest::new(["true"])));
    let result = tokio::time::timeout(bench.patience, call)
        .await
        .map_err(|_| Failure::new("a call to a dead worker hangs"))?;
    refused_with(result, ErrorCode::SandboxLost, "a call to a dead worker")?;
    destroyed(&bench, &sandbox).await?;
    if bench.capabilities.processes == Strength::Enforced {
        host::all_gone(bench.patience, &name).await?;
    } else {
        // Nothing but the worker knew them, and it was killed without a word: the case cleans up.
        let pids: Vec<_> = host::marked(&name)?.iter().map(u32::to_string).collect();
        let script = format!("kill -9 {}", pids.join(" "));
        let _ = namzu_core::spawn::command("/bin/sh")
            .args(["-c", &script])
            .status()
            .await?;
    }
    host::no_trace(bench.patience, &name).await
}

async fn a_detached_sandbox_is_found_again(bench: Arc<Bench>) -> Verdict {
    let id = fresh_id("detached")?;
    let wanted = id.clone();
    let sandbox = bench
        .sandbox_with(|s| {
            s.id = Some(wanted);
            s.detach = true;
            s.labels.insert("job".into(), "42".into());
        })
        .await?;
    let mut request = ExecRequest::new(["cat"]);
    request.stdin = Some(b"early".to_vec());
    request.tag = Some("kept".into());
    let mut process = sandbox.spawn_background(request).await?;
    crate::conformance::processes::read_at_least(&mut process, 5).await?;
    sandbox.files().write("kept", "x").await?;
    let receipt = sandbox.receipt();
    drop((process, sandbox));
    let listed = bench.provider.list().await?;
    let info = listed
        .iter()
        .find(|info| info.id == id)
        .ok_or_else(|| Failure::new(format!("{id} is not in {listed:?}")))?;
    ensure_eq!(
        info.labels.get("job").map(String::as_str),
        Some("42"),
        "its label"
    );
    ensure_eq!(info.tier, bench.tier, "its tier");
    let again = bench.provider.connect(&id).await?;
    ensure_eq!(again.receipt(), receipt, "its receipt");
    ensure_eq!(
        again.files().read("kept", 10).await?,
        b"x".to_vec(),
        "its file"
    );
    let tag = Selector::Tag("kept".to_owned());
    let mut process = again.attach(tag, Cursor::default()).await?;
    ensure_eq!(
        crate::conformance::processes::read_at_least(&mut process, 5).await?,
        b"early".to_vec(),
        "output of a command that outlived its maker"
    );
    bench.provider.destroy(&id).await?;
    bench.provider.destroy(&id).await?;
    refused_with(
        bench.provider.connect(&id).await,
        ErrorCode::NotFound,
        "connecting after destroy",
    )?;
    ensure!(
        bench
            .provider
            .list()
            .await?
            .iter()
            .all(|info| info.id != id),
        "{id} is still listed after destroy"
    );
    Ok(())
}

async fn detaching_undeclared_is_refused(bench: Arc<Bench>) -> Verdict {
    is_refused(&bench, "outliving its maker", |s| s.detach = true).await?;
    let sandbox = bench.sandbox().await?;
    refused_with(
        bench.provider.connect(sandbox.id()).await,
        ErrorCode::Unsupported,
        "connecting to a sandbox that ends with its maker",
    )?;
    if bench.guest.system {
        line(&sandbox, "true").await?;
    }
    Ok(())
}
