//! The one place that refuses what a backend did not declare.

use std::time::Duration;

use async_trait::async_trait;
use namzu_types::config::{MAX_CPUS, MAX_MIB, MAX_PROCESSES, MIN_CPUS};
use namzu_types::{
    Access, Capabilities, Control, Controls, EgressCapabilities, EgressCredential, EgressPolicy,
    Limits, SandboxId, SandboxInfo, SandboxSpec, Strength, Tier, Workspace,
};

use crate::egress::Wiring;
use crate::{Backend, Error, ErrorCode, Launched, Phase, Result, backend_label};

/// Every reason for which a backend with `capabilities` cannot make `spec`; empty when it can.
#[must_use]
pub fn refusals(tier: Tier, capabilities: &Capabilities, spec: &SandboxSpec) -> Vec<String> {
    // Exhaustive on both sides: a new control or a new wish does not compile until it is decided.
    let Capabilities {
        filesystem,
        processes,
        memory,
        pids,
        cpu,
        disk,
        lifetime,
        syscalls,
        egress,
        host_workspace,
        read_only_workspace,
        detach,
        tunnels: _,
        layout: _,
    } = *capabilities;
    let SandboxSpec {
        id: _,
        workspace,
        egress: _,
        limits,
        env: _,
        labels: _,
        require,
        detach: wants_detach,
        verify_egress,
    } = spec;
    let Limits {
        memory: wants_memory,
        processes: wants_pids,
        cpus,
        disk: wants_disk,
        command: _,
        lifetime: wants_lifetime,
    } = *limits;
    let policy = spec.egress_on(tier);
    let EgressCapabilities {
        deny_all,
        allow_all,
        static_hosts,
        resolver,
    } = egress;

    let mut reasons = Vec::new();
    let mut refuse = |asked: bool, held: bool, what: &str| {
        if asked && !held {
            reasons.push(what.to_owned());
        }
    };
    let holds = |strength: Strength| strength > Strength::None;
    refuse(wants_memory.is_some(), holds(memory), "a memory limit");
    refuse(wants_pids.is_some(), holds(pids), "a limit on processes");
    refuse(cpus.is_some(), holds(cpu), "a processor limit");
    refuse(wants_disk.is_some(), holds(disk), "a disk limit");
    refuse(wants_lifetime.is_some(), holds(lifetime), "a lifetime");
    refuse(*wants_detach, detach, "outliving its maker");
    match workspace {
        Workspace::Private => {}
        Workspace::Host { path: _, access } => {
            refuse(true, host_workspace, "a host directory as workspace");
            refuse(
                *access == Access::ReadOnly,
                read_only_workspace,
                "a read-only workspace",
            );
        }
    }
    let network = match policy {
        EgressPolicy::DenyAll => deny_all,
        EgressPolicy::AllowAll => {
            refuse(true, allow_all, "egress `allow-all`");
            Strength::None
        }
        EgressPolicy::Static { .. } => static_hosts,
        EgressPolicy::Resolver { .. } => resolver,
    };
    if !matches!(policy, EgressPolicy::AllowAll) {
        refuse(true, holds(network), &format!("egress `{}`", policy.kind()));
    }
    refuse(
        *verify_egress,
        !matches!(policy, EgressPolicy::AllowAll),
        "a test of the walls of `allow-all`, which has none",
    );
    for control in require {
        let best = match control {
            Control::Filesystem => filesystem,
            Control::Network => network,
            Control::Processes => processes,
            Control::Memory => memory,
            Control::Pids => pids,
            Control::Cpu => cpu,
            Control::Disk => disk,
            Control::WallClock => lifetime,
            Control::Syscalls => syscalls,
        };
        refuse(
            true,
            best == Strength::Enforced,
            &format!("`{control}` enforced (at best {best} here)"),
        );
    }
    reasons
}

/// A hundred years: added to any clock it is still a time, as no backend need check.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// Everything about `spec` that no backend could make sense of; empty for whatever a configuration
/// that passed its own checks gives. It is for what is built in Rust, or read from elsewhere.
#[must_use]
pub fn malformed(spec: &SandboxSpec) -> Vec<String> {
    let Limits {
        memory,
        processes,
        cpus,
        disk,
        command,
        lifetime,
    } = spec.limits;
    let mut reasons = Vec::new();
    let mut zero = |is_zero: bool, what: &str| {
        if is_zero {
            reasons.push(format!("{what} of nothing"));
        }
    };
    zero(memory == Some(0), "a memory limit");
    zero(processes == Some(0), "a limit on processes");
    zero(disk == Some(0), "a disk limit");
    zero(command.is_some_and(|time| time.is_zero()), "a time limit");
    zero(lifetime.is_some_and(|time| time.is_zero()), "a lifetime");
    for (time, what) in [(command, "a time limit"), (lifetime, "a lifetime")] {
        if time.is_some_and(|time| time > LONGEST) {
            reasons.push(format!("{what} of more than a hundred years"));
        }
    }
    for (bytes, what) in [(memory, "a memory limit"), (disk, "a disk limit")] {
        if bytes.is_some_and(|bytes| bytes > MAX_MIB << 20) {
            reasons.push(format!("{what} of more than {MAX_MIB} MiB"));
        }
    }
    if processes.is_some_and(|count| count > MAX_PROCESSES) {
        reasons.push(format!("a limit on processes of more than {MAX_PROCESSES}"));
    }
    // Not a number is in no range.
    if cpus.is_some_and(|cpus| !(MIN_CPUS..=MAX_CPUS).contains(&cpus)) {
        reasons.push(format!(
            "a processor limit that is not between {MIN_CPUS} and {MAX_CPUS}"
        ));
    }
    for (what, map) in [("variable", &spec.env), ("label", &spec.labels)] {
        for (key, value) in map {
            // A name ends at the first `=`, and the kernel ends both at the first NUL.
            if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
                reasons.push(format!("the {what} `{}`", key.escape_debug()));
            }
        }
    }
    if let Some(policy) = &spec.egress {
        reasons.extend(stand_in_clashes(policy, |name| spec.env.contains_key(name)));
    }
    if let Workspace::Host { path, access: _ } = &spec.workspace
        && !path.is_absolute()
    {
        reasons.push(format!(
            "the workspace `{}`, which is not absolute",
            path.display()
        ));
    }
    reasons
}

/// Every variable that `policy` wants for the stand-in of a credential and that `is_set` already. Of
/// the other variables of the boundary what is set wins; but whoever sets this one would find, where
/// the policy says that there is a stand-in, something else.
pub fn stand_in_clashes(policy: &EgressPolicy, is_set: impl Fn(&str) -> bool) -> Vec<String> {
    let EgressPolicy::Static { credentials, .. } = policy else {
        return Vec::new();
    };
    credentials
        .iter()
        .filter_map(|(name, credential)| match credential {
            EgressCredential::Sentinel { env, .. } if is_set(env) => Some(format!(
                "the variable `{}`, which is to hold the stand-in of credential `{}`",
                env.escape_debug(),
                name.escape_debug()
            )),
            EgressCredential::Sentinel { .. } | EgressCredential::Inject { .. } => None,
        })
        .collect()
}

/// Wraps a backend so that nothing it did not declare ever reaches it.
#[derive(Debug)]
pub struct Guarded<B>(pub B);

impl<B: Backend> Guarded<B> {
    fn check(&self, spec: &SandboxSpec) -> Result<()> {
        let reasons = malformed(spec);
        if !reasons.is_empty() {
            return Err(Error::new(
                ErrorCode::InvalidArgument,
                "no sandbox can have what was asked",
            )
            .with_reasons(reasons)
            .during(Phase::Plan));
        }
        let reasons = refusals(self.0.tier(), &self.0.capabilities(), spec);
        if reasons.is_empty() {
            return Ok(());
        }
        let label = backend_label(self.0.tier(), self.0.name());
        Err(Error::new(ErrorCode::Unsupported, format!("{label} cannot hold what was asked"))
            .with_reasons(reasons)
            .with_hint("drop these from the request, or choose a backend that holds them: `namzu-sandbox backends`")
            .on(&label)
            .during(Phase::Plan))
    }

    /// Holds the backend to `require` with what it says it really gives.
    fn check_required(&self, spec: &SandboxSpec, controls: &Controls) -> Result<()> {
        let lacking: Vec<(Control, Strength)> = spec
            .require
            .iter()
            .map(|control| (*control, controls.get(*control).strength))
            .filter(|(_, strength)| *strength != Strength::Enforced)
            .collect();
        if lacking.is_empty() {
            return Ok(());
        }
        // Nothing holds what nobody asked for, however much the host could.
        let unasked: Vec<(Control, &str)> = lacking
            .iter()
            .filter(|(_, strength)| *strength == Strength::None)
            .filter_map(|(control, _)| Some((*control, unasked(*control, &spec.limits)?)))
            .collect();
        let reasons = lacking.iter().map(|(control, strength)| {
            if unasked.iter().any(|(known, _)| known == control) {
                format!("`{control}` is required but no limit was asked for")
            } else {
                format!("`{control}` enforced (here {strength})")
            }
        });
        let message = if unasked.len() == lacking.len() {
            "the requirements cannot be met"
        } else {
            "this host cannot hold what was required"
        };
        let mut err = Error::new(ErrorCode::Unsupported, message).with_reasons(reasons.collect());
        if !unasked.is_empty() {
            let ways: Vec<&str> = unasked.iter().map(|(_, way)| *way).collect();
            err = err.with_hint(format!("ask for a limit: {}", ways.join("; ")));
        }
        Err(err.during(Phase::Plan))
    }
}

/// How to ask for the limit that `control` is about; `None` where it was asked for, or is no limit.
const fn unasked(control: Control, limits: &Limits) -> Option<&'static str> {
    let Limits {
        memory,
        processes,
        cpus,
        disk,
        command,
        lifetime,
    } = limits;
    let (asked, way) = match control {
        Control::Memory => (memory.is_some(), "`--memory 512m`, `defaultMemoryLimitMb`"),
        Control::Pids => (processes.is_some(), "`--pids 64`, `defaultMaxProcesses`"),
        Control::Cpu => (cpus.is_some(), "`--cpus 0.5`, `defaultCpus`"),
        Control::Disk => (disk.is_some(), "`--disk 1g`, `defaultDiskLimitMb`"),
        Control::WallClock => (
            command.is_some() || lifetime.is_some(),
            "`--lifetime 10m`, `defaultLifetimeMs`",
        ),
        Control::Filesystem | Control::Network | Control::Processes | Control::Syscalls => {
            return None;
        }
    };
    if asked { None } else { Some(way) }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<B: Backend> Backend for Guarded<B> {
    fn tier(&self) -> Tier {
        self.0.tier()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn plan(&self, spec: &SandboxSpec) -> Result<Controls> {
        self.check(spec)?;
        let controls = self.0.plan(spec).await?;
        self.check_required(spec, &controls)?;
        Ok(controls)
    }

    async fn launch(&self, spec: &SandboxSpec, wiring: &Wiring) -> Result<Launched> {
        self.assess(spec).await?;
        let mut launched = self.0.launch(spec, wiring).await?;
        if let Err(refused) = self.check_required(spec, &launched.controls) {
            // The refusal is the news; that it could not be taken down comes with it.
            return Err(match launched.teardown.destroy().await {
                Ok(()) => refused,
                Err(left) => refused.with_source(left),
            });
        }
        Ok(launched)
    }

    async fn assess(&self, spec: &SandboxSpec) -> Result<Controls> {
        self.check(spec)?;
        let controls = self.0.assess(spec).await?;
        self.check_required(spec, &controls)?;
        Ok(controls)
    }

    async fn attach(&self, id: &SandboxId) -> Result<Launched> {
        self.0.attach(id).await
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        self.0.list().await
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        self.0.destroy(id).await
    }

    fn cannot_detach(&self, id: &SandboxId) -> Error {
        self.0.cannot_detach(id)
    }
}

#[cfg(test)]
mod tests;
