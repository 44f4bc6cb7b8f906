//! `run`: one command in a fresh sandbox.

use namzu_sandbox::types::{SandboxSpec, Tier, Workspace};
use namzu_sandbox::{Chain, Phase, Sandbox};
use serde_json::json;

use crate::args::RunArgs;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::hint::{self, Place};
use crate::report::{self, Report};
use crate::settings::{self, Command};
use crate::{session, teardown};

pub(crate) async fn run(cx: &mut Context, args: &RunArgs) -> Result<u8, Failure> {
    let spec = settings::spec(&args.sandbox, &Context::host())?;
    let command = settings::command(
        &args.command,
        &args.argv,
        // The sandbox itself has the variables already.
        std::collections::BTreeMap::new(),
        cx.stdin_is_terminal,
    );
    if args.detach {
        let spec = settings::detached(spec, args.name.clone());
        return detach(cx, spec, &command, args.receipt).await;
    }
    fresh(cx, spec, &command, args.receipt).await
}

/// Makes a sandbox, runs `command` in it and destroys it, whatever happens.
pub(crate) async fn fresh(
    cx: &mut Context,
    spec: SandboxSpec,
    command: &Command,
    receipt: bool,
) -> Result<u8, Failure> {
    let to = report::destination(command.report.as_deref())?;
    let nothing_shared = spec.workspace == Workspace::Private;
    let mut report = Report::default();
    let outcome = async {
        let provider = cx.provider()?;
        let sandbox = cx.signals.unless(provider.create(spec)).await?;
        report.sandbox(&sandbox);
        show_receipt(cx, &sandbox, receipt);
        let ended = session::run(
            &sandbox,
            command,
            &mut cx.signals,
            cx.out,
            &mut report.midline,
        )
        .await
        .map_err(|failure| advised(failure, command, &sandbox, nothing_shared));
        let destroyed = teardown::destroy(&sandbox).await;
        let ended = match (ended, destroyed) {
            (Ok(ended), Ok(())) => ended,
            (Ok(_), Err(err)) => return Err(err.into()),
            (Err(failure), destroyed) => {
                if let Err(err) = destroyed {
                    cx.out.warn(Chain(&err));
                }
                return Err(failure);
            }
        };
        report.ended(&ended);
        Ok(exit::of_status(ended.status))
    }
    .await;
    report.publish(outcome, to, cx.out)
}

/// Makes a sandbox, starts `command` in it if there is one, and leaves it running.
async fn detach(
    cx: &mut Context,
    spec: SandboxSpec,
    command: &Command,
    receipt: bool,
) -> Result<u8, Failure> {
    let provider = cx.provider()?;
    let nothing_shared = spec.workspace == Workspace::Private;
    let sandbox = cx.signals.unless(provider.create(spec)).await?;
    let pid = match start(cx, &sandbox, command).await {
        Ok(pid) => pid,
        Err(failure) => {
            teardown::destroy(&sandbox).await?;
            return Err(advised(failure, command, &sandbox, nothing_shared));
        }
    };
    show_receipt(cx, &sandbox, receipt);
    if cx.out.json {
        cx.out.json(&json!({
            "sandbox": sandbox.id(),
            "receipt": sandbox.receipt(),
            "workspace": sandbox.workspace(),
            "pid": pid,
        }))?;
    } else {
        cx.out.text(format_args!("{}\n", sandbox.id()))?;
    }
    Ok(0)
}

async fn start(
    cx: &mut Context,
    sandbox: &Sandbox,
    command: &Command,
) -> Result<Option<u32>, Failure> {
    if command.request.argv.is_empty() {
        return Ok(None);
    }
    let started = sandbox.spawn_background(command.request.clone());
    let process = cx
        .signals
        .unless(async { started.await.map_err(|err| err.during(Phase::Exec)) })
        .await?;
    Ok(Some(process.pid()))
}

/// Says what may help where the program was not found.
pub(super) fn advised(
    failure: Failure,
    command: &Command,
    sandbox: &Sandbox,
    nothing_shared: bool,
) -> Failure {
    let place = Place {
        nothing_shared,
        no_wall: sandbox.receipt().tier == Tier::Passthrough,
    };
    hint::on_program(failure, command.request.argv.first(), place)
}

fn show_receipt(cx: &Context, sandbox: &Sandbox, wanted: bool) {
    // The JSON report has it anyway.
    if wanted && !cx.out.json {
        cx.out.note(sandbox.receipt().to_string().trim_end());
    }
}
