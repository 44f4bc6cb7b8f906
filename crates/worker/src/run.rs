//! A worker's life: prepare the process, listen, reap, end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::DumpableBehavior;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::config::Config;
use crate::door::{self, Proof};
use crate::listener::{self, Listener, Peer};
use crate::serve::serve;
use crate::worker::Worker;

/// How long answers may take to leave after the end was decided.
const FAREWELL: Duration = Duration::from_millis(100);

/// Runs a worker to its end.
///
/// # Errors
/// What it was told to use cannot be used; nothing was served then.
pub(crate) fn run(config: Config) -> io::Result<()> {
    harden(config.init)?;
    if config.doors {
        crate::doors::prepare()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(16)
        .thread_stack_size(256 * 1024)
        .thread_keep_alive(Duration::from_secs(2))
        .build()?;
    let result = runtime.block_on(live(config));
    runtime.shutdown_background();
    result
}

/// What must hold before anything else runs in this process.
fn harden(init: bool) -> io::Result<()> {
    // Descriptors 0 to 2 must be taken, or a pipe of a command would become one of them.
    loop {
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        if std::os::fd::AsRawFd::as_raw_fd(&null) > 2 {
            break;
        }
        // It stays: one of the three, for as long as the process lives.
        let _ = std::os::fd::IntoRawFd::into_raw_fd(null);
    }
    crate::process::reset_dispositions();
    // Commands of the same user must not look into the worker, or trace it.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::thread::set_no_new_privs(true)?;
    if init {
        // Orphans of commands come here, wherever the worker stands in its pid namespace.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    }
    Ok(())
}

async fn live(config: Config) -> io::Result<()> {
    let mut children = signal(SignalKind::child())?;
    let ready = config.ready.map(listener::adopt).transpose()?;
    let mut listeners = Vec::new();
    for spec in &config.listen {
        let bound = Listener::bind(spec);
        listeners.push(bound.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("could not listen on {spec:?}: {error}"),
            )
        })?);
    }
    // A first process that only its stream reaches is ended by it, or killed from outside. Whoever
    // else could send it a signal is a command.
    let deaf = rustix::process::getpid().is_init()
        && listeners
            .iter()
            .all(|listener| matches!(listener, Listener::Stream(_)));
    let mut terminate = obeyed(SignalKind::terminate(), deaf)?;
    let mut interrupt = obeyed(SignalKind::interrupt(), deaf)?;
    let worker = Arc::new(Worker::new(config)?);
    let mut doors = JoinSet::new();
    for listener in listeners {
        match listener {
            Listener::Stream(stream) => doors.spawn(serve_private(Arc::clone(&worker), stream)),
            Listener::Socket(socket, kind) => {
                doors.spawn(door::serve_all(Arc::clone(&worker), socket, kind))
            }
        };
    }
    if let Some(ready) = ready {
        // Whoever started it and has gone told nobody of it: it would live on, known to none.
        if rustix::io::write(&ready, b"\n") == Err(rustix::io::Errno::PIPE) {
            return Ok(());
        }
    }

    let end = worker
        .config
        .lifetime
        .and_then(|lifetime| Instant::now().checked_add(lifetime));
    let mut idle = std::pin::pin!(idle(&worker));
    let mut forget = std::pin::pin!(worker.processes().forget_ended());
    let told = loop {
        tokio::select! {
            _ = children.recv() => worker.processes().reap(),
            () = received(&mut terminate) => break true,
            () = received(&mut interrupt) => break true,
            () = worker.shutting_down() => break true,
            Some(_) = doors.join_next() => break false,
            // No farewell: a command that is told of as killed would hide why.
            () = at(end) => break false,
            () = &mut idle => break true,
            () = &mut forget => {}
        }
    };
    worker.processes().kill_everything();
    if told {
        // The answer to a shutdown, and the ends of the commands just killed, are on their way.
        worker.close();
        let farewell = sleep(FAREWELL);
        tokio::pin!(farewell);
        loop {
            tokio::select! {
                _ = children.recv() => worker.processes().reap(),
                door = doors.join_next() => if door.is_none() { break },
                () = &mut farewell => break,
            }
        }
        // What was started meanwhile.
        worker.processes().kill_everything();
    }
    Ok(())
}

/// Listens to a signal, unless it is not to be obeyed: with its default action the kernel drops
/// what is sent to a first process from inside.
fn obeyed(kind: SignalKind, deaf: bool) -> io::Result<Option<Signal>> {
    if deaf {
        return Ok(None);
    }
    signal(kind).map(Some)
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        // Its driver lives as long as the runtime.
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Returns when the stream has ended, be it in a tunnel that it became. Only such a door closes
/// while the worker runs, and ends it.
async fn serve_private(worker: Arc<Worker>, mut stream: crate::io::FdStream) {
    let end = stream.end();
    serve(worker, stream, Peer::Private, Proof::default()).await;
    // Nothing is ever sent: an error is the end.
    let _ = end.await;
}

/// Returns when the worker has been idle for as long as it may.
async fn idle(worker: &Worker) {
    let Some(most) = worker.config.idle_timeout else {
        return std::future::pending().await;
    };
    loop {
        let since = worker.idle_since().unwrap_or_else(Instant::now);
        let due = since + most;
        if Instant::now() >= due {
            return;
        }
        sleep_until(due).await;
    }
}

async fn at(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}
