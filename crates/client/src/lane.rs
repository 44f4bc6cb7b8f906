//! The fd lane: a command's pipes are made here, and their other ends passed to the worker.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use namzu_protocol::ext::{LaneMessage, STDERR, STDIN, STDOUT};
use rustix::cmsg_space;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::net::unix::pipe::{Receiver, Sender};

/// Messages the worker may not have claimed yet; it closes the lane beyond 64.
const UNCLAIMED: usize = 48;

/// Bytes read at once at first; a command that fills them gets more.
const FIRST_READ: usize = 8 << 10;

/// Bytes read at once from a command that prints much.
const LARGE_READ: usize = 256 << 10;

/// Size of the pipe of a command that prints much. Not at the start: pipe buffers are rationed
/// per user, and most commands print little.
const LARGE_PIPE: usize = 1 << 20;

/// The socket that carries descriptors to one worker.
#[derive(Debug)]
pub(crate) struct Lane {
    socket: OwnedFd,
    next: AtomicU64,
    unclaimed: Arc<AtomicUsize>,
    broken: AtomicBool,
}

/// Held between the message and the answer to the request that names it.
///
/// Dropped unanswered it stays counted for good: the worker may hold those descriptors unclaimed.
/// After enough of them the lane is not used any more, which costs speed and nothing else.
#[derive(Debug)]
pub(crate) struct Ticket(Arc<AtomicUsize>);

impl Ticket {
    pub(crate) fn claimed(self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Our ends of a command's standard streams.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) id: u64,
    pub(crate) ticket: Ticket,
    pub(crate) stdin: Option<Sender>,
    pub(crate) output: Pipes,
}

impl Lane {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            next: AtomicU64::new(1),
            unclaimed: Arc::default(),
            broken: AtomicBool::new(false),
        }
    }

    /// Makes pipes and passes the command's ends. `None` when the lane cannot be used now: the
    /// command then goes without.
    pub(crate) fn pass(&self, stdin: bool) -> Option<Passed> {
        if self.broken.load(Ordering::Relaxed) {
            return None;
        }
        if self.unclaimed.fetch_add(1, Ordering::Relaxed) >= UNCLAIMED {
            self.unclaimed.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let ticket = Ticket(Arc::clone(&self.unclaimed));
        match self.try_pass(stdin) {
            Ok((id, stdin, output)) => Some(Passed {
                id,
                ticket,
                stdin,
                output,
            }),
            Err(err) => {
                ticket.claimed();
                tracing::debug!(%err, "fd lane not used");
                // Full, or no descriptors left: passes. All else does not.
                let passes = matches!(
                    err.raw_os_error().map(rustix::io::Errno::from_raw_os_error),
                    Some(
                        rustix::io::Errno::AGAIN
                            | rustix::io::Errno::MFILE
                            | rustix::io::Errno::NFILE
                            | rustix::io::Errno::NOMEM
                            | rustix::io::Errno::TOOMANYREFS
                    )
                );
                self.broken.fetch_or(!passes, Ordering::Relaxed);
                None
            }
        }
    }

    /// Passes nothing any more: the worker does not take it.
    pub(crate) fn abandon(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    fn try_pass(&self, stdin: bool) -> io::Result<(u64, Option<Sender>, Pipes)> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (stdout, child_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, child_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let stdin = if stdin {
            Some(pipe_with(PipeFlags::CLOEXEC)?)
        } else {
            None
        };
        match &stdin {
            None => {
                let mask = STDOUT | STDERR;
                self.send(
                    LaneMessage { id, mask },
                    &[child_stdout.as_fd(), child_stderr.as_fd()],
                )?;
            }
            Some((child_stdin, _)) => {
                let mask = STDIN | STDOUT | STDERR;
                let ends = [child_stdin, &child_stdout, &child_stderr].map(AsFd::as_fd);
                self.send(LaneMessage { id, mask }, &ends)?;
            }
        }
        // Only our ends: the flag belongs to the open end, and the command expects to block.
        let stdin = match stdin {
            Some((_, ours)) => {
                rustix::io::ioctl_fionbio(&ours, true)?;
                Some(Sender::from_file_unchecked(File::from(ours))?)
            }
            None => None,
        };
        Ok((id, stdin, Pipes::new(stdout, stderr)?))
    }

    fn send(&self, message: LaneMessage, ends: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [std::mem::MaybeUninit::uninit(); cmsg_space!(ScmRights(3))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        if !rights.push(SendAncillaryMessage::ScmRights(ends)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(
            &self.socket,
            &[io::IoSlice::new(&message.encode())],
            &mut rights,
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }
}

/// The reading ends of a command's standard output and standard error.
#[derive(Debug)]
pub(crate) struct Pipes {
    stdout: Option<Pipe>,
    stderr: Option<Pipe>,
    buffer: BytesMut,
    /// Bytes to make room for.
    read: usize,
    /// Which one to look at first: neither starves the other.
    stderr_first: bool,
}

#[derive(Debug)]
struct Pipe {
    end: Receiver,
    /// Bytes that were in it when the command ended.
    owed: u64,
    large: bool,
}

/// Which of the two pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Stdout,
    Stderr,
}

impl Pipes {
    fn new(stdout: OwnedFd, stderr: OwnedFd) -> io::Result<Self> {
        let open = |end: OwnedFd| {
            rustix::io::ioctl_fionbio(&end, true)?;
            Ok::<_, io::Error>(Some(Pipe {
                end: Receiver::from_file_unchecked(File::from(end))?,
                owed: 0,
                large: false,
            }))
        };
        Ok(Self {
            stdout: open(stdout)?,
            stderr: open(stderr)?,
            buffer: BytesMut::new(),
            read: FIRST_READ,
            stderr_first: false,
        })
    }

    /// The next bytes; `None` once both are closed.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<(Side, Bytes)>>> {
        let order = if self.stderr_first {
            [Side::Stderr, Side::Stdout]
        } else {
            [Side::Stdout, Side::Stderr]
        };
        let mut open = false;
        for side in order {
            match self.poll_side(side, cx)? {
                Poll::Pending => open = true,
                Poll::Ready(None) => {}
                Poll::Ready(Some(bytes)) => {
                    self.stderr_first = side == Side::Stdout;
                    return Poll::Ready(Ok(Some((side, bytes))));
                }
            }
        }
        if open {
            Poll::Pending
        } else {
            Poll::Ready(Ok(None))
        }
    }

    fn poll_side(&mut self, side: Side, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let slot = match side {
            Side::Stdout => &mut self.stdout,
            Side::Stderr => &mut self.stderr,
        };
        let Some(pipe) = slot else {
            return Poll::Ready(Ok(None));
        };
        loop {
            ready!(pipe.end.poll_read_ready(cx))?;
            if self.buffer.capacity() < self.read.div_ceil(2) {
                self.buffer.reserve(self.read);
            }
            let room = self.buffer.capacity();
            match pipe.end.try_read_buf(&mut self.buffer) {
                Ok(0) => {
                    *slot = None;
                    return Poll::Ready(Ok(None));
                }
                Ok(read) => {
                    pipe.owed = pipe.owed.saturating_sub(read as u64);
                    if read == room {
                        self.read = (self.read * 4).min(LARGE_READ);
                        if self.read == LARGE_READ && !pipe.large {
                            pipe.large = true;
                            // Refused when the user's ration is used up: slower, nothing else.
                            let _ = fcntl_setpipe_size(&pipe.end, LARGE_PIPE);
                        }
                    }
                    return Poll::Ready(Ok(Some(self.buffer.split().freeze())));
                }
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                Err(err) => return Poll::Ready(Err(err)),
            }
        }
    }

    /// The command ended: what is in the pipes now is the last that it wrote. Whatever comes
    /// later is somebody's who inherited them.
    pub(crate) fn command_ended(&mut self) {
        for pipe in [&mut self.stdout, &mut self.stderr].into_iter().flatten() {
            pipe.owed = rustix::io::ioctl_fionread(&pipe.end).unwrap_or(0);
        }
    }

    /// Whether everything was read that was there when the command ended.
    pub(crate) fn drained(&self) -> bool {
        [&self.stdout, &self.stderr]
            .into_iter()
            .flatten()
            .all(|pipe| pipe.owed == 0)
    }
}

/// Bytes on their way to a command's standard input.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) bytes: Bytes,
}

impl Feed {
    /// Ready when all is written, or nobody reads any more.
    pub(crate) fn poll(&mut self, pipe: &Sender, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.bytes.is_empty() {
            ready!(pipe.poll_write_ready(cx))?;
            match pipe.try_write(&self.bytes) {
                Ok(written) => drop(self.bytes.split_to(written)),
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                Err(err) => return Poll::Ready(Err(err)),
            }
        }
        Poll::Ready(Ok(()))
    }
}
