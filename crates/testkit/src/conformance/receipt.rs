//! The receipt: what it says is what a probe inside finds.

use std::sync::Arc;

use namzu_core::types::{Control, EgressPolicy, Strength, Tier};

use crate::conformance::bench::{Answer, Bench, line, probe, spec};
use crate::conformance::case::{Case, When, always, case};
use crate::conformance::check::{Verdict, ensure, ensure_eq};
use crate::conformance::host;
use crate::conformance::limits::is_refused;

pub(crate) const CASES: &[Case] = &[
    case!("receipt", plan_says_what_create_gives, always),
    case!("receipt", it_says_no_more_than_was_declared, always),
    case!("receipt", an_open_network_is_never_called_held, always),
    case!("receipt", what_is_held_names_its_mechanism, always),
    case!("receipt", passthrough_says_none, |b| When::declared(
        b.tier == Tier::Passthrough,
        "the passthrough tier"
    )),
    case!("receipt", its_word_on_files_is_true, |b| b
        .local()
        .and(b.attacker())),
    case!("receipt", its_word_on_processes_is_true, |b| b
        .local()
        .and(b.attacker())),
    case!("receipt", its_word_on_the_network_is_true, |b| b.python()),
    case!("receipt", requiring_what_is_held_succeeds, always),
    case!("receipt", requiring_what_is_not_held_is_refused, always),
    case!("receipt", labels_are_kept, always),
];

/// What a backend declares at best for a control under a policy.
fn best(bench: &Bench, control: Control, policy: &EgressPolicy) -> Strength {
    let c = bench.capabilities;
    match control {
        Control::Filesystem => c.filesystem,
        Control::Network => match policy {
            EgressPolicy::DenyAll => c.egress.deny_all,
            EgressPolicy::AllowAll => Strength::None,
            EgressPolicy::Static { .. } => c.egress.static_hosts,
            EgressPolicy::Resolver { .. } => c.egress.resolver,
        },
        Control::Processes => c.processes,
        Control::Memory => c.memory,
        Control::Pids => c.pids,
        Control::Cpu => c.cpu,
        Control::Disk => c.disk,
        Control::WallClock => c.lifetime,
        Control::Syscalls => c.syscalls,
    }
}

async fn plan_says_what_create_gives(bench: Arc<Bench>) -> Verdict {
    let planned = bench.provider.plan(&spec(|_| {})).await?;
    let sandbox = bench.sandbox().await?;
    let given = sandbox.receipt();
    ensure_eq!(given.tier, planned.tier, "the tier");
    ensure_eq!(given.backend, planned.backend, "the backend");
    ensure_eq!(given.egress, planned.egress, "the policy");
    for (control, report) in planned.controls.iter() {
        ensure_eq!(
            given.controls.get(control).strength,
            report.strength,
            "`{control}` given against planned"
        );
    }
    Ok(())
}

async fn it_says_no_more_than_was_declared(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let policy = spec(|_| {}).egress_on(bench.tier);
    for (control, report) in sandbox.receipt().controls.iter() {
        // The wall clock of commands is the worker's and needs no declaration.
        if control == Control::WallClock && report.strength <= Strength::BestEffort {
            continue;
        }
        let best = best(&bench, control, &policy);
        ensure!(
            report.strength <= best || control == Control::WallClock,
            "`{control}` is called {}, declared is {best} at best",
            report.strength
        );
    }
    Ok(())
}

async fn an_open_network_is_never_called_held(bench: Arc<Bench>) -> Verdict {
    if !bench.capabilities.egress.allow_all {
        is_refused(&bench, "egress allow-all", |s| {
            s.egress = Some(EgressPolicy::AllowAll);
        })
        .await?;
        return Ok(());
    }
    let open = spec(|s| s.egress = Some(EgressPolicy::AllowAll));
    let receipt = bench.provider.plan(&open).await?;
    ensure_eq!(receipt.egress, "allow-all", "the policy");
    ensure_eq!(
        receipt.controls.network.strength,
        Strength::None,
        "the network under allow-all"
    );
    Ok(())
}

async fn what_is_held_names_its_mechanism(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    for (control, report) in sandbox.receipt().controls.iter() {
        ensure_eq!(
            report.mechanism.is_empty(),
            report.strength == Strength::None,
            "`{control}` is {} by {:?}; no mechanism",
            report.strength,
            report.mechanism
        );
    }
    Ok(())
}

async fn passthrough_says_none(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    for control in [
        Control::Filesystem,
        Control::Network,
        Control::Processes,
        Control::Memory,
        Control::Pids,
        Control::Cpu,
        Control::Disk,
        Control::Syscalls,
    ] {
        ensure_eq!(
            sandbox.receipt().controls.get(control).strength,
            Strength::None,
            "`{control}` without any wall"
        );
    }
    Ok(())
}

async fn its_word_on_files_is_true(bench: Arc<Bench>) -> Verdict {
    let place = host::scratch("receipt")?;
    let secret = place.join("secret");
    std::fs::write(&secret, "of the host")?;
    let sandbox = bench.sandbox().await?;
    let found = probe(&sandbox, &["read", &secret.display().to_string()]).await?;
    let said = sandbox.receipt().controls.filesystem.strength;
    ensure_eq!(
        matches!(found, Answer::Refused(_)),
        said == Strength::Enforced,
        "the receipt says {said}; a host file was refused"
    );
    Ok(())
}

async fn its_word_on_processes_is_true(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let said = sandbox.receipt().controls.processes.strength;
    let inside = line(&sandbox, "readlink /proc/self/ns/pid").await?;
    let outside = std::fs::read_link("/proc/self/ns/pid")?;
    ensure_eq!(
        outside.as_os_str() != inside.as_str(),
        said == Strength::Enforced,
        "the receipt says {said}; the process namespace is another"
    );
    Ok(())
}

async fn its_word_on_the_network_is_true(bench: Arc<Bench>) -> Verdict {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port().to_string();
    let sandbox = bench.sandbox().await?;
    let said = sandbox.receipt().controls.network.strength;
    let found = probe(&sandbox, &["connect", "127.0.0.1", &port]).await?;
    if said == Strength::Enforced {
        found.refused("the receipt says enforced; a connection to the host")?;
    } else if bench.tier == Tier::Passthrough {
        found.given("the receipt says none; a connection to the host")?;
    }
    Ok(())
}

async fn requiring_what_is_held_succeeds(bench: Arc<Bench>) -> Verdict {
    let planned = bench.provider.plan(&spec(|_| {})).await?;
    let held: Vec<_> = planned
        .controls
        .iter()
        .filter(|(control, report)| {
            let policy = spec(|_| {}).egress_on(bench.tier);
            report.strength == Strength::Enforced
                && best(&bench, *control, &policy) == Strength::Enforced
        })
        .map(|(control, _)| control)
        .collect();
    let sandbox = bench.sandbox_with(|s| s.require = held.clone()).await?;
    for control in held {
        ensure_eq!(
            sandbox.receipt().controls.get(control).strength,
            Strength::Enforced,
            "`{control}`, required"
        );
    }
    Ok(())
}

async fn requiring_what_is_not_held_is_refused(bench: Arc<Bench>) -> Verdict {
    let policy = spec(|_| {}).egress_on(bench.tier);
    for control in Control::ALL {
        if best(&bench, control, &policy) == Strength::Enforced {
            continue;
        }
        let err = is_refused(&bench, &format!("`{control}` required"), |s| {
            s.require = vec![control];
        })
        .await?;
        ensure!(
            err.reasons().iter().any(|r| r.contains(control.as_str())),
            "the refusal does not name `{control}`: {:?}",
            err.reasons()
        );
    }
    Ok(())
}

async fn labels_are_kept(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench
        .sandbox_with(|s| {
            s.labels.insert("job".into(), "ü 42".into());
        })
        .await?;
    ensure_eq!(
        sandbox.receipt().labels.get("job").map(String::as_str),
        Some("ü 42"),
        "a label"
    );
    Ok(())
}
