//! `exec`: one command in a running sandbox, which it leaves running.

use namzu_sandbox::types::SandboxId;

use super::run::advised;
use crate::args::ExecArgs;
use crate::context::Context;
use crate::failure::Failure;
use crate::report::{self, Report};
use crate::settings::{self, Command};
use crate::{exit, session};

pub(crate) async fn run(cx: &mut Context, args: &ExecArgs) -> Result<u8, Failure> {
    let env = settings::variables(&args.env, &Context::host())?;
    let command = settings::command(&args.command, &args.argv, env, cx.stdin_is_terminal);
    inside(cx, &args.id, &command).await
}

/// Runs `command` in the sandbox called `id`.
pub(crate) async fn inside(
    cx: &mut Context,
    id: &SandboxId,
    command: &Command,
) -> Result<u8, Failure> {
    let to = report::destination(command.report.as_deref())?;
    let mut report = Report::default();
    let outcome = async {
        let sandbox = cx.connect(id).await?;
        report.sandbox(&sandbox);
        let ended = session::run(
            &sandbox,
            command,
            &mut cx.signals,
            cx.out,
            &mut report.midline,
        )
        .await
        .map_err(|failure| advised(failure, command, &sandbox, false))?;
        report.ended(&ended);
        Ok(exit::of_status(ended.status))
    }
    .await;
    report.publish(outcome, to, cx.out)
}
