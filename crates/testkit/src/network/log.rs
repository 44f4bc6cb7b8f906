//! Who connected where, and what was said.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is kept of one connection, in bytes.
const MOST: usize = 1 << 20;

/// Everything that reached a server. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<Seen>>>);

/// A connection, or a datagram.
#[derive(Clone)]
pub struct Seen {
    /// Who.
    pub from: SocketAddr,
    /// Where.
    pub to: SocketAddr,
    /// A datagram.
    pub udp: bool,
    /// The name that was sent with TLS.
    pub server_name: Option<String>,
    /// What was received, inside TLS where there is TLS.
    pub bytes: Vec<u8>,
    /// The requests in HTTP/1.1 that a server read there which takes whatever it is sent.
    pub requests: usize,
    forgotten: bool,
}

impl Seen {
    /// What was received, as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(if self.udp { "Datagram" } else { "Connection" })
            .field("from", &self.from)
            .field("to", &self.to)
            .field("server_name", &self.server_name)
            .field("bytes", &self.text())
            .field("requests", &self.requests)
            .finish_non_exhaustive()
    }
}

impl Log {
    /// What `wanted` chooses.
    #[must_use]
    pub fn all(&self, wanted: impl Fn(&Seen) -> bool) -> Vec<Seen> {
        let all = self.lock();
        let chosen = all.iter().filter(|seen| !seen.forgotten && wanted(seen));
        chosen.cloned().collect()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        // Connections that are still open go on writing to their entries.
        for seen in self.lock().iter_mut() {
            seen.forgotten = true;
        }
    }

    pub(super) fn any(&self, wanted: impl Fn(&Seen) -> bool) -> bool {
        self.lock().iter().rev().any(wanted)
    }

    /// Enters a connection, or the whole of a datagram.
    pub(super) fn enter(&self, from: SocketAddr, to: SocketAddr, datagram: Option<&[u8]>) -> usize {
        let mut all = self.lock();
        all.push(Seen {
            from: canonical(from),
            to: canonical(to),
            udp: datagram.is_some(),
            server_name: None,
            bytes: datagram.unwrap_or_default().to_vec(),
            requests: 0,
            forgotten: false,
        });
        all.len() - 1
    }

    pub(super) fn named(&self, at: usize, name: &str) {
        if let Some(seen) = self.lock().get_mut(at) {
            seen.server_name = Some(name.to_owned());
        }
    }

    pub(super) fn received(&self, at: usize, bytes: &[u8]) {
        if let Some(seen) = self.lock().get_mut(at) {
            let room = MOST.saturating_sub(seen.bytes.len()).min(bytes.len());
            seen.bytes.extend_from_slice(&bytes[..room]);
        }
    }

    pub(super) fn request(&self, at: usize) {
        if let Some(seen) = self.lock().get_mut(at) {
            seen.requests += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An IPv4 address that came to a socket of IPv6 is one.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
