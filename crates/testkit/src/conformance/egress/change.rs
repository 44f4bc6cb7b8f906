//! A policy that changes while the sandbox runs: it bites at once, and only where it must.

use std::sync::Arc;

use namzu_client::{Process, Sandbox};
use namzu_core::ErrorCode;
use namzu_core::types::EgressPolicy;
use serde_json::json;

use super::listed::{asking, declared, guest};
use crate::conformance::bench::{Bench, probe, probe_request, run, sh};
use crate::conformance::case::{Case, When, case};
use crate::conformance::check::{Verdict, ensure, ensure_eq, refused_with};
use crate::conformance::processes::read_at_least;
use crate::conformance::world::{Echo, Web, policy, rule, rules};

pub(crate) const CASES: &[Case] = &[
    case!(
        "egress",
        narrowing_cuts_what_is_denied_and_nothing_else,
        guest
    ),
    case!("egress", widening_works_at_once_and_cuts_nothing, guest),
    case!("egress", deny_all_can_be_opened_and_closed_again, guest),
    case!(
        "egress",
        allow_all_by_a_change_still_screens_addresses,
        asking
    ),
    case!("egress", a_bad_change_leaves_the_policy, declared),
    case!("egress", the_receipt_follows_a_change, declared),
    case!("egress", an_open_network_cannot_be_closed, |b| {
        When::declared(b.capabilities.egress.allow_all, "egress allow-all")
    }),
];

/// Starts a connection that stays, and waits until it is there.
async fn stay(sandbox: &Sandbox, host: &str, echo: &Echo) -> Verdict<Process> {
    let port = echo.port.to_string();
    let mut process = sandbox.spawn(probe_request(&["stay", host, &port])).await?;
    hears(&mut process, "probe").await?;
    Ok(process)
}

/// Waits for a line, which must be this one.
async fn hears(process: &mut Process, line: &str) -> Verdict {
    let mut said = Vec::new();
    while !said.ends_with(b"\n") {
        said.extend(read_at_least(process, 1).await?);
    }
    let said = String::from_utf8_lossy(&said);
    ensure!(
        said.lines().any(|heard| heard.starts_with(line)),
        "a connection said {said:?}, not {line:?}"
    );
    Ok(())
}

async fn narrowing_cuts_what_is_denied_and_nothing_else(bench: Arc<Bench>) -> Verdict {
    let (kept, cut) = (Echo::open().await?, Echo::open().await?);
    let keep = rule("kept.world.test", kept.port, "tcp");
    let both = rules(&[keep.clone(), rule("cut.world.test", cut.port, "tcp")])?;
    let sandbox = bench.sandbox_with(|spec| spec.egress = Some(both)).await?;
    let mut lives = stay(&sandbox, "kept.world.test", &kept).await?;
    let mut dies = stay(&sandbox, "cut.world.test", &cut).await?;

    let change = sandbox.set_network_policy(rules(&[keep])?).await?;
    ensure_eq!(change.generation, 2, "the generation");
    ensure_eq!(
        (change.kept, change.cut),
        (1, 1),
        "connections kept and cut"
    );
    // Not in good order: what was cut must not pass for whole.
    hears(&mut dies, "ended ECONNRESET").await?;
    kept.speak("still there");
    hears(&mut lives, "still there").await?;
    probe(&sandbox, &["say", "cut.world.test", &cut.port.to_string()])
        .await?
        .refused("a new connection to what is no longer listed")?;
    Ok(())
}

async fn widening_works_at_once_and_cuts_nothing(bench: Arc<Bench>) -> Verdict {
    let (first, second) = (Echo::open().await?, Echo::open().await?);
    let one = rule("first.world.test", first.port, "tcp");
    let sandbox = {
        let policy = rules(std::slice::from_ref(&one))?;
        bench
            .sandbox_with(|spec| spec.egress = Some(policy))
            .await?
    };
    let mut lives = stay(&sandbox, "first.world.test", &first).await?;
    let both = rules(&[one, rule("second.world.test", second.port, "tcp")])?;
    let change = sandbox.set_network_policy(both).await?;
    ensure_eq!(
        (change.kept, change.cut),
        (1, 0),
        "connections kept and cut"
    );
    // Its port has had no door before.
    probe(
        &sandbox,
        &["say", "second.world.test", &second.port.to_string()],
    )
    .await?
    .given("what is listed now")?;
    first.speak("still there");
    hears(&mut lives, "still there").await
}

async fn deny_all_can_be_opened_and_closed_again(bench: Arc<Bench>) -> Verdict {
    let (echo, web) = (Echo::open().await?, Web::open().await?);
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(EgressPolicy::DenyAll))
        .await?;
    let say = ["say", "opened.world.test", &echo.port.to_string()];
    probe(&sandbox, &say)
        .await?
        .refused("a connection under deny-all")?;
    let open = rules(&[
        rule("opened.world.test", echo.port, "tcp"),
        rule("opened.world.test", web.port, "http"),
    ])?;
    let change = sandbox.set_network_policy(open).await?;
    ensure_eq!(change.generation, 2, "the generation");
    probe(&sandbox, &say).await?.given("what is listed now")?;
    // A command that starts now is told of the proxy.
    let url = format!("http://opened.world.test:{}/", web.port);
    probe(&sandbox, &["get", &url])
        .await?
        .given("a request through the proxy of the environment")?;
    let mut dies = stay(&sandbox, "opened.world.test", &echo).await?;
    let change = sandbox.set_network_policy(EgressPolicy::DenyAll).await?;
    ensure_eq!(
        (change.kept, change.cut),
        (0, 1),
        "connections kept and cut"
    );
    hears(&mut dies, "ended").await?;
    probe(&sandbox, &say)
        .await?
        .refused("a connection under deny-all, again")?;
    Ok(())
}

async fn allow_all_by_a_change_still_screens_addresses(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(EgressPolicy::hosts(["a.world.test"])))
        .await?;
    sandbox.set_network_policy(EgressPolicy::AllowAll).await?;
    ensure_eq!(sandbox.receipt().egress, "allow-all", "the policy in force");
    for url in [
        "http://b.world.test/",
        "http://169.254.169.254/",
        "http://10.0.0.1/",
    ] {
        let said = probe(&sandbox, &["get", url])
            .await?
            .refused(&format!("{url} under allow-all"))?;
        ensure!(
            said.contains("\"address_"),
            "the denial of {url} says {said:?}"
        );
    }
    // The doors stay the only way.
    if bench.guest.system {
        probe(&sandbox, &["interfaces"])
            .await?
            .refused("a network device")?;
    }
    Ok(())
}

async fn a_bad_change_leaves_the_policy(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(EgressPolicy::hosts(["a.world.test"])))
        .await?;
    let bad = policy(json!({"kind": "static", "allowedHosts": ["*", "*.com"]}))?;
    let err = refused_with(
        sandbox.set_network_policy(bad).await,
        ErrorCode::ConfigInvalid,
        "a bad policy",
    )?;
    ensure_eq!(
        err.reasons().len(),
        2,
        "the reasons are {:?}",
        err.reasons()
    );
    ensure_eq!(sandbox.network_policy().generation, 1, "the generation");
    ensure!(
        sandbox.explain("a.world.test").await?.allowed,
        "the policy that was in force is not any more"
    );
    Ok(())
}

async fn the_receipt_follows_a_change(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(EgressPolicy::hosts(["a.world.test"])))
        .await?;
    let before = sandbox.receipt();
    sandbox.set_network_policy(EgressPolicy::DenyAll).await?;
    let after = sandbox.receipt();
    ensure_eq!(before.egress, "static", "the policy before");
    ensure_eq!(after.egress, "deny-all", "the policy after");
    ensure_eq!(after.controls, before.controls, "what holds");
    let said = sandbox.explain("a.world.test").await?;
    ensure_eq!(said.reason, "deny_all", "the reason after");
    ensure_eq!(said.generation, 2, "the generation after");
    Ok(())
}

async fn an_open_network_cannot_be_closed(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(EgressPolicy::AllowAll))
        .await?;
    let err = refused_with(
        sandbox.set_network_policy(EgressPolicy::DenyAll).await,
        ErrorCode::Unsupported,
        "to close an open network",
    )?;
    ensure!(!err.reasons().is_empty(), "it does not say why: {err}");
    ensure_eq!(sandbox.receipt().egress, "allow-all", "the policy in force");
    if bench.guest.system {
        run(&sandbox, sh("true")).await?;
    }
    Ok(())
}
