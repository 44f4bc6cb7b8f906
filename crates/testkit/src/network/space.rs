//! Network namespaces.

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use namzu_core::spawn;
use rustix::thread::UnshareFlags;

type Job = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// A network namespace, held by a thread that lives in it. It is gone when this and its sockets are.
#[derive(Debug)]
pub(super) struct Space {
    thread: i32,
    jobs: mpsc::SyncSender<(Job, mpsc::SyncSender<Box<dyn Any + Send>>)>,
}

impl Space {
    /// A new one, with nothing but its loopback.
    pub(super) fn open() -> io::Result<Self> {
        let (jobs, todo) = mpsc::sync_channel::<(Job, mpsc::SyncSender<_>)>(1);
        let (ready, opened) = mpsc::sync_channel(1);
        thread::Builder::new()
            .name("netns".to_owned())
            .spawn(move || {
                let result = unshare(UnshareFlags::NEWNET).and_then(|()| ip("link set lo up"));
                let failed = result.is_err();
                let thread = rustix::thread::gettid().as_raw_nonzero().get();
                if ready.send(result.map(|()| thread)).is_err() || failed {
                    return;
                }
                for (job, done) in todo {
                    // Whoever asked is gone: nobody wants the result.
                    let _ = done.send(job());
                }
            })?;
        let thread = opened.recv().map_err(io::Error::other)??;
        Ok(Self { thread, jobs })
    }

    /// The thread that holds it, as `ip link … netns` takes it.
    pub(super) const fn thread(&self) -> i32 {
        self.thread
    }

    /// Runs `job` in it: sockets that it makes are of this network for good.
    pub(super) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = mpsc::sync_channel(1);
        let job: Job = Box::new(move || Box::new(job()));
        self.jobs.send((job, done)).map_err(|_| gone())?;
        let result = result.recv().map_err(|_| gone())?;
        *result.downcast::<io::Result<T>>().map_err(|_| gone())?
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread of the namespace has ended")
}

/// Puts this process into a network of its own, where it is root. To be called before there is a
/// second thread.
///
/// # Errors
///
/// This host does not allow it.
pub fn enter() -> io::Result<()> {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    if unshare(UnshareFlags::NEWNET).is_err() {
        unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
        std::fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))?;
    }
    ip("link set lo up")
}

#[expect(
    deprecated,
    reason = "the other one is unsafe for the sake of CLONE_FILES, which is not asked for here"
)]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    rustix::thread::unshare(flags).map_err(Into::into)
}

/// Runs `ip` in the namespace of this thread.
pub(super) fn ip(arguments: &str) -> io::Result<()> {
    let program = ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .ok_or_else(|| io::Error::other("`ip` (iproute2) is not installed"))?;
    let mut command = spawn::command(program);
    let output = command
        .as_std_mut()
        .args(arguments.split_ascii_whitespace())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {arguments}: {}", said.trim())))
}
