//! How long a command takes: in a live sandbox, and for a whole life of one.

use std::time::{Duration, Instant};

use namzu_backend_process::{Config, Engine, ProcessBackend};
use namzu_sandbox::SandboxProvider;
use namzu_sandbox::types::ExecRequest;

use crate::measure::{Row, human, median, timed};
use crate::peers::Peer;
use crate::{Result, spec};

const EXECS: usize = 2000;
const LIVES: usize = 200;
const SRT_RUNS: usize = 11;

pub(crate) async fn rows(provider: &SandboxProvider) -> Result<Vec<Row>> {
    let (exec, host) = exec(provider).await?;
    let (life, bwrap) = life(provider).await?;
    let mut rows = vec![
        Row {
            figure: "exec of `/bin/true` in a live sandbox, median of 2,000",
            ours: human(exec),
            peer: format!("{} spawn+wait on the host", human(host)),
            ratio: format!("{:.2} ×", exec.as_secs_f64() / host.as_secs_f64()),
            bound: "≤ 1.5 ×",
            met: exec.as_secs_f64() <= 1.5 * host.as_secs_f64(),
        },
        Row {
            figure: "create → first exec → destroy, median of 200",
            ours: human(life),
            peer: format!("{} one-shot bwrap, same view", human(bwrap)),
            ratio: format!("{:.2} ×", life.as_secs_f64() / bwrap.as_secs_f64()),
            bound: "≤ 1.5 ×",
            met: life.as_secs_f64() <= 1.5 * bwrap.as_secs_f64(),
        },
    ];
    rows.extend(against_others(exec)?);
    Ok(rows)
}

async fn exec(provider: &SandboxProvider) -> Result<(Duration, Duration)> {
    let sandbox = provider.create(spec()).await?;
    let host = Peer::host();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..EXECS {
        theirs.extend(host.run());
        let (time, output) = timed(sandbox.exec(ExecRequest::new(["/bin/true"]))).await;
        if !output?.status.success() {
            return Err("true is false inside".into());
        }
        ours.push(time);
    }
    sandbox.destroy().await?;
    Ok((median(&mut ours), median(&mut theirs)))
}

async fn life(provider: &SandboxProvider) -> Result<(Duration, Duration)> {
    let backend = ProcessBackend::new(&Config {
        engine: Engine::Bubblewrap,
    })?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..LIVES {
        let mut one_shot = backend.one_shot(&spec(), &["/bin/true"]).await?;
        let (time, status) = timed(one_shot.status()).await;
        if !status?.success() {
            return Err("bwrap fails".into());
        }
        theirs.push(time);
        let began = Instant::now();
        let sandbox = provider.create(spec()).await?;
        sandbox.exec(ExecRequest::new(["/bin/true"])).await?;
        sandbox.destroy().await?;
        ours.push(began.elapsed());
    }
    Ok((median(&mut ours), median(&mut theirs)))
}

/// Peers that start anew for each command.
fn against_others(exec: Duration) -> Result<Vec<Row>> {
    let cli = Peer::new(
        "namzu-sandbox run",
        [crate::cli()?, "run".into(), "--".into(), "/bin/true".into()],
    );
    let mut rows = Vec::new();
    for (peer, per_command, per_life) in [(Peer::srt(), 200.0, 30.0), (Peer::firejail(), 1.0, 1.0)]
    {
        let Some(peer) = peer else { continue };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..SRT_RUNS {
            theirs.push(peer.run().ok_or("the peer fails")?);
            ours.push(cli.run().ok_or("our command line fails")?);
        }
        let (run, theirs) = (median(&mut ours), median(&mut theirs));
        let srt = peer.name == "srt";
        let live = theirs.as_secs_f64() / exec.as_secs_f64();
        let whole = theirs.as_secs_f64() / run.as_secs_f64();
        rows.push(Row {
            figure: if srt {
                "against `srt true`, per command in a live sandbox"
            } else {
                "against firejail, per command in a live sandbox"
            },
            ours: human(exec),
            peer: human(theirs),
            ratio: format!("{live:.0} × faster"),
            bound: if srt { "≥ 200 ×" } else { "–" },
            met: live >= per_command,
        });
        rows.push(Row {
            figure: if srt {
                "against `srt true`, whole one-shot `run`"
            } else {
                "against firejail, whole one-shot `run`"
            },
            ours: human(run),
            peer: human(theirs),
            ratio: format!("{whole:.1} × faster"),
            bound: if srt { "≥ 30 ×" } else { "–" },
            met: whole >= per_life,
        });
    }
    Ok(rows)
}
