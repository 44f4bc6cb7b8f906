//! `doctor`: what this host can do, and how to mend what it cannot.

use namzu_sandbox::types::SandboxSpec;
use namzu_sandbox::{Finding, SandboxProviderConfig, Verdict, create_sandbox_provider, doctor};
use serde_json::json;

use crate::context::Context;
use crate::escape::Escaped;
use crate::failure::Failure;
use crate::output::failure_json;
use crate::table::Table;

/// Succeeds where the default sandbox can be made.
pub(crate) async fn run(cx: &mut Context) -> Result<u8, Failure> {
    let findings = cx.signals.unless(async { Ok(doctor().await) }).await?;
    // The word of the backend that would do it, not a sum of findings.
    let default = async {
        let provider = create_sandbox_provider(&SandboxProviderConfig::default())?;
        provider.plan(&SandboxSpec::default()).await
    };
    let planned = cx.signals.unless(default).await;
    if cx.out.json {
        cx.out.json(&json!({
            "findings": findings,
            "receipt": planned.as_ref().ok(),
            "error": planned.as_ref().err().and_then(|failure| failure_json(failure).get("error").cloned()),
        }))?;
    } else {
        cx.out.text(table(&findings))?;
        if let Ok(receipt) = &planned {
            cx.out
                .text(format_args!("\na sandbox without flags is {receipt}"))?;
        }
    }
    planned.map(|_| 0)
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
