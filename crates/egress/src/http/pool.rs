//! Idle connections to the outside that a later request of the same sandbox may use.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::client::slim;
use super::server::Server;
use crate::lock::locked;
use crate::{Host, Scheme};

/// How long a connection may be idle. Servers close theirs after some such time, too.
const IDLE: Duration = Duration::from_secs(30);
/// The most idle connections of one sandbox.
const MOST: usize = 128;

/// Whom a connection leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) scheme: Scheme,
}

/// Idle connections of one sandbox. Those that were made under another policy are not used: the address
/// might not be reached under this one.
#[derive(Default)]
pub(crate) struct Pool {
    shelf: Arc<Mutex<Shelf>>,
}

#[derive(Default)]
struct Shelf {
    idle: HashMap<Key, Vec<Idle>>,
    count: usize,
    /// Something waits to throw out what is idle too long.
    swept: bool,
}

struct Idle {
    server: Server,
    since: Instant,
    generation: u64,
}

impl Pool {
    /// A connection to `key` that is not idle for longer than `fresh`, the latest first.
    pub(crate) fn take(&self, key: &Key, generation: u64, fresh: Duration) -> Option<Server> {
        loop {
            let mut idle = locked(&self.shelf).pop(key)?;
            let usable = idle.generation == generation && idle.since.elapsed() < fresh.min(IDLE);
            if usable && idle.server.is_quiet() {
                return Some(idle.server);
            }
        }
    }

    /// Keeps a connection for later. One too many is closed.
    pub(crate) fn put(&self, key: Key, generation: u64, mut server: Server) {
        slim([&mut server.buffer, &mut server.out]);
        let mut shelf = locked(&self.shelf);
        if shelf.count >= MOST {
            return;
        }
        shelf.count += 1;
        shelf.idle.entry(key).or_default().push(Idle {
            server,
            since: Instant::now(),
            generation,
        });
        if !std::mem::replace(&mut shelf.swept, true) {
            drop(shelf);
            tokio::spawn(sweep(Arc::downgrade(&self.shelf)));
        }
    }

    /// Closes all: the policy changed, and may no longer let connections lead where these lead.
    pub(crate) fn flush(&self) {
        let mut shelf = locked(&self.shelf);
        shelf.count = 0;
        let idle = std::mem::take(&mut shelf.idle);
        drop(shelf);
        drop(idle);
    }
}

/// Throws out what is idle too long, until nothing is left.
async fn sweep(shelf: Weak<Mutex<Shelf>>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(shelf) = shelf.upgrade() else { return };
        let mut shelf = locked(&shelf);
        shelf.sweep();
        if shelf.count == 0 {
            shelf.swept = false;
            return;
        }
    }
}

impl Shelf {
    fn pop(&mut self, key: &Key) -> Option<Idle> {
        let idle = self.idle.get_mut(key)?.pop()?;
        self.count -= 1;
        Some(idle)
    }

    fn sweep(&mut self) {
        for idle in self.idle.values_mut() {
            idle.retain(|idle| idle.since.elapsed() < IDLE);
        }
        self.idle.retain(|_, idle| !idle.is_empty());
        self.count = self.idle.values().map(Vec::len).sum();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = locked(&self.shelf).count;
        f.debug_struct("Pool").field("idle", &count).finish()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::http::server::Out;

    fn key() -> Key {
        Key {
            host: Host::parse("a.test").unwrap(),
            port: 80,
            scheme: Scheme::Http,
        }
    }

    async fn connection() -> (Server, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (far, _) = listener.accept().await.unwrap();
        (Server::new(Out::Tcp(near)), far)
    }

    #[tokio::test]
    async fn a_connection_is_used_again_under_the_policy_that_it_was_made_under() {
        let pool = Pool::default();
        let (server, _far) = connection().await;
        pool.put(key(), 1, server);
        assert!(pool.take(&key(), 2, IDLE).is_none());
        let (server, _far) = connection().await;
        pool.put(key(), 2, server);
        let other = Key { port: 81, ..key() };
        assert!(pool.take(&other, 2, IDLE).is_none());
        assert!(pool.take(&key(), 2, IDLE).is_some());
        assert!(pool.take(&key(), 2, IDLE).is_none());
    }

    #[tokio::test]
    async fn a_connection_that_ended_or_spoke_unasked_is_not_used_again() {
        let pool = Pool::default();
        for speak in [true, false] {
            let (server, mut far) = connection().await;
            if speak {
                far.write_all(b"HTTP/1.1 408 \r\n\r\n").await.unwrap();
            } else {
                far.shutdown().await.unwrap();
            }
            let Out::Tcp(socket) = &server.io else {
                unreachable!("made so")
            };
            socket.readable().await.unwrap();
            pool.put(key(), 1, server);
            assert!(pool.take(&key(), 1, IDLE).is_none(), "{speak}");
        }
    }

    #[tokio::test]
    async fn what_is_idle_too_long_is_closed() {
        let pool = Pool::default();
        let (server, _far) = connection().await;
        tokio::time::pause();
        pool.put(key(), 1, server);
        tokio::time::sleep(IDLE * 3).await;
        assert_eq!(locked(&pool.shelf).count, 0);
    }
}
