//! Builds one sandbox and waits until its worker accepts.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use namzu_core::egress::{Gate, WiredFile, Wiring};
use namzu_core::spawn::{Line, Setup, command, prepare};
use namzu_core::{Channel, Launched, Phase};
use namzu_types::{Access, EgressPolicy, SandboxId, SandboxSpec, Tier, Workspace};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::Command;

use super::args::Args;
use super::channel::ChannelDoors;
use super::data::{LastWords, data};
use super::detach::{Entry, StateDir};
use super::doors::Gatekeeper;
use super::running::Starting;
use super::view::{HOME, RESOLV_CONF, WORKSPACE, devices_to_freeze, resolv_conf};
use crate::backend::{Checked, ProcessBackend};
use crate::cgroup::Group;
use crate::error::Error;
use crate::limits::Sizes;
use crate::probe;

/// Id of the user and of the group inside.
const USER: &str = "1000";

/// How the worker is reached: a private stream, or a socket that others can open too.
enum Reach {
    Private(Line),
    Detached(Box<Entry>),
}

impl ProcessBackend {
    /// Dropping the future takes down whatever was started.
    pub(crate) async fn start(
        &self,
        spec: &SandboxSpec,
        wiring: &Wiring,
    ) -> Result<Launched, Error> {
        let id = spec.id.clone().ok_or(Error::NoId)?;
        let checked = self.check(spec).await?;
        agree(spec, &checked, wiring)?;
        StateDir::tidy().await;
        let group = self.group(spec, &id).await?;
        let mut reach = if spec.detach {
            let state = StateDir::open()?;
            Reach::Detached(Box::new(
                state
                    .add(&id, spec, &checked.controls, group.as_ref(), &self.janitor)
                    .await?,
            ))
        } else {
            Reach::Private(Line::open().map_err(Error::Start)?)
        };

        let words = LastWords::new().map_err(Error::Start)?;
        let (info_end, info) = pipe_to_us().map_err(Error::Start)?;
        // `bwrap` holds a reader of its own: with none it would die of this message when we are
        // killed just then, and leave a PID 1 that waits for its word for ever.
        let reader = info.as_fd().try_clone_to_owned().map_err(Error::Start)?;
        let (ready_end, ready) = pipe_to_us().map_err(Error::Start)?;
        let mut bwrap = self
            .command(
                (spec, wiring),
                &checked,
                &mut reach,
                group.as_ref(),
                [info_end, reader, ready_end],
                &words,
            )
            .map_err(Error::Start)?;
        let started = Instant::now();
        let child = bwrap.spawn().map_err(Error::Start)?;
        // Closes our copies of what the child inherited: their end is then the child's end.
        drop(bwrap);

        let mut starting = Starting::new(child, info, group, words);
        let (pid, init) = match starting.pid().await {
            Ok(found) => found,
            Err(err) => return Err(self.why(starting, err).await),
        };
        if let Reach::Detached(entry) = &mut reach {
            entry.runs(pid)?;
        }
        let mut gate = Gatekeeper::new(pid, init, Arc::clone(&self.worker));
        if wiring.doors && self.channel.is_none() {
            gate.stand_ready();
        }
        if let Err(err) = wait(ready).await {
            return Err(self.why(starting, err).await);
        }
        if let Some(workspace) = &checked.workspace
            && !(checked.bwrap.bind_fd || workspace.is_mounted_in(pid))
        {
            return Err(Error::Exchanged);
        }
        self.means
            .set_rlimits(pid, &spec.limits)
            .map_err(Error::Rlimit)?;
        self.proven.note(checked.own_network);
        let (channel, entry) = match reach {
            Reach::Private(line) => (line.channel, None),
            Reach::Detached(entry) => (entry.connect().await?, Some(entry)),
        };
        let running = starting.finish(entry, spec.limits.lifetime, started)?;
        Ok(Launched {
            // The doors of one that outlives this process close with it.
            gate: checked.own_network.then(|| match self.channel {
                None => Gate::Sockets(Arc::new(gate)),
                Some(_) => Gate::Channel,
            }),
            id,
            channel: Channel::Duplex(channel),
            teardown: Box::new(running),
            controls: checked.controls,
            workspace: self.workspace().to_owned(),
            egress: Some(spec.egress_on(Tier::Process).kind().to_owned()),
            labels: spec.labels.clone(),
        })
    }

    async fn group(&self, spec: &SandboxSpec, id: &SandboxId) -> Result<Option<Group>, Error> {
        let Some(hierarchy) = self.means.cgroup_for(&spec.limits) else {
            return Ok(None);
        };
        self.sweep_cgroups().await;
        Group::make(hierarchy, &spec.limits, id, spec.detach, &self.janitor)
            .map(Some)
            .map_err(Error::Cgroup)
    }

    fn command(
        &self,
        (spec, wiring): (&SandboxSpec, &Wiring),
        checked: &Checked<'_>,
        reach: &mut Reach,
        group: Option<&Group>,
        [info, reader, ready]: [OwnedFd; 3],
        words: &LastWords,
    ) -> std::io::Result<Command> {
        let mut args = self.options(spec, checked, &wiring.files)?;
        args.with_fd("--info-fd", info);
        args.inherit(reader);
        let token = self.worker_args(&mut args, spec, reach, group, ready)?;

        let mut bwrap = bwrap(checked, args, group)?;
        bwrap
            .env("PATH", &self.view().path)
            .env("HOME", HOME)
            .env("LANG", "C.UTF-8")
            .env("NAMZU_SANDBOX_ENVS", self.envs(spec, wiring))
            .stdout(words.writer()?)
            .stderr(words.writer()?)
            // What it built outlives it; `Starting` and `Running` end that by PID 1.
            .kill_on_drop(false);
        if let Some(token) = token {
            bwrap.env("NAMZU_SANDBOX_TOKEN", token);
        }
        Ok(bwrap)
    }

    /// The walls and the view: everything but the program that runs inside.
    pub(crate) fn options(
        &self,
        spec: &SandboxSpec,
        checked: &Checked<'_>,
        wired: &[WiredFile],
    ) -> std::io::Result<Args> {
        if let Some(jail) = &self.jail {
            return jail.options(wired);
        }
        let channel = self.channel.filter(|_| checked.own_network);
        let sets_up = channel.is_some_and(ChannelDoors::has_rights);
        let user = if sets_up { "0" } else { USER };
        let mut args = Args::default();
        args.words([
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--as-pid-1",
            "--new-session",
            "--cap-drop",
            "ALL",
            "--uid",
            user,
            "--gid",
            user,
            "--hostname",
            "sandbox",
        ]);
        if checked.own_network {
            args.words(["--unshare-net"]);
        }
        if let Some(channel) = channel {
            channel.grant(&mut args);
        }
        // It would put the worker into a namespace below.
        if checked.bwrap.disable_userns && !sets_up {
            args.words(["--disable-userns"]);
        }
        args.with_fd("--seccomp", data(self.seccomp.of(&spec.workspace))?);
        self.view().apply(&mut args, wired)?;
        let resolves = wired.iter().any(|file| file.path == RESOLV_CONF);
        if !checked.own_network && !resolves {
            args.file(&resolv_conf(), RESOLV_CONF)?;
        }
        scratch(&mut args, spec, checked);
        workspace(&mut args, checked);
        // Last: nothing can be made at the top, or in /dev, from here on.
        args.words([
            "--remount-ro",
            "/dev",
            "--remount-ro",
            "/",
            "--chdir",
            WORKSPACE,
        ]);
        Ok(args)
    }

    /// One `bwrap` around one program, with the walls and the view of `spec` and without a worker:
    /// what the benchmark compares a whole life of a sandbox with.
    ///
    /// # Errors
    ///
    /// Those of [`Backend::plan`](namzu_core::Backend::plan).
    #[doc(hidden)]
    pub async fn one_shot(
        &self,
        spec: &SandboxSpec,
        program: &[&str],
    ) -> namzu_core::Result<Command> {
        let checked = self
            .check(spec)
            .await
            .map_err(|err| err.during(Phase::Plan))?;
        let built = self.options(spec, &checked, &[]).and_then(|mut args| {
            args.program(program);
            bwrap(&checked, args, None)
        });
        built.map_err(|err| Error::Start(err).during(Phase::Plan))
    }

    /// The worker's own arguments. Gives back the token that it has to be handed.
    fn worker_args(
        &self,
        args: &mut Args,
        spec: &SandboxSpec,
        reach: &mut Reach,
        group: Option<&Group>,
        ready: OwnedFd,
    ) -> std::io::Result<Option<String>> {
        let worker = self.worker.try_clone()?;
        args.program([format!("/proc/self/fd/{}", worker.as_raw_fd())]);
        args.inherit(worker);
        let token = match reach {
            Reach::Private(line) => {
                let stream = line.stream.try_clone()?;
                args.program(["--listen", &format!("fd:{}", stream.as_raw_fd())]);
                args.inherit(stream);
                args.program_fd("--lane", line.lane.try_clone()?);
                None
            }
            Reach::Detached(entry) => {
                let listener = entry.listener()?;
                args.program(["--listen", &format!("listener:{}", listener.as_raw_fd())]);
                args.inherit(listener);
                Some(entry.token().to_owned())
            }
        };
        args.program_fd("--ready", ready);
        if let Some(events) = group.map(Group::memory_events).transpose()?.flatten() {
            args.program_fd("--memory-events", events);
        }
        args.program(["--init", "--workspace", self.workspace()]);
        if self.channel.is_some() {
            args.program(["--doors"]);
        }
        if self.jail.is_none() {
            args.program(["--user", "user"]);
            for root in &self.view().roots {
                args.program(["--read-root".as_ref(), root.as_os_str()]);
            }
            for root in ["/etc", "/proc"] {
                args.program(["--read-root", root]);
            }
            for root in ["/tmp", HOME, "/dev/shm"] {
                args.program(["--write-root", root]);
            }
        }
        if let Some(lifetime) = spec.limits.lifetime {
            args.program(["--lifetime-ms", &lifetime.as_millis().to_string()]);
        }
        Ok(token)
    }

    /// Where commands start.
    fn workspace(&self) -> &str {
        self.jail.as_ref().map_or(WORKSPACE, |jail| &jail.directory)
    }

    fn envs(&self, spec: &SandboxSpec, wiring: &Wiring) -> String {
        let mut all = match &self.jail {
            Some(jail) => jail.env(spec, wiring),
            None => {
                let mut all = wiring.env.clone();
                all.extend(spec.env.clone());
                all
            }
        };
        all.entry("LANG".to_owned())
            .or_insert_with(|| "C.UTF-8".to_owned());
        serde_json::json!(all).to_string()
    }

    /// Finds out why nothing came up, and takes down what did.
    async fn why(&self, starting: Starting, err: Option<Error>) -> Error {
        let (status, said) = starting.give_up().await;
        match err {
            Some(err) => err,
            None => match probe::cause().await {
                Some(cause) => cause,
                None => Error::NotBuilt { status, said },
            },
        }
    }
}

/// A `bwrap` with these words, and with all that protects the host from what it starts: one place,
/// so that what is tried out and what is measured is what sandboxes get.
pub(super) fn bwrap(
    checked: &Checked<'_>,
    args: Args,
    group: Option<&Group>,
) -> std::io::Result<Command> {
    let (options, program, inherit) = args.finish()?;
    let mut bwrap = command(&checked.bwrap.path);
    bwrap.args(options).args(program).current_dir("/");
    prepare(
        &mut bwrap,
        Setup {
            inherit,
            cgroups: group.map(Group::entrances).transpose()?.unwrap_or_default(),
            session: true,
            no_crash_handler: true,
            no_precedence: true,
            frozen: devices_to_freeze(),
            ..Setup::default()
        },
    );
    Ok(bwrap)
}

fn scratch(args: &mut Args, spec: &SandboxSpec, checked: &Checked<'_>) {
    let sizes = match spec.limits.disk {
        Some(bytes) => Sizes::share(bytes, &spec.workspace),
        None => Sizes::unlimited(&spec.workspace),
    };
    let size = |bytes: u64| checked.bwrap.size.then_some(bytes);
    args.words(["--dev", "/dev"]);
    args.tmpfs("/dev/shm", "1777", size(sizes.shm));
    args.tmpfs("/tmp", "1777", size(sizes.tmp));
    args.tmpfs(HOME, "0700", size(sizes.home));
    if matches!(spec.workspace, Workspace::Private) {
        args.tmpfs(WORKSPACE, "0755", size(sizes.workspace));
    }
    args.words(["--dir", "/run", "--dir", "/var"]);
    args.symlink("../tmp", "/var/tmp");
    args.symlink("../run", "/var/run");
}

fn workspace(args: &mut Args, checked: &Checked<'_>) {
    let Some(host) = &checked.workspace else {
        return;
    };
    // By descriptor, what was checked is what is mounted; an older `bwrap` only takes a path, and
    // whoever may rename the directory could then swap it. It is looked at again afterwards.
    let held = checked
        .bwrap
        .bind_fd
        .then(|| host.dir.try_clone().ok())
        .flatten();
    match (held, host.access) {
        (Some(dir), Access::ReadOnly) => args.with_fd("--ro-bind-fd", dir),
        (Some(dir), Access::ReadWrite) => args.with_fd("--bind-fd", dir),
        (None, Access::ReadOnly) => args.words(["--ro-bind".as_ref(), host.path.as_os_str()]),
        (None, Access::ReadWrite) => args.words(["--bind".as_ref(), host.path.as_os_str()]),
    }
    args.words([WORKSPACE]);
}

/// Whether policy and wiring mean the same walls: what is asked for is held, or refused.
fn agree(spec: &SandboxSpec, checked: &Checked<'_>, wiring: &Wiring) -> Result<(), Error> {
    let policy = spec.egress_on(Tier::Process);
    match (checked.own_network, wiring.doors) {
        (true, false) if !matches!(policy, EgressPolicy::DenyAll) => {
            Err(Error::NoBoundary(policy.kind()))
        }
        (false, true) => Err(Error::NoWall),
        _ => Ok(()),
    }
}

/// The end for a child, and ours.
fn pipe_to_us() -> std::io::Result<(OwnedFd, pipe::Receiver)> {
    let (ours, theirs) = std::io::pipe()?;
    let ours = pipe::Receiver::from_owned_fd(OwnedFd::from(ours))?;
    Ok((theirs.into(), ours))
}

/// Waits for the worker's byte; `None` when everything that could send it is gone.
async fn wait(mut ready: pipe::Receiver) -> Result<(), Option<Error>> {
    match ready.read(&mut [0]).await {
        Ok(0) => Err(None),
        Ok(_) => Ok(()),
        Err(err) => Err(Some(Error::Start(err))),
    }
}
