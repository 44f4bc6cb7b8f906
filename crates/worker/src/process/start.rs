//! From a spec to a running command: streams, terminal, environment, then the spawn.

use std::ffi::CString;
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit};
use rustix::pty::OpenptFlags;
use rustix::termios::tcsetwinsize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::command::{Description, Process, winsize};
use super::environment::Environment;
use super::log::Log;
use super::pump::{self, Source, Timers};
use super::spawn::{self, Failure, Plan, Step};
use super::subscription::Subscription;
use super::{Handle, Limits, Size, StartError, StartSpec, Stream, table};
use crate::config::Config;
use crate::fd;
use crate::pool::Pool;
use crate::random;

/// A command whose output nobody pumps yet.
pub(super) struct Starting {
    pub(super) handle: Handle,
    sources: Vec<Source>,
    timers: Timers,
}

impl Starting {
    /// What has to run for the command to be read and to end.
    pub(super) fn pump(&mut self, table: Arc<table::Shared>) -> impl Future<Output = ()> + use<> {
        let sources = std::mem::take(&mut self.sources);
        let timers = std::mem::take(&mut self.timers);
        pump::run(Arc::clone(&self.handle.process), sources, timers, table)
    }
}

/// The worker's ends of a command's streams.
#[derive(Default)]
struct Ours {
    stdin: Option<AsyncFd<OwnedFd>>,
    terminal: Option<Arc<AsyncFd<OwnedFd>>>,
    sources: Vec<Source>,
}

pub(super) fn start(
    config: &Config,
    open_files: Rlimit,
    pool: &Arc<Pool>,
    kills_before: u64,
    spec: StartSpec,
) -> Result<Starting, StartError> {
    let program = spec
        .argv
        .first()
        .ok_or_else(|| StartError::Invalid("no command was given".into()))?;
    let cookie = random::hex()
        .map_err(|error| StartError::Failed(format!("could not name the command: {error}")))?;
    let environment =
        Environment::build(config, spec.base, &cookie, spec.pty.is_some(), &spec.envs)?;
    let cwd = match &spec.cwd {
        Some(cwd) => config.cwd.join(cwd),
        None => config.cwd.clone(),
    };
    let cwd_text = cwd.display().to_string();
    let cwd = CString::new(cwd.as_os_str().as_bytes())
        .map_err(|_| StartError::Invalid("the working directory holds a NUL byte".into()))?;
    let limits = limits(spec.limits, open_files);
    let has_terminal = spec.pty.is_some();
    let (ours, theirs) = match spec.pty {
        Some(size) => terminal(size, pool)?,
        None => pipes(spec.stdin, spec.lane, pool)?,
    };

    let candidates = environment.candidates(program);
    let started_at = Instant::now();
    let pid = spawn::spawn(&Plan {
        candidates: &candidates,
        argv: &spec.argv,
        envp: &environment.block(),
        cwd: &cwd,
        stdio: theirs.each_ref().map(Theirs::as_fd),
        terminal: has_terminal,
        limits: &limits,
    })
    .map_err(|failure| explain(&failure, &program.to_string_lossy(), cwd_text))?;
    drop(theirs);

    let text = |text: &CString| text.to_string_lossy().into_owned();
    let description = Description {
        argv: spec.argv.iter().map(text).collect(),
        envs: spec.envs,
        cwd: spec.cwd.map(|cwd| cwd.display().to_string()),
        tag: spec.tag,
    };
    let process = Arc::new(Process::new(
        pid,
        description,
        cookie,
        kills_before,
        spec.kill_on_disconnect,
        spec.retain,
        ours.stdin,
        ours.terminal,
        started_at,
    ));
    let events = Subscription::new(Arc::clone(&process), Log::start(), true);
    let timers = Timers {
        timeout: spec
            .timeout
            .and_then(|timeout| started_at.checked_add(timeout)),
        term_grace: spec.term_grace,
        deadline: spec
            .deadline
            .and_then(|deadline| started_at.checked_add(deadline)),
    };
    Ok(Starting {
        handle: Handle { process, events },
        sources: ours.sources,
        timers,
    })
}

/// The command's end of one stream: pipes are its own, terminals are three times the same.
enum Theirs {
    Own(OwnedFd),
    Shared(Arc<OwnedFd>),
}

impl AsFd for Theirs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(fd) => fd.as_fd(),
            Self::Shared(fd) => fd.as_fd(),
        }
    }
}

fn pipes(
    wants_stdin: bool,
    lane: [Option<OwnedFd>; 3],
    pool: &Arc<Pool>,
) -> Result<(Ours, [Theirs; 3]), StartError> {
    let [lane_stdin, lane_stdout, lane_stderr] = lane;
    let mut ours = Ours::default();
    let stdin = match lane_stdin {
        Some(fd) => fd,
        None if wants_stdin => {
            let (theirs, writer) = pipe()?;
            ours.stdin = Some(register(writer, Interest::WRITABLE)?);
            theirs
        }
        None => rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| failed("open /dev/null", error))?,
    };
    let mut output = |lane: Option<OwnedFd>, stream| match lane {
        Some(fd) => Ok(fd),
        None => {
            let (reader, theirs) = pipe()?;
            let reader = Arc::new(register(reader, Interest::READABLE)?);
            ours.sources
                .push(Source::new(stream, reader, Arc::clone(pool)));
            Ok(theirs)
        }
    };
    let stdout = output(lane_stdout, Stream::Stdout)?;
    let stderr = output(lane_stderr, Stream::Stderr)?;
    Ok((ours, [stdin, stdout, stderr].map(Theirs::Own)))
}

fn terminal(size: Size, pool: &Arc<Pool>) -> Result<(Ours, [Theirs; 3]), StartError> {
    let unopened = |error| failed("open a terminal", error);
    let master =
        rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .map_err(unopened)?;
    rustix::pty::grantpt(&master).map_err(unopened)?;
    rustix::pty::unlockpt(&master).map_err(unopened)?;
    // By descriptor, not by name: the name may mean another terminal, or nothing, in here.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = Arc::new(rustix::pty::ioctl_tiocgptpeer(&master, flags).map_err(unopened)?);
    tcsetwinsize(&master, winsize(size)).map_err(unopened)?;
    let master = Arc::new(register(master, Interest::READABLE | Interest::WRITABLE)?);
    let ours = Ours {
        stdin: None,
        terminal: Some(Arc::clone(&master)),
        sources: vec![Source::new(Stream::Pty, master, Arc::clone(pool))],
    };
    let [a, b, c] = [Arc::clone(&slave), Arc::clone(&slave), slave].map(Theirs::Shared);
    Ok((ours, [a, b, c]))
}

fn pipe() -> Result<(OwnedFd, OwnedFd), StartError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed("make a pipe", error))
}

fn register(fd: OwnedFd, interest: Interest) -> Result<AsyncFd<OwnedFd>, StartError> {
    rustix::io::ioctl_fionbio(&fd, true).map_err(|error| failed("unblock a stream", error))?;
    fd::watch(fd, interest)
        .map_err(|error| StartError::Failed(format!("could not watch a stream: {error}")))
}

fn failed(what: &str, error: Errno) -> StartError {
    let text = format!("could not {what}: {error}");
    match error {
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOSPC => StartError::Exhausted(text),
        _ => StartError::Failed(text),
    }
}

/// What is asked for, soft and hard alike. The worker has raised its own number of open files,
/// which is not for commands: they get `open_files` where nothing is asked for.
fn limits(limits: Limits, open_files: Rlimit) -> Vec<(Resource, Rlimit)> {
    let both = |value| Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    let Limits {
        cpu_seconds,
        address_space,
        file_size,
        open_files: wanted_files,
    } = limits;
    let limits = [
        (Resource::Cpu, cpu_seconds.map(both)),
        (Resource::As, address_space.map(both)),
        (Resource::Fsize, file_size.map(both)),
        (
            Resource::Nofile,
            wanted_files.map(both).or(Some(open_files)),
        ),
    ];
    let set = limits
        .into_iter()
        .filter_map(|(resource, limit)| Some((resource, limit?)));
    set.collect()
}

fn explain(failure: &Failure, program: &str, cwd: String) -> StartError {
    let errno = failure.source.raw_os_error().unwrap_or_default();
    match (failure.step, errno) {
        (Step::Chdir, libc::ENOENT | libc::ENOTDIR) => StartError::CwdMissing(cwd),
        (Step::Chdir, libc::EACCES) => {
            StartError::Denied(format!("cwd '{cwd}' may not be entered"))
        }
        (Step::Chdir, libc::ENAMETOOLONG | libc::ELOOP) => {
            StartError::Invalid(format!("invalid cwd '{cwd}'"))
        }
        (Step::Exec, libc::ENOENT | libc::ENOTDIR) => {
            StartError::NotFound(format!("'{program}' was not found"))
        }
        (Step::Exec, libc::EACCES | libc::EPERM) => {
            StartError::Denied(format!("'{program}' may not be executed"))
        }
        (Step::Exec, libc::ENOEXEC) => {
            StartError::Denied(format!("'{program}' is not executable: format unknown"))
        }
        (Step::Exec, libc::E2BIG) => {
            StartError::Invalid("the arguments and environment are too long".into())
        }
        (Step::Exec, libc::ENAMETOOLONG | libc::ELOOP) => {
            StartError::Invalid(format!("invalid command '{program}'"))
        }
        (Step::Limit, _) => {
            StartError::Invalid(format!("could not set a limit: {}", failure.source))
        }
        (Step::Clone, libc::EAGAIN) => {
            StartError::Exhausted("no more processes are allowed".into())
        }
        (step, _) => StartError::Failed(format!(
            "could not start '{program}' ({step:?}): {}",
            failure.source
        )),
    }
}
