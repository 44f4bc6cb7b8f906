//! Tunnels: connections in and out through the line to the worker.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use namzu_client::{ExecRequest, Process, Sandbox};
use namzu_core::ErrorCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::conformance::bench::{Bench, probe_request, run};
use crate::conformance::case::{Case, When, case};
use crate::conformance::check::{Failure, Verdict, ensure, ensure_eq, refused_with};
use crate::conformance::exec::pattern;
use crate::conformance::processes::read_at_least;

pub(crate) const CASES: &[Case] = &[
    case!("tunnels", expose_carries_bytes_both_ways, declared),
    case!("tunnels", expose_carries_many_at_once, declared),
    case!("tunnels", exposing_a_closed_port_is_not_found, |b| {
        When::declared(b.capabilities.tunnels, "tunnels").and(b.system())
    }),
    case!("tunnels", reach_leads_out_to_what_the_host_dials, declared),
    case!("tunnels", dropping_reach_closes_the_port, declared),
    case!("tunnels", undeclared_is_refused, |b| When::undeclared(
        b.capabilities.tunnels,
        "tunnels"
    )),
];

fn declared(bench: &Bench) -> When {
    When::declared(bench.capabilities.tunnels, "tunnels").and(bench.attacker())
}

/// Starts an echo server inside; gives back its port.
pub(crate) async fn serve(sandbox: &Sandbox) -> Verdict<(Process, u16)> {
    let mut server = sandbox.spawn(probe_request(&["serve", "0"])).await?;
    let mut said = Vec::new();
    while !said.ends_with(b"\n") {
        said.extend(read_at_least(&mut server, 1).await?);
    }
    let port = String::from_utf8_lossy(&said).trim().parse()?;
    Ok((server, port))
}

async fn echoed(sandbox: &Sandbox, port: u16, bytes: &[u8]) -> Verdict {
    let tunnel = sandbox.expose(port).await?;
    let (mut from, mut to) = tokio::io::split(tunnel);
    let (sent, back) = tokio::join!(
        async {
            to.write_all(bytes).await?;
            to.shutdown().await
        },
        async {
            let mut back = Vec::new();
            from.read_to_end(&mut back).await?;
            Ok::<_, io::Error>(back)
        }
    );
    sent?;
    let back = back?;
    ensure!(
        back == bytes,
        "of {} bytes {} came back, or others",
        bytes.len(),
        back.len()
    );
    Ok(())
}

async fn expose_carries_bytes_both_ways(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let (_server, port) = serve(&sandbox).await?;
    for len in [0, 1, 3 << 20] {
        echoed(&sandbox, port, &pattern(len)).await?;
    }
    Ok(())
}

async fn expose_carries_many_at_once(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let (_server, port) = serve(&sandbox).await?;
    // One that never speaks must not hold up the others... once it is gone: the server takes one
    // at a time.
    drop(sandbox.expose(port).await?);
    for round in 0..20_u8 {
        echoed(&sandbox, port, &vec![round; 10_000]).await?;
    }
    Ok(())
}

async fn exposing_a_closed_port_is_not_found(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    // Port 1 of the loopback inside: nobody listens there.
    refused_with(
        sandbox.expose(1).await,
        ErrorCode::NotFound,
        "a port nobody listens on",
    )?;
    run(&sandbox, ExecRequest::new(["true"])).await?;
    Ok(())
}

async fn reach_leads_out_to_what_the_host_dials(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let dialled = Arc::new(AtomicU32::new(0));
    let (count, answering) = (Arc::clone(&dialled), Arc::new(Mutex::new(JoinSet::new())));
    let tasks = Arc::clone(&answering);
    let reach = sandbox
        .reach(0, move || {
            count.fetch_add(1, Ordering::SeqCst);
            let (ours, mut theirs) = tokio::io::duplex(65_536);
            let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.spawn(async move {
                let mut heard = Vec::new();
                if theirs.read_to_end(&mut heard).await.is_ok() {
                    heard.reverse();
                    let _ = theirs.write_all(&heard).await;
                }
            });
            async move { Ok(ours) }
        })
        .await?;
    let port = reach.port().to_string();
    ensure!(reach.port() != 0, "no port was chosen");
    for round in 1..=3 {
        let mut request = probe_request(&["fetch", &port]);
        let bytes = pattern(100_000);
        request.stdin = Some(bytes.clone());
        let back = run(&sandbox, request).await?;
        let wanted: Vec<u8> = bytes.into_iter().rev().collect();
        ensure!(back == wanted, "{} bytes came back, or others", back.len());
        ensure_eq!(
            dialled.load(Ordering::SeqCst),
            round,
            "calls of the dialler"
        );
    }
    Ok(())
}

async fn dropping_reach_closes_the_port(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let dial = || async { Err::<tokio::io::DuplexStream, _>(io::Error::other("nobody is home")) };
    let reach = sandbox.reach(0, dial).await?;
    let port = reach.port();
    drop(reach);
    crate::conformance::host::eventually(bench.patience, "the port is free again", || async {
        Ok(match sandbox.reach(port, dial).await {
            Ok(_) => Ok(()),
            Err(err) if err.code() == ErrorCode::AlreadyExists => Err("it is taken".to_owned()),
            Err(err) => return Err(Failure::from(err)),
        })
    })
    .await
}

async fn undeclared_is_refused(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    refused_with(
        sandbox.expose(1).await,
        ErrorCode::Unsupported,
        "expose, undeclared",
    )?;
    Ok(())
}
