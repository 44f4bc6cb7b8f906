//! `egress serve`: a plain allowlisting proxy, until a signal.

use std::net::SocketAddr;

use namzu_sandbox::egress::{Boundary, EgressProxy};
use namzu_sandbox::{Chain, Error};
use serde_json::json;

use super::metrics;
use crate::args::ServeArgs;
use crate::boundary;
use crate::context::Context;
use crate::failure::{Failure, local};
use crate::settings;

/// SIGHUP.
const HANGUP: i32 = 1;

pub(crate) async fn run(cx: &mut Context, args: &ServeArgs) -> Result<u8, Failure> {
    let host = Context::host();
    let policy = settings::policy(&args.outward, &host)?.unwrap_or_default();
    let boundary = match boundary::of(&args.boundary, &host)? {
        Some(boundary) => boundary,
        None => Boundary::builder().build()?,
    };
    for address in [Some(args.listen), args.metrics].into_iter().flatten() {
        beware(cx, address);
    }
    let started = EgressProxy::builder()
        .policy(policy)
        .bind(args.listen)
        .boundary(boundary.clone())
        .start();
    let proxy = cx.signals.unless(started).await?;
    give_ca(cx, args, &proxy)?;
    let metrics = match args.metrics {
        Some(address) => Some(metrics::serve(address, boundary).await?),
        None => None,
    };
    let counters = metrics.as_ref().map(|(address, _)| *address);
    announce(cx, proxy.local_addr(), counters)?;
    loop {
        match cx.signals.next().await {
            HANGUP => reload(cx, args, &proxy).await,
            signal => return Err(Failure::Interrupted(signal)),
        }
    }
}

fn beware(cx: &Context, address: SocketAddr) {
    if !address.ip().is_loopback() {
        cx.out.warn(format_args!(
            "whoever reaches {address} is served, without a password"
        ));
    }
}

/// Writes the certificate of the CA, or says that it is needed.
fn give_ca(cx: &Context, args: &ServeArgs, proxy: &EgressProxy) -> Result<(), Failure> {
    match (proxy.ca_pem(), &args.ca) {
        (Some(pem), Some(path)) => std::fs::write(path, pem)
            .map_err(|err| local(format!("writing `{}`", path.display()), err).into()),
        (Some(_), None) => {
            cx.out.warn(
                "the policy looks into TLS, which works only for clients that trust the proxy: --ca FILE",
            );
            Ok(())
        }
        (None, _) => Ok(()),
    }
}

fn announce(
    cx: &Context,
    listens: SocketAddr,
    counters: Option<SocketAddr>,
) -> Result<(), Failure> {
    if cx.out.json {
        return cx
            .out
            .json(&json!({ "listens": listens, "metrics": counters }));
    }
    let mut text = format!(
        "HTTP proxy and SOCKS5 on {listens}\nit is a wall only where something else makes it the only way out\n"
    );
    if let Some(counters) = counters {
        text.push_str(&format!("counters on http://{counters}/metrics\n"));
    }
    cx.out.text(text)
}

/// Puts in force what the file holds now. Whatever is wrong with it, the proxy goes on.
async fn reload(cx: &Context, args: &ServeArgs, proxy: &EgressProxy) {
    let Some(path) = &args.outward.policy else {
        cx.out.warn("there is no --policy to read again");
        return;
    };
    let changed = match settings::read_policy(path, &Context::host()) {
        Ok(policy) => proxy.set_policy(&policy).await.map_err(Failure::from),
        Err(failure) => Err(failure),
    };
    match changed {
        Ok(change) if cx.out.json => cx.out.note(json!({ "changed": change })),
        Ok(change) => cx.out.note(format_args!(
            "generation {}: {} connections kept, {} cut",
            change.generation, change.kept, change.cut
        )),
        Err(failure) => {
            let why = match &failure {
                Failure::Sandbox(err) => chain(err),
                other => other.to_string(),
            };
            cx.out
                .warn(format_args!("the policy stays as it was: {why}"));
        }
    }
}

fn chain(err: &Error) -> String {
    Chain(err).to_string()
}
