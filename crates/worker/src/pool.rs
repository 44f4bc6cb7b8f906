//! Large buffers used again: a fresh one costs a page fault for every page, which at full
//! throughput is a third of the worker's time.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Buffers that nobody uses now.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The capacity of each.
    size: usize,
    /// No more than this many are kept.
    most: usize,
    free: Mutex<Vec<Vec<u8>>>,
}

/// A buffer that goes back when the last reference to its bytes is gone.
struct Lent {
    buffer: Vec<u8>,
    pool: Arc<Pool>,
}

impl Pool {
    pub(crate) fn new(size: usize, most: usize) -> Arc<Self> {
        Arc::new(Self {
            size,
            most,
            free: Mutex::default(),
        })
    }

    /// An empty buffer of the pool's size.
    pub(crate) fn take(&self) -> Vec<u8> {
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        free.unwrap_or_else(|| Vec::with_capacity(self.size))
    }

    /// The buffer's bytes, without a copy; the buffer comes back after them.
    pub(crate) fn lend(self: &Arc<Self>, buffer: Vec<u8>) -> Bytes {
        Bytes::from_owner(Lent {
            buffer,
            pool: Arc::clone(self),
        })
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut free = self
            .pool
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // One that had to grow is not kept: a single large message must not stay for ever.
        if free.len() < self.pool.most && buffer.capacity() == self.pool.size {
            buffer.clear();
            free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_after_its_last_reference() {
        let pool = Pool::new(16, 1);
        let mut buffer = pool.take();
        buffer.extend_from_slice(b"abc");
        let place = buffer.as_ptr();
        let bytes = pool.lend(buffer);
        let part = bytes.slice(1..);
        drop(bytes);
        let other = pool.take();
        assert_ne!(other.as_ptr(), place, "still in use");
        assert_eq!(&part[..], b"bc");
        drop(part);
        let again = pool.take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
    }

    #[test]
    fn no_more_than_the_most_and_none_that_grew_is_kept() {
        let pool = Pool::new(16, 1);
        let lent: Vec<_> = (0..3).map(|_| pool.lend(pool.take())).collect();
        drop(lent);
        assert_eq!(pool.free.lock().unwrap().len(), 1);
        let mut grown = pool.take();
        grown.resize(1000, 0);
        drop(pool.lend(grown));
        assert_eq!(pool.free.lock().unwrap().len(), 0);
    }
}
