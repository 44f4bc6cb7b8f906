//! The host's own standard streams, byte-exact, on threads of their own.
//!
//! The streams belong to whoever started this program, so they are never made non-blocking, and
//! the sandbox never gets hold of them: a file behind one could be reopened inside with more
//! rights than it was passed with, a terminal could be made to type. Threads that block in a read
//! or a write end with the process.

use std::io;
use std::os::fd::BorrowedFd;
use std::thread;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use tokio::sync::{mpsc, oneshot};

/// Bytes read from standard input at a time.
const READ: usize = 64 << 10;

/// Pieces of output that wait to be written: enough to keep both sides busy, 2 MiB at most.
const DEPTH: usize = 8;

/// Size of the pipe behind a stream that much is written to.
const LARGE_PIPE: usize = 1 << 20;

/// Bytes after which much is written: pipe buffers are rationed per user, and most commands print
/// little.
const MUCH: usize = 1 << 20;

/// Reads standard input to its end.
pub(crate) fn read_stdin() -> io::Result<mpsc::Receiver<Bytes>> {
    let (tx, rx) = mpsc::channel(2);
    thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let stdin = rustix::stdio::stdin();
            let mut buffer = vec![0; READ];
            loop {
                match rustix::io::read(stdin, buffer.as_mut_slice()) {
                    Ok(0) => return,
                    Ok(len) => {
                        if tx
                            .blocking_send(Bytes::copy_from_slice(&buffer[..len]))
                            .is_err()
                        {
                            return;
                        }
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => wait(stdin, PollFlags::IN),
                    // A terminal that went away, or a directory: the end of input.
                    Err(_) => return,
                }
            }
        })?;
    Ok(rx)
}

/// Waits until `fd` is ready. Somebody else may have made it non-blocking.
fn wait(fd: BorrowedFd<'_>, what: PollFlags) {
    // A failure shows again in the call that is tried next.
    let _ = poll(&mut [PollFd::new(&fd, what)], None);
}

/// Whether standard output and standard error are the same file, pipe or terminal.
pub(crate) fn is_shared() -> bool {
    let same = |fd| {
        rustix::fs::fstat(fd)
            .map(|stat| (stat.st_dev, stat.st_ino))
            .ok()
    };
    let out = same(rustix::stdio::stdout());
    out.is_some() && out == same(rustix::stdio::stderr())
}

/// Why output does not arrive any more.
#[derive(Debug)]
pub(crate) enum Gone {
    /// Nobody reads it.
    Reader,
    /// It could not be written.
    Failed(io::Error),
}

/// Writes to one of the standard streams, in order.
#[derive(Debug)]
pub(crate) struct Writer {
    fd: BorrowedFd<'static>,
    running: Option<Running>,
    unread: bool,
}

#[derive(Debug)]
struct Running {
    tx: mpsc::Sender<Bytes>,
    end: oneshot::Receiver<io::Result<()>>,
}

impl Writer {
    pub(crate) const fn stdout() -> Self {
        Self {
            fd: rustix::stdio::stdout(),
            running: None,
            unread: false,
        }
    }

    pub(crate) const fn stderr() -> Self {
        Self {
            fd: rustix::stdio::stderr(),
            running: None,
            unread: false,
        }
    }

    /// Hands over `bytes`, waiting while too many are unwritten.
    ///
    /// # Errors
    ///
    /// When it cannot be written, which may show only with later bytes.
    pub(crate) async fn send(&mut self, bytes: Bytes) -> Result<(), Gone> {
        if self.unread {
            return Err(Gone::Reader);
        }
        if self.running.is_none() {
            // A command that prints nothing costs no thread.
            self.running = Some(Running::start(self.fd).map_err(Gone::Failed)?);
        }
        if let Some(running) = &self.running
            && running.tx.send(bytes).await.is_ok()
        {
            return Ok(());
        }
        self.flush().await?;
        self.unread = true;
        Err(Gone::Reader)
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(mut self) -> Result<(), Gone> {
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        let Some(Running { tx, end }) = self.running.take() else {
            return Ok(());
        };
        drop(tx);
        match end.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(err)) if err.kind() == io::ErrorKind::BrokenPipe => {
                self.unread = true;
                Err(Gone::Reader)
            }
            Ok(Err(err)) => Err(Gone::Failed(err)),
            Err(_) => Err(Gone::Failed(io::Error::other("the writing thread ended"))),
        }
    }
}

impl Running {
    fn start(fd: BorrowedFd<'static>) -> io::Result<Self> {
        let (tx, mut rx) = mpsc::channel::<Bytes>(DEPTH);
        let (done, end) = oneshot::channel();
        thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || {
                let mut written = Ok(());
                let mut until_much = MUCH;
                while let Some(bytes) = rx.blocking_recv() {
                    written = write_all(fd, &bytes);
                    if written.is_err() {
                        break;
                    }
                    if until_much > 0 {
                        until_much = until_much.saturating_sub(bytes.len());
                        if until_much == 0 {
                            enlarge(fd);
                        }
                    }
                }
                // Nobody left to tell: the program is ending.
                let _ = done.send(written);
            })?;
        Ok(Self { tx, end })
    }
}

/// Gives a pipe more room: the two sides then wait less often for each other. Whoever reads it
/// sees no difference. What is no pipe, or may not grow, stays as it is.
fn enlarge(fd: BorrowedFd<'_>) {
    if fcntl_getpipe_size(fd).is_ok_and(|size| size < LARGE_PIPE) {
        let _ = fcntl_setpipe_size(fd, LARGE_PIPE);
    }
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(fd, PollFlags::OUT),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
