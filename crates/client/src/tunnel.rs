//! Connections into a sandbox, and out of it.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Method;
use namzu_core::{Duplex, Error, ErrorCode, Phase, Result};
use namzu_protocol::{ext, query};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::conn::{Call, Conn, Payload};
use crate::worker::Worker;

/// Connections that one reach carries at once; further ones wait inside.
const REACH_CONNECTIONS: usize = 256;

/// Accepts that wait inside for somebody to connect.
const REACH_PARKED: usize = 4;

/// A connection to a port inside.
pub struct Tunnel {
    io: Box<dyn Duplex>,
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Connects to a port on the loopback inside.
pub(crate) async fn expose(worker: &Worker, port: u16) -> Result<Tunnel> {
    let what = "connect to a port inside";
    let path = with_port(ext::EXPOSE, port);
    let opened = worker
        .timed(Phase::Tunnel, what, worker.conn().connect(path))
        .await?;
    match opened {
        Ok(io) => Ok(Tunnel { io }),
        Err(response) => Err(worker.refusal_json(Phase::Tunnel, what, response).await),
    }
}

fn with_port(path: &str, port: u16) -> String {
    format!("{path}?{}", query::build(&[("port", &port.to_string())]))
}

/// A port inside that leads to the host for as long as this lives.
///
/// Dropping it closes the port and ends the connections it carries. Two of them on one port share
/// its connections, and the first to be dropped closes it.
#[derive(Debug)]
pub struct Reach {
    port: u16,
    worker: Worker,
    /// Aborted when dropped.
    _accepts: JoinSet<()>,
}

impl Drop for Reach {
    fn drop(&mut self) {
        let conn = self.worker.conn().clone();
        let call = Call::new(Method::DELETE, with_port(ext::REACH, self.port));
        self.worker.chore(async move {
            // A worker that is gone listens no more either.
            let _ = conn.send(call, Payload::Empty).await;
        });
    }
}

impl Reach {
    /// The port on the loopback inside.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

/// Opens a port inside whose connections `dial` answers.
pub(crate) async fn reach<F, Fut, D>(worker: &Worker, port: u16, dial: F) -> Result<Reach>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = io::Result<D>> + Send + 'static,
    D: Duplex + 'static,
{
    let what = "open a port inside";
    let request = ext::Reach { port };
    let answer: ext::Reach = worker
        .ext(Phase::Tunnel, what, ext::REACH, &request)
        .await?;
    if answer.port == 0 || (port != 0 && answer.port != port) {
        return Err(Error::new(
            ErrorCode::ProtocolViolation,
            "open a port inside: the worker names another port",
        )
        .during(Phase::Tunnel));
    }
    let port = answer.port;
    let dial = Arc::new(dial);
    let room = Arc::new(Semaphore::new(REACH_CONNECTIONS));
    let mut accepts = JoinSet::new();
    for _ in 0..REACH_PARKED {
        accepts.spawn(accept(
            worker.conn().clone(),
            with_port(ext::ACCEPT, port),
            Arc::clone(&dial),
            Arc::clone(&room),
        ));
    }
    Ok(Reach {
        port,
        worker: worker.clone(),
        _accepts: accepts,
    })
}

/// Parks accepts one after the other, and carries each connection that comes of one.
async fn accept<F, Fut, D>(conn: Conn, path: String, dial: Arc<F>, room: Arc<Semaphore>)
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = io::Result<D>> + Send + 'static,
    D: Duplex + 'static,
{
    let mut carried = JoinSet::new();
    loop {
        while carried.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            break;
        };
        // Anything but a connection says that the port, or the sandbox, is closed.
        let Ok(Ok(mut inside)) = conn.connect(path.clone()).await else {
            break;
        };
        let dial = Arc::clone(&dial);
        carried.spawn(async move {
            match dial().await {
                Ok(mut outside) => {
                    // A connection that breaks is the two ends' business.
                    let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
                }
                Err(err) => tracing::debug!(%err, "a connection out of a sandbox was not answered"),
            }
            drop(permit);
        });
    }
    while carried.join_next().await.is_some() {}
}
