//! `run`: one command in a fresh sandbox.

use namzu_sandbox::types::{SandboxSpec, Strength, Workspace};
use namzu_sandbox::{Chain, Phase, Sandbox, SandboxProvider};
use serde_json::json;

use crate::args::RunArgs;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::hint::{self, Place};
use crate::report::{self, Report};
use crate::settings::{self, Command};
use crate::{keeper, session, teardown};

pub(crate) async fn run(cx: &mut Context, args: &RunArgs) -> Result<u8, Failure> {
    let (spec, command) = asked(cx, args)?;
    if !args.detach {
        let provider = cx.provider_with(&args.sandbox.boundary, &spec);
        return fresh(cx, provider, spec, &command, args.receipt).await;
    }
    // Whoever made it holds its boundary, and this process does not stay.
    if needs_keeper(cx, &spec).await? {
        return keeper::start(cx).await;
    }
    let made = detach(cx, args, spec, &command).await?;
    announce(cx, args, &made)?;
    Ok(0)
}

/// The same in the background, by whoever stays to hold the boundary.
pub(crate) async fn keep(cx: &mut Context, args: &RunArgs) -> Result<u8, Failure> {
    keeper::hold(cx)?;
    let made = async {
        let (spec, command) = asked(cx, args)?;
        let made = detach(cx, args, spec, &command).await?;
        let ready = keeper::Control::bind(made.sandbox.id())
            .and_then(|control| announce(cx, args, &made).map(|()| control));
        match ready {
            Ok(control) => Ok((made.sandbox, control)),
            Err(failure) => {
                teardown::destroy(&made.sandbox).await?;
                Err(failure)
            }
        }
    }
    .await;
    match made {
        Ok((sandbox, control)) => {
            keeper::ready(cx)?;
            keeper::serve(cx, sandbox, control).await
        }
        Err(failure) => {
            cx.out.failure(&failure);
            Ok(keeper::failed(cx, &failure))
        }
    }
}

fn asked(cx: &Context, args: &RunArgs) -> Result<(SandboxSpec, Command), Failure> {
    let mut spec = settings::spec(&args.sandbox, &Context::host())?;
    if args.detach {
        spec = settings::detached(spec, args.name.clone());
    }
    let command = settings::command(
        &args.command,
        &args.argv,
        // The sandbox itself has the variables already.
        std::collections::BTreeMap::new(),
        cx.stdin_is_terminal,
    );
    Ok((spec, command))
}

/// Whether the boundary has a part in its policy.
async fn needs_keeper(cx: &mut Context, spec: &SandboxSpec) -> Result<bool, Failure> {
    let kind = match &spec.egress {
        Some(policy) => policy.kind().to_owned(),
        // A file may have another default than ours.
        None if cx.has_config() => {
            let provider = cx.provider()?;
            cx.signals.unless(provider.plan(spec)).await?.egress
        }
        None => return Ok(false),
    };
    Ok(matches!(kind.as_str(), "static" | "resolver"))
}

/// Makes a sandbox, runs `command` in it and destroys it, whatever happens.
pub(crate) async fn fresh(
    cx: &mut Context,
    provider: Result<SandboxProvider, Failure>,
    spec: SandboxSpec,
    command: &Command,
    receipt: bool,
) -> Result<u8, Failure> {
    let to = report::destination(command.report.as_deref())?;
    let nothing_shared = spec.workspace == Workspace::Private;
    let mut report = Report::default();
    let outcome = async {
        let provider = provider?;
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

/// A sandbox that was left running, and the command in it.
struct Made {
    sandbox: Sandbox,
    pid: Option<u32>,
}

/// Makes a sandbox, starts `command` in it if there is one, and leaves it running.
async fn detach(
    cx: &mut Context,
    args: &RunArgs,
    spec: SandboxSpec,
    command: &Command,
) -> Result<Made, Failure> {
    let provider = cx.provider_with(&args.sandbox.boundary, &spec)?;
    let nothing_shared = spec.workspace == Workspace::Private;
    let sandbox = cx.signals.unless(provider.create(spec)).await?;
    match start(cx, &sandbox, command).await {
        Ok(pid) => Ok(Made { sandbox, pid }),
        Err(failure) => {
            teardown::destroy(&sandbox).await?;
            Err(advised(failure, command, &sandbox, nothing_shared))
        }
    }
}

fn announce(cx: &Context, args: &RunArgs, made: &Made) -> Result<(), Failure> {
    let Made { sandbox, pid } = made;
    show_receipt(cx, sandbox, args.receipt);
    if cx.out.json {
        cx.out.json(&json!({
            "sandbox": sandbox.id(),
            "receipt": sandbox.receipt(),
            "workspace": sandbox.workspace(),
            "pid": pid,
        }))
    } else {
        cx.out.text(format_args!("{}\n", sandbox.id()))
    }
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
        no_wall: sandbox.receipt().controls.filesystem.strength == Strength::None,
    };
    hint::on_program(failure, command.request.argv.first(), place)
}

fn show_receipt(cx: &Context, sandbox: &Sandbox, wanted: bool) {
    // The JSON report has it anyway.
    if wanted && !cx.out.json {
        cx.out.note(sandbox.receipt().to_string().trim_end());
    }
}
