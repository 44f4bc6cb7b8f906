//! Pipes and buffers that flows borrow while bytes flow.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// What a pipe is asked to hold. The kernel gives users without privilege less once they hold many.
pub(super) const PIPE: usize = 256 * 1024;
/// What a buffer holds.
const BUFFER: usize = 64 * 1024;
/// The most pipes that the flows of one sandbox have at once: each costs the host process two descriptors,
/// for as long as a peer likes to take nothing. Further flows are carried through buffers.
const LENT: usize = 64;
/// The most that lie idle, of each.
const IDLE_PIPES: usize = 64;
const IDLE_BUFFERS: usize = 16;

/// What is not borrowed now.
#[derive(Default)]
pub(crate) struct Stock {
    pipes: Mutex<Vec<Ends>>,
    buffers: Mutex<Vec<Box<[u8]>>>,
}

/// How many pipes one sandbox has borrowed.
#[derive(Debug, Default)]
pub(crate) struct Lent(AtomicUsize);

struct Ends {
    read: OwnedFd,
    write: OwnedFd,
}

/// A borrowed pipe. An empty one goes back when dropped; one that holds bytes is closed with them.
pub(super) struct Pipe<'a> {
    stock: &'a Stock,
    lent: &'a Lent,
    /// Absent only while it is dropped.
    ends: Option<Ends>,
    /// How many bytes are in it.
    pub(super) held: usize,
}

/// A borrowed buffer, which holds anything.
pub(super) struct Buffer<'a> {
    stock: &'a Stock,
    bytes: Box<[u8]>,
}

/// Nothing is done under these locks that could panic half-way.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stock {
    /// Borrows a pipe for the sandbox that has `lent`; `None` where it has enough, or there are none.
    pub(super) fn pipe<'a>(&'a self, lent: &'a Lent) -> Option<Pipe<'a>> {
        lent.0
            .fetch_update(Relaxed, Relaxed, |now| (now < LENT).then_some(now + 1))
            .ok()?;
        let mut pipe = Pipe {
            stock: self,
            lent,
            ends: None,
            held: 0,
        };
        let idle = locked(&self.pipes).pop();
        pipe.ends = Some(match idle {
            Some(ends) => ends,
            None => Ends::new().ok()?,
        });
        Some(pipe)
    }

    /// Borrows a buffer.
    pub(super) fn buffer(&self) -> Buffer<'_> {
        let idle = locked(&self.buffers).pop();
        Buffer {
            stock: self,
            bytes: idle.unwrap_or_else(|| vec![0; BUFFER].into()),
        }
    }

    #[cfg(test)]
    pub(super) fn idle(&self) -> (usize, usize) {
        (locked(&self.pipes).len(), locked(&self.buffers).len())
    }
}

impl fmt::Debug for Stock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stock").finish_non_exhaustive()
    }
}

impl Ends {
    fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Refused above the user's share: what the kernel gave by itself does as well, only slower.
        let _ = fcntl_setpipe_size(&write, PIPE);
        Ok(Self { read, write })
    }
}

impl Pipe<'_> {
    pub(super) fn read_end(&self) -> io::Result<&OwnedFd> {
        let ends = self.ends.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok(&ends.read)
    }

    pub(super) fn write_end(&self) -> io::Result<&OwnedFd> {
        let ends = self.ends.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok(&ends.write)
    }
}

impl Drop for Pipe<'_> {
    fn drop(&mut self) {
        self.lent.0.fetch_sub(1, Relaxed);
        if let Some(ends) = self.ends.take()
            && self.held == 0
        {
            let mut idle = locked(&self.stock.pipes);
            if idle.len() < IDLE_PIPES {
                idle.push(ends);
            }
        }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut idle = locked(&self.stock.buffers);
        if idle.len() < IDLE_BUFFERS {
            idle.push(bytes);
        }
    }
}

impl Deref for Buffer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}
