//! What is let out is carried whole, however much, however many, and however slowly it is read.

use std::sync::Arc;
use std::time::Duration;

use namzu_client::ExecRequest;

use super::listed::guest;
use crate::conformance::bench::{Bench, probe, probe_request, run};
use crate::conformance::case::{Case, case};
use crate::conformance::check::{Verdict, ensure, ensure_eq};
use crate::conformance::host;
use crate::conformance::processes::read_at_least;
use crate::conformance::world::{Echo, Flood, Mirror, rule, rules};

pub(crate) const CASES: &[Case] = &[
    case!("egress", a_large_transfer_arrives_whole_both_ways, guest),
    case!("egress", many_connections_at_once_are_carried, guest),
    case!("egress", one_way_may_end_before_the_other, guest),
    case!(
        "egress",
        connections_that_are_not_read_hold_up_nothing_else,
        guest
    ),
    case!("egress", no_command_can_change_the_network, guest),
];

/// Of a transfer.
const MIB: u32 = 200;

async fn a_large_transfer_arrives_whole_both_ways(bench: Arc<Bench>) -> Verdict {
    let mirror = Mirror::open().await?;
    let policy = rules(&[rule("large.world.test", mirror.port, "tcp")])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let said = probe(
        &sandbox,
        &[
            "mirrored",
            "large.world.test",
            &mirror.port.to_string(),
            &MIB.to_string(),
        ],
    )
    .await?
    .given("a transfer both ways at once, by its hash")?;
    ensure_eq!(said, format!("{} bytes", MIB << 20), "what came back");
    Ok(())
}

async fn many_connections_at_once_are_carried(bench: Arc<Bench>) -> Verdict {
    let echo = Echo::open().await?;
    let policy = rules(&[rule("many.world.test", echo.port, "tcp")])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let said = probe(
        &sandbox,
        &["crowd", "many.world.test", &echo.port.to_string(), "200"],
    )
    .await?
    .given("connections that are open at once")?;
    ensure_eq!(said, "200", "connections that were answered");
    Ok(())
}

async fn one_way_may_end_before_the_other(bench: Arc<Bench>) -> Verdict {
    let mirror = Mirror::open().await?;
    let policy = rules(&[rule("half.world.test", mirror.port, "tcp")])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let port = mirror.port.to_string();
    let said = probe(&sandbox, &["half", "half.world.test", &port])
        .await?
        .given("an answer after the end of the question")?;
    ensure_eq!(said, "question answered", "what came back");
    Ok(())
}

async fn connections_that_are_not_read_hold_up_nothing_else(bench: Arc<Bench>) -> Verdict {
    let (flood, echo) = (Flood::open().await?, Echo::open().await?);
    let policy = rules(&[
        rule("flood.world.test", flood.port, "tcp"),
        rule("calm.world.test", echo.port, "tcp"),
    ])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let mut deaf = sandbox
        .spawn(probe_request(&[
            "deaf",
            "flood.world.test",
            &flood.port.to_string(),
            "24",
        ]))
        .await?;
    read_at_least(&mut deaf, 1).await?;
    // All that is on the way is full when no more is taken.
    let mut sent = 0;
    host::eventually(bench.patience, "the flood has filled up", || {
        let (before, now) = (sent, flood.sent());
        sent = now;
        async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok(if now > 0 && now == before {
                Ok(())
            } else {
                Err(format!("{now} bytes were taken"))
            })
        }
    })
    .await?;
    let port = echo.port.to_string();
    probe(&sandbox, &["say", "calm.world.test", &port])
        .await?
        .given("a connection beside those")?;
    let mut request = ExecRequest::new(["wc", "-c"]);
    request.stdin = vec![b'x'; 1 << 20].into();
    let counted = run(&sandbox, request).await?;
    ensure!(
        counted.starts_with(b"1048576"),
        "a command beside those got {counted:?}"
    );
    Ok(())
}

async fn no_command_can_change_the_network(bench: Arc<Bench>) -> Verdict {
    let echo = Echo::open().await?;
    let policy = rules(&[rule("same.world.test", echo.port, "tcp")])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let why = probe(&sandbox, &["reroute"])
        .await?
        .refused("taking the loopback down")?;
    ensure!(why.starts_with("EPERM"), "it was refused with {why}");
    probe(
        &sandbox,
        &["say", "same.world.test", &echo.port.to_string()],
    )
    .await?
    .given("a connection after the attempt")?;
    Ok(())
}
