//! Limits: declared, each bites and says which it was; undeclared, asking is refused.

use std::sync::Arc;
use std::time::Duration;

use namzu_client::{ExecRequest, ExitStatus};
use namzu_core::types::{SandboxSpec, Strength};
use namzu_core::{Error, ErrorCode};

use crate::conformance::bench::{Answer, Bench, answer, probe, probe_request, run, sh, spec};
use crate::conformance::case::{Case, When, always, case};
use crate::conformance::check::{Failure, Verdict, ensure, ensure_eq, refused_with};

const MIB: u64 = 1 << 20;

pub(crate) const CASES: &[Case] = &[
    case!("limits", memory_bites, |b| held(
        b.capabilities.memory,
        "a memory limit"
    )
    .and(b.python())),
    case!("limits", memory_of_files_counts, |b| firm(
        b.capabilities.memory,
        "a memory limit"
    )
    .and(b.attacker())),
    case!("limits", memory_of_children_adds_up, |b| firm(
        b.capabilities.memory,
        "a memory limit"
    )
    .and(b.attacker())),
    case!("limits", memory_undeclared_is_refused, |b| other_side(
        b.capabilities.memory,
        "a memory limit"
    )),
    case!("limits", pids_bite_and_the_sandbox_lives, |b| held(
        b.capabilities.pids,
        "a limit on processes"
    )
    .and(b.python())),
    case!("limits", pids_undeclared_are_refused, |b| other_side(
        b.capabilities.pids,
        "a limit on processes"
    )),
    case!("limits", cpu_bites, |b| firm(
        b.capabilities.cpu,
        "a processor limit"
    )
    .and(b.attacker())),
    case!("limits", cpu_undeclared_is_refused, |b| other_side(
        b.capabilities.cpu,
        "a processor limit"
    )),
    case!("limits", disk_bites, |b| held(
        b.capabilities.disk,
        "a disk limit"
    )
    .and(b.attacker())),
    case!("limits", disk_undeclared_is_refused, |b| other_side(
        b.capabilities.disk,
        "a disk limit"
    )),
    case!("limits", a_lifetime_ends_the_sandbox, |b| held(
        b.capabilities.lifetime,
        "a lifetime"
    )),
    case!("limits", a_lifetime_undeclared_is_refused, |b| other_side(
        b.capabilities.lifetime,
        "a lifetime"
    )),
    case!(
        "limits",
        limits_of_one_command_bite_and_are_told_apart,
        |b| b.system()
    ),
    case!("limits", limits_of_one_command_stay_with_it, |b| b.system()),
    case!("limits", every_unheld_limit_is_named_at_once, always),
];

fn held(strength: Strength, what: &str) -> When {
    When::declared(strength > Strength::None, what)
}

fn firm(strength: Strength, what: &str) -> When {
    When::declared(
        strength == Strength::Enforced,
        &format!("{what}, enforced,"),
    )
}

fn other_side(strength: Strength, what: &str) -> When {
    When::undeclared(strength > Strength::None, what)
}

/// Asking for it is refused before anything starts, by `plan` as by `create`.
pub(crate) async fn is_refused(
    bench: &Bench,
    what: &str,
    ask: impl Fn(&mut SandboxSpec),
) -> Verdict<Error> {
    let planned = bench.provider.plan(&spec(&ask)).await;
    let err = refused_with(planned, ErrorCode::Unsupported, &format!("planning {what}"))?;
    ensure!(
        !err.reasons().is_empty(),
        "the refusal of {what} names no reason"
    );
    let created = bench.provider.create(spec(&ask)).await;
    refused_with(
        created,
        ErrorCode::Unsupported,
        &format!("creating with {what}"),
    )
}

/// Lets the probe take memory; fails the case when it gets what the limit excludes.
async fn memory_refused(bench: &Bench, verb: &[&str]) -> Verdict {
    let sandbox = bench
        .sandbox_with(|spec| spec.limits.memory = Some(128 * MIB))
        .await?;
    let strength = sandbox.receipt().controls.memory.strength;
    match sandbox.exec(probe_request(verb)).await {
        // Told apart from a command that merely failed, and from a signal sent by anybody.
        Err(err) => ensure_eq!(err.code(), ErrorCode::OutOfMemory, "{verb:?}"),
        Ok(output) => {
            answer(verb, &output)?.refused(&format!("{verb:?} under 128 MiB"))?;
        }
    }
    ensure!(
        strength > Strength::None,
        "a memory limit was asked for and the receipt says {strength}"
    );
    Ok(())
}

async fn memory_bites(bench: Arc<Bench>) -> Verdict {
    // Within the limit it is given: or the next line would prove nothing.
    let sandbox = bench
        .sandbox_with(|spec| spec.limits.memory = Some(512 * MIB))
        .await?;
    probe(&sandbox, &["alloc", "64"])
        .await?
        .given("64 MiB under a limit of 512")?;
    memory_refused(&bench, &["alloc", "512"]).await
}

async fn memory_of_files_counts(bench: Arc<Bench>) -> Verdict {
    memory_refused(&bench, &["alloc_shared", "512"]).await
}

async fn memory_of_children_adds_up(bench: Arc<Bench>) -> Verdict {
    memory_refused(&bench, &["alloc_forked", "512", "8"]).await
}

async fn memory_undeclared_is_refused(bench: Arc<Bench>) -> Verdict {
    is_refused(&bench, "a memory limit", |s| {
        s.limits.memory = Some(MIB << 10);
    })
    .await?;
    Ok(())
}

async fn pids_bite_and_the_sandbox_lives(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench
        .sandbox_with(|spec| spec.limits.processes = Some(48))
        .await?;
    probe(&sandbox, &["forks", "8"])
        .await?
        .given("8 children under a limit of 48")?;
    let output = sandbox.exec(probe_request(&["forks", "200"])).await?;
    let said = answer(&["forks", "200"], &output)?.refused("200 children under a limit of 48")?;
    let got: u32 = said.lines().next().unwrap_or_default().parse()?;
    ensure!(got <= 48, "{got} children lived at once");
    run(&sandbox, ExecRequest::new(["true"])).await?;
    Ok(())
}

async fn pids_undeclared_are_refused(bench: Arc<Bench>) -> Verdict {
    is_refused(&bench, "a limit on processes", |s| {
        s.limits.processes = Some(64);
    })
    .await?;
    Ok(())
}

async fn cpu_bites(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench
        .sandbox_with(|spec| spec.limits.cpus = Some(0.3))
        .await?;
    let ratio: f64 = probe(&sandbox, &["burn", "2"])
        .await?
        .given("burning")?
        .trim()
        .parse()?;
    // A busy host can only lower it. Without the limit two processors burn at 2.
    if ratio >= 0.5 {
        return Err(Failure::new(format!(
            "under a limit of 0.3 processors it used {ratio}"
        )));
    }
    Ok(())
}

async fn cpu_undeclared_is_refused(bench: Arc<Bench>) -> Verdict {
    is_refused(&bench, "a processor limit", |s| s.limits.cpus = Some(1.0)).await?;
    Ok(())
}

async fn disk_bites(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench
        .sandbox_with(|spec| spec.limits.disk = Some(32 * MIB))
        .await?;
    probe(&sandbox, &["fill", "little", "4"])
        .await?
        .given("4 MiB under a limit of 32")?;
    for place in ["much", "/tmp/much"] {
        let answered = probe(&sandbox, &["fill", place, "128"]).await?;
        ensure!(
            matches!(answered, Answer::Refused(_)),
            "{place}: 128 MiB were written under a limit of 32"
        );
    }
    let result = sandbox
        .files()
        .write("by-file-call", vec![7; 64 << 20])
        .await;
    refused_with(result, ErrorCode::DiskFull, "64 MiB by a file call")?;
    Ok(())
}

async fn disk_undeclared_is_refused(bench: Arc<Bench>) -> Verdict {
    is_refused(&bench, "a disk limit", |s| s.limits.disk = Some(MIB << 10)).await?;
    Ok(())
}

async fn a_lifetime_ends_the_sandbox(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench
        .sandbox_with(|spec| spec.limits.lifetime = Some(Duration::from_secs(2)))
        .await?;
    let call = Box::pin(sandbox.exec(ExecRequest::new(["sleep", "100000"])));
    let result = tokio::time::timeout(bench.patience, call)
        .await
        .map_err(|_| Failure::new("the sandbox outlives its lifetime"))?;
    refused_with(
        result,
        ErrorCode::LifetimeExceeded,
        "a command when the lifetime ends",
    )?;
    refused_with(
        sandbox.exec(ExecRequest::new(["true"])).await,
        ErrorCode::LifetimeExceeded,
        "a command after the lifetime",
    )?;
    Ok(())
}

async fn a_lifetime_undeclared_is_refused(bench: Arc<Bench>) -> Verdict {
    is_refused(&bench, "a lifetime", |s| {
        s.limits.lifetime = Some(Duration::from_secs(3600));
    })
    .await?;
    Ok(())
}

async fn limits_of_one_command_bite_and_are_told_apart(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut request = sh("exec head -c 1000000 /dev/zero > limited");
    request.limits.file_size = Some(65_536);
    let output = sandbox.exec(request).await?;
    ensure_eq!(
        output.status,
        ExitStatus::Signal(25),
        "a file past its size ends with SIGXFSZ"
    );
    ensure_eq!(
        sandbox.files().stat("limited").await?.size,
        65_536,
        "what was written"
    );
    let mut request = sh("while :; do :; done");
    request.limits.cpu_seconds = Some(1);
    let status = sandbox.exec(request).await?.status;
    ensure!(
        matches!(status, ExitStatus::Signal(24 | 9)),
        "processor time past its limit ended with {status:?}"
    );
    let mut request = sh("ulimit -n");
    request.limits.open_files = Some(37);
    let open = run(&sandbox, request).await?;
    ensure_eq!(open, b"37\n".to_vec(), "open files a command may have");
    let mut request = sh("ulimit -v");
    request.limits.address_space = Some(512 * MIB);
    let space = run(&sandbox, request).await?;
    ensure_eq!(space, b"524288\n".to_vec(), "KiB of address space");
    Ok(())
}

async fn limits_of_one_command_stay_with_it(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let ask = || sh("ulimit -n; ulimit -f; ulimit -t");
    let before = run(&sandbox, ask()).await?;
    let mut request = ask();
    request.limits.open_files = Some(37);
    request.limits.file_size = Some(65_536);
    request.limits.cpu_seconds = Some(5);
    let limited = run(&sandbox, request).await?;
    ensure!(limited != before, "the limits did not show");
    ensure_eq!(
        run(&sandbox, ask()).await?,
        before,
        "limits of the next command"
    );
    Ok(())
}

async fn every_unheld_limit_is_named_at_once(bench: Arc<Bench>) -> Verdict {
    let all = spec(|s| {
        s.limits.memory = Some(1 << 30);
        s.limits.processes = Some(64);
        s.limits.cpus = Some(1.0);
        s.limits.disk = Some(1 << 30);
        s.limits.lifetime = Some(Duration::from_secs(3600));
    });
    let c = bench.capabilities;
    let unheld = [c.memory, c.pids, c.cpu, c.disk, c.lifetime]
        .into_iter()
        .filter(|strength| *strength == Strength::None)
        .count();
    match bench.provider.plan(&all).await {
        Ok(receipt) => {
            ensure_eq!(unheld, 0, "limits accepted and not held");
            let controls = &receipt.controls;
            for (what, report) in [
                ("memory", &controls.memory),
                ("pids", &controls.pids),
                ("cpu", &controls.cpu),
                ("disk", &controls.disk),
            ] {
                ensure!(
                    report.strength > Strength::None,
                    "{what} was asked for, accepted, and the receipt says none"
                );
            }
        }
        Err(err) => {
            ensure_eq!(err.code(), ErrorCode::Unsupported, "asking for everything");
            ensure!(
                err.reasons().len() >= unheld,
                "{unheld} limits are not held, the refusal names {:?}",
                err.reasons()
            );
        }
    }
    Ok(())
}
