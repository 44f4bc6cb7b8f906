//! `doctor`: what this host can do, and how to mend what it cannot.

use std::time::Duration;

use namzu_sandbox::types::SandboxSpec;
use namzu_sandbox::{Error, ErrorCode, ExecRequest, Finding, Phase, Receipt, Verdict, doctor};
use serde_json::json;

use crate::commands::backends::policies;
use crate::context::Context;
use crate::escape::Escaped;
use crate::failure::Failure;
use crate::output::failure_json;
use crate::table::Table;
use crate::teardown;

/// What the sandbox that is tried runs: the shell that `shell` needs, too.
const TRY: [&str; 3] = ["/bin/sh", "-c", "exit 0"];

/// How long it may run.
const PATIENCE: Duration = Duration::from_secs(30);

/// Succeeds where a sandbox without flags, of the backend that was named or else the default one,
/// can be made, runs a command, and goes away again.
pub(crate) async fn run(cx: &mut Context) -> Result<u8, Failure> {
    let findings = cx.signals.unless(async { Ok(doctor().await) }).await?;
    // A sandbox that was there, not a sum of findings.
    let tried = attempt(cx).await;
    if let Err(Failure::Interrupted(signal)) = tried {
        return Err(Failure::Interrupted(signal));
    }
    let egress = cx.provider().map(|provider| provider.capabilities());
    if cx.out.json {
        cx.out.json(&json!({
            "findings": findings,
            "egress": egress.as_ref().ok().map(|held| held.egress),
            "receipt": tried.as_ref().ok(),
            "error": tried.as_ref().err().and_then(|failure| failure_json(failure).get("error").cloned()),
        }))?;
    } else {
        cx.out.text(table(&findings))?;
        if let Ok(receipt) = &tried {
            cx.out
                .text(format_args!("\na sandbox without flags is {receipt}"))?;
            if let Ok(held) = &egress {
                let policies = policies(held);
                cx.out.text(format_args!(
                    "\negress policies that it can hold: {policies}\n"
                ))?;
            }
        }
    }
    tried.map(|_| 0)
}

/// Makes the sandbox that `run` without flags makes, and says what held it.
async fn attempt(cx: &mut Context) -> Result<Receipt, Failure> {
    let provider = cx.provider()?;
    let created = provider.create(SandboxSpec::default());
    let sandbox = cx.signals.unless(created).await?;
    let request = ExecRequest {
        timeout: Some(PATIENCE),
        ..ExecRequest::new(TRY)
    };
    let output = cx.signals.unless(sandbox.exec(request)).await;
    let destroyed = teardown::destroy(&sandbox).await;
    let status = output?.status;
    destroyed?;
    if !status.success() {
        return Err(Error::new(
            ErrorCode::BackendFailed,
            format!("`{}` failed in a fresh sandbox: {status:?}", TRY.join(" ")),
        )
        .during(Phase::Exec)
        .into());
    }
    Ok(sandbox.receipt())
}

fn table(findings: &[Finding]) -> String {
    let mut text = Table::headless();
    for finding in findings {
        text.row([
            finding.verdict.to_string(),
            finding.backend.clone(),
            finding.subject.clone(),
            Escaped(&finding.found).to_string(),
        ]);
    }
    let mut text = text.to_string();
    for finding in findings {
        if let (Some(fix), Verdict::Warning | Verdict::Problem) = (&finding.fix, finding.verdict) {
            text.push_str(&format!("\n{}: {}\n", finding.subject, finding.found));
            for line in fix.lines() {
                text.push_str(&format!("  {}\n", Escaped(line)));
            }
        }
    }
    text
}
