//! `egress`: the boundary for programs of this host, around one or as a proxy.

mod metrics;
mod serve;

use std::collections::BTreeMap;

use namzu_sandbox::types::{EgressPolicy, SandboxSpec};
use namzu_sandbox::{Error, ErrorCode, Phase, SandboxProvider, network_jail};

use crate::args::{EgressArgs, EgressVerb};
use crate::boundary;
use crate::commands::run;
use crate::context::Context;
use crate::failure::Failure;
use crate::settings;

/// What `--allow-unix-sockets` gives away.
const OPEN: &str = "unix sockets of this host can be used inside: what listens there (Docker, \
                    D-Bus, an agent) may do what the policy forbids";

pub(crate) async fn run(cx: &mut Context, args: &EgressArgs) -> Result<u8, Failure> {
    cx.no_backend("egress")?;
    match &args.verb {
        Some(EgressVerb::Serve(args)) => serve::run(cx, args).await,
        None => around(cx, args).await,
    }
}

/// Runs a command of this host in a network with no way out but the boundary.
async fn around(cx: &mut Context, args: &EgressArgs) -> Result<u8, Failure> {
    let host = Context::host();
    let policy = settings::policy(&args.outward, &host)?.unwrap_or_default();
    if policy == EgressPolicy::AllowAll {
        return Err(Error::new(
            ErrorCode::Unsupported,
            "`egress` confines nothing with `allow-all`",
        )
        .with_hint("run the command without it, or name what it needs with --allow")
        .during(Phase::Plan)
        .into());
    }
    let spec = SandboxSpec {
        egress: Some(policy),
        verify_egress: args.verify_egress,
        ..SandboxSpec::default()
    };
    let command = settings::command(
        &args.command,
        &args.argv,
        BTreeMap::new(),
        cx.stdin_is_terminal,
    );
    if args.allow_unix_sockets {
        cx.out.warn(OPEN);
    }
    let provider = provider(args);
    run::fresh(cx, provider, spec, &command, args.receipt).await
}

fn provider(args: &EgressArgs) -> Result<SandboxProvider, Failure> {
    let host = Context::host();
    let provider = network_jail(&(host.cwd)()?, args.allow_unix_sockets)?;
    Ok(match boundary::of(&args.boundary, &host)? {
        Some(boundary) => provider.with_boundary(boundary),
        None => provider,
    })
}
