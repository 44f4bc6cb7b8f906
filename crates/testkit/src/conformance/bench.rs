//! The backend under test, and what the cases do with it all the time.

use std::sync::Arc;
use std::time::Duration;

use namzu_client::{ExecOutput, ExecRequest, ExitStatus, Sandbox, SandboxProvider};
use namzu_core::types::{Capabilities, SandboxSpec, Tier};
use namzu_core::{Backend, Result};
use tokio::sync::RwLock;

use crate::conformance::case::When;
use crate::conformance::check::{Failure, Verdict, shown};
use crate::conformance::world::World;

/// Asks the kernel for what it must not give; see its own documentation.
pub(crate) const PROBE: &str = include_str!("probe.py");

/// A backend under test.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) provider: SandboxProvider,
    pub(crate) capabilities: Capabilities,
    pub(crate) tier: Tier,
    pub(crate) guest: Guest,
    /// What is outside the boundary.
    pub(crate) world: World,
    /// Cases share it; a case that measures this process takes it for itself.
    pub(crate) quiet: RwLock<()>,
    /// How long anything may take before it counts as hung.
    pub(crate) patience: Duration,
}

/// What a default sandbox has to test with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    /// `python3`, for the probe.
    pub(crate) python: bool,
    /// A POSIX shell with its tools on a kernel. False on a simulation.
    pub(crate) system: bool,
    /// Commands run as user 0.
    pub(crate) root: bool,
}

impl Guest {
    /// Finds out by asking.
    async fn of(sandbox: &Sandbox) -> Result<Self> {
        let succeeds = async |argv: &[&str], wanted: &[u8]| -> Result<bool> {
            match sandbox.exec(ExecRequest::new(argv.to_vec())).await {
                Ok(output) => Ok(output.status.success() && output.stdout.to_vec() == wanted),
                Err(err) if err.code() == namzu_core::ErrorCode::CommandNotStarted => Ok(false),
                Err(err) => Err(err),
            }
        };
        Ok(Self {
            python: succeeds(&["python3", "-c", "print(6*7)"], b"42\n").await?,
            system: succeeds(
                &["/bin/sh", "-c", "for x in a b; do echo $x; done | tr ab AB"],
                b"A\nB\n",
            )
            .await?,
            root: succeeds(&["id", "-u"], b"0\n").await?,
        })
    }
}

/// What the kernel answered to the probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It gave what was asked.
    Given(String),
    /// It refused, for this reason.
    Refused(String),
}

impl Answer {
    /// Fails the case unless it was refused; gives back why.
    pub(crate) fn refused(self, what: &str) -> Verdict<String> {
        match self {
            Self::Refused(why) => Ok(why),
            Self::Given(what_came) => Err(Failure::new(format!(
                "{what}: the sandbox gave it: {what_came:?}"
            ))),
        }
    }

    /// Fails the case unless it was given; gives back what came.
    pub(crate) fn given(self, what: &str) -> Verdict<String> {
        match self {
            Self::Given(came) => Ok(came),
            Self::Refused(why) => Err(Failure::new(format!("{what}: refused: {why}"))),
        }
    }
}

impl Bench {
    /// Makes one sandbox to see what the others will have to test with.
    pub(crate) async fn open(backend: Arc<dyn Backend>, patience: Duration) -> Result<Self> {
        let (capabilities, tier) = (backend.capabilities(), backend.tier());
        let world = World::new()?;
        let provider = SandboxProvider::new(backend, SandboxSpec::default())
            .with_boundary(world.boundary.clone());
        let sandbox = provider.create(SandboxSpec::default()).await?;
        let guest = Guest::of(&sandbox).await?;
        // Whether it can be taken down in good order is for the cases to say.
        drop(sandbox);
        Ok(Self {
            provider,
            capabilities,
            tier,
            guest,
            world,
            quiet: RwLock::new(()),
            patience,
        })
    }

    /// A sandbox that asks for nothing.
    pub(crate) async fn sandbox(&self) -> Verdict<Sandbox> {
        Ok(self.provider.create(SandboxSpec::default()).await?)
    }

    /// A sandbox that asks for what `ask` sets.
    pub(crate) async fn sandbox_with(
        &self,
        ask: impl FnOnce(&mut SandboxSpec),
    ) -> Verdict<Sandbox> {
        Ok(self.provider.create(spec(ask)).await?)
    }

    /// Applies where commands run on a kernel with POSIX tools.
    pub(crate) fn system(&self) -> When {
        When::available(self.guest.system, "no POSIX shell and tools in the sandbox")
    }

    /// Applies where the probe can run; on a simulation with the verbs it knows.
    pub(crate) fn python(&self) -> When {
        When::available(self.guest.python, "no python3 in the sandbox")
    }

    /// Applies where the probe can run against a kernel.
    pub(crate) fn attacker(&self) -> When {
        self.python().and(self.system())
    }

    /// Applies where the sandbox's processes are processes of this host.
    pub(crate) fn local(&self) -> When {
        When::available(
            matches!(self.tier, Tier::Process | Tier::Passthrough),
            "its processes are not visible from here",
        )
        .and(self.system())
    }
}

/// A request for a sandbox.
pub(crate) fn spec(ask: impl FnOnce(&mut SandboxSpec)) -> SandboxSpec {
    let mut spec = SandboxSpec::default();
    ask(&mut spec);
    spec
}

/// A shell command.
pub(crate) fn sh(script: &str) -> ExecRequest {
    ExecRequest::new(["/bin/sh", "-c", script])
}

/// Runs a command that must succeed and say nothing on standard error; gives back its output.
pub(crate) async fn run(sandbox: &Sandbox, request: ExecRequest) -> Verdict<Vec<u8>> {
    let argv = shown(&request.argv.join(&b' '));
    let output = sandbox.exec(request).await?;
    succeeded(&argv, &output)?;
    Ok(output.stdout.to_vec())
}

/// As [`run`], for one line of text.
pub(crate) async fn line(sandbox: &Sandbox, script: &str) -> Verdict<String> {
    let bytes = run(sandbox, sh(script)).await?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

fn succeeded(argv: &str, output: &ExecOutput) -> Verdict {
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "`{argv}` ended with {:?}; stdout {}; stderr {}",
        output.status,
        shown(&output.stdout.to_vec()),
        shown(&output.stderr.to_vec()),
    )))
}

/// The request that runs the probe.
pub(crate) fn probe_request(verb: &[&str]) -> ExecRequest {
    ExecRequest::new(["python3", "-c", PROBE].iter().chain(verb).copied())
}

/// Lets the probe ask for something.
pub(crate) async fn probe(sandbox: &Sandbox, verb: &[&str]) -> Verdict<Answer> {
    let output = sandbox.exec(probe_request(verb)).await?;
    answer(verb, &output)
}

/// Reads what the probe found.
pub(crate) fn answer(verb: &[&str], output: &ExecOutput) -> Verdict<Answer> {
    let said = output.stdout.text_lossy().trim_end().to_owned();
    match output.status {
        ExitStatus::Code(0) => Ok(Answer::Given(said)),
        ExitStatus::Code(10) => Ok(Answer::Refused(said)),
        other => Err(Failure::new(format!(
            "the probe {verb:?} broke with {other:?}: {said}: {}",
            shown(&output.stderr.to_vec())
        ))),
    }
}
