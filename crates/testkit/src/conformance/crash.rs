//! A host process that is killed: the test binary starts itself again to be it.

use std::io::Write;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;

use namzu_client::SandboxProvider;
use namzu_core::Backend;
use namzu_core::types::{EgressPolicy, SandboxSpec};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::conformance::check::{Failure, Verdict};
use crate::conformance::lifecycle::inhabit;

/// Set in the process that is to be killed: the id of the sandbox it makes, after [`DETACHED`] of one
/// that outlives it, with doors.
const ROLE: &str = "NAMZU_TESTKIT_CRASH";
const DETACHED: &str = "detached:";
const READY: &str = "ready to be killed";

/// The id of the sandbox to make, if this process is here to be killed.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Makes the sandbox, says so, and waits to be killed.
pub(crate) fn play(id: &str, backend: Result<Arc<dyn Backend>, String>) -> ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    else {
        return ExitCode::FAILURE;
    };
    let made: Verdict = runtime.block_on(async {
        let backend = backend.map_err(Failure::new)?;
        let provider = SandboxProvider::new(backend, SandboxSpec::default());
        let detached = id.strip_prefix(DETACHED);
        let spec = SandboxSpec {
            id: Some(detached.unwrap_or(id).parse()?),
            detach: detached.is_some(),
            egress: detached.map(|_| EgressPolicy::hosts(["a.world.test"])),
            ..SandboxSpec::default()
        };
        let sandbox = provider.create(spec).await?;
        if detached.is_none() {
            inhabit(&sandbox, id).await?;
        }
        say(READY)?;
        std::future::pending::<()>().await;
        drop(sandbox);
        Ok(())
    });
    if let Err(why) = made {
        // Nobody is left to tell when this fails too.
        let _ = say(&format!("failed: {why}"));
    }
    ExitCode::FAILURE
}

/// The role of a host whose sandbox outlives it.
pub(crate) fn detached(id: &str) -> String {
    format!("{DETACHED}{id}")
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Starts a host process of this role, waits until its sandbox is inhabited, and kills it without
/// warning.
pub(crate) async fn kill_a_host(role: &str) -> Verdict {
    let mut child = namzu_core::spawn::command(std::env::current_exe()?)
        // It must find the same programs and directories as this process does.
        .envs(std::env::vars_os())
        .env(ROLE, role)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (out, mut err) = (child.stdout.take(), child.stderr.take());
    let out = out.ok_or_else(|| Failure::new("the host process has no output"))?;
    let mut lines = BufReader::new(out).lines();
    let said = lines.next_line().await?;
    if said.as_deref() != Some(READY) {
        let mut told = String::new();
        if let Some(err) = &mut err {
            child.start_kill()?;
            err.read_to_string(&mut told).await?;
        }
        return Err(Failure::new(format!(
            "the host process said {said:?} and {told:?}"
        )));
    }
    // SIGKILL: nothing of it runs again.
    child.kill().await?;
    Ok(())
}
