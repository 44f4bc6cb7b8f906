//! A listener that others can reach: its connections, and which of them must make room.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use crate::listener::{self, Kind};
use crate::serve::serve;
use crate::worker::Worker;

/// Connections of one listener at a time. Beyond it the oldest one without proof makes room; when
/// all have given it, more wait in the kernel's backlog.
const MOST_CONNECTIONS: usize = 1024;

/// Whether a connection's peer has shown the token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proof(Arc<AtomicBool>);

impl Proof {
    pub(crate) fn give(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_given(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Serves all connections. Returns when the worker closes and the last one has ended.
pub(crate) async fn serve_all(worker: Arc<Worker>, socket: AsyncFd<OwnedFd>, kind: Kind) {
    let mut connections = JoinSet::new();
    // In the order of their coming.
    let mut strangers = VecDeque::new();
    loop {
        while connections.len() >= MOST_CONNECTIONS {
            if let Some(oldest) = oldest_without_proof(&mut strangers) {
                oldest.abort();
            }
            connections.join_next().await;
        }
        let accepted = tokio::select! {
            accepted = listener::accept(&socket, kind) => accepted,
            () = worker.closing() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let proof = Proof::default();
                let served = serve(Arc::clone(&worker), stream, peer, proof.clone());
                strangers.push_back((proof, connections.spawn(served)));
            }
            // Out of descriptors, most likely: those of others come back with time.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
        if strangers.len() > 2 * MOST_CONNECTIONS {
            strangers.retain(is_stranger);
        }
    }
    drop(socket);
    while connections.join_next().await.is_some() {}
}

type Stranger = (Proof, AbortHandle);

fn is_stranger((proof, task): &Stranger) -> bool {
    !proof.is_given() && !task.is_finished()
}

fn oldest_without_proof(strangers: &mut VecDeque<Stranger>) -> Option<AbortHandle> {
    std::iter::from_fn(|| strangers.pop_front())
        .find(is_stranger)
        .map(|(_, task)| task)
}
