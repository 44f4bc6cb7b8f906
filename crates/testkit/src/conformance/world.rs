//! The world outside the boundary, all of it on this host's loopback: names, and servers that answer.
//!
//! Every name resolves, to the loopback: a denied one would be reached if it were let through.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use namzu_core::types::EgressPolicy;
use namzu_core::{Error, ErrorCode, Result};
use namzu_egress::{Answer, Boundary, Lookup, LookupError, Name};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::conformance::certificate::Authority;
use crate::conformance::check::Verdict;
use crate::conformance::host;

/// Bytes of a request's head.
const HEAD: usize = 64 << 10;

/// The world of one suite.
pub(crate) struct World {
    pub(crate) boundary: Boundary,
    pub(crate) authority: Authority,
    names: Names,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

/// Resolves everything, and remembers what it was asked.
#[derive(Clone, Debug, Default)]
struct Names(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Lookup for Names {
    async fn lookup(&self, name: &Name) -> Result<Answer, LookupError> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(name.as_str().to_owned());
        Ok(Answer {
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            ..Answer::default()
        })
    }
}

impl World {
    pub(crate) fn new() -> Result<Self> {
        let names = Names::default();
        let authority = Authority::new()?;
        let scratch = host::scratch("roots").map_err(failed)?;
        let roots = scratch.join("roots.pem");
        std::fs::write(&roots, authority.pem()).map_err(failed)?;
        let boundary = Boundary::builder()
            .lookup(names.clone())
            .roots(roots)
            .build()?;
        Ok(Self {
            boundary,
            authority,
            names,
        })
    }

    /// Whether the boundary has resolved `name`.
    pub(crate) fn was_asked(&self, name: &str) -> bool {
        self.names
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .any(|asked| asked == name)
    }
}

fn failed(err: std::io::Error) -> Error {
    Error::new(ErrorCode::Internal, "write the roots of the suite's world").with_source(err)
}

/// A rule for a server of the world.
pub(crate) fn rule(host: &str, port: u16, scheme: &str) -> Value {
    json!({"host": host, "ports": [port], "scheme": scheme, "inward": ["127.0.0.1/32"]})
}

/// A policy of these rules.
pub(crate) fn rules(rules: &[Value]) -> Verdict<EgressPolicy> {
    policy(json!({"kind": "static", "rules": rules}))
}

pub(crate) fn policy(json: Value) -> Verdict<EgressPolicy> {
    Ok(serde_json::from_value(json)?)
}

/// A server that sends back every line, and can speak up on its own.
pub(crate) struct Echo {
    pub(crate) port: u16,
    voice: broadcast::Sender<String>,
    _serving: JoinSet<()>,
}

impl Echo {
    pub(crate) async fn open() -> Verdict<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (voice, _) = broadcast::channel(16);
        let all = voice.clone();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((peer, _)) = listener.accept().await {
                connections.spawn(echo(peer, all.subscribe()));
            }
        });
        Ok(Self {
            port,
            voice,
            _serving: serving,
        })
    }

    /// Says a line on every connection there is.
    pub(crate) fn speak(&self, line: &str) {
        // Without a connection there is nobody to hear it.
        let _ = self.voice.send(line.to_owned());
    }
}

async fn echo(peer: tokio::net::TcpStream, mut voice: broadcast::Receiver<String>) {
    let (from, mut to) = peer.into_split();
    let mut lines = BufReader::new(from.take(HEAD as u64)).lines();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line.ok().flatten(),
            line = voice.recv() => line.ok(),
        };
        let Some(line) = line else { return };
        if to.write_all(format!("{line}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A server that sends back every byte, and ends when who sends them has.
pub(crate) struct Mirror {
    pub(crate) port: u16,
    _serving: JoinSet<()>,
}

impl Mirror {
    pub(crate) async fn open() -> Verdict<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut peer, _)) = listener.accept().await {
                connections.spawn(async move {
                    let (mut from, mut to) = peer.split();
                    // A client that hangs up is the client's business.
                    if tokio::io::copy(&mut from, &mut to).await.is_ok() {
                        let _ = to.shutdown().await;
                    }
                });
            }
        });
        Ok(Self {
            port,
            _serving: serving,
        })
    }
}

/// A server that sends as much as is taken.
pub(crate) struct Flood {
    pub(crate) port: u16,
    sent: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Flood {
    pub(crate) async fn open() -> Verdict<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut peer, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                connections.spawn(async move {
                    let drops = vec![0; 64 << 10];
                    while let Ok(more) = peer.write(&drops).await {
                        count.fetch_add(more, Ordering::Relaxed);
                    }
                });
            }
        });
        Ok(Self {
            port,
            sent,
            _serving: serving,
        })
    }

    /// Bytes that were taken.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }
}

/// A web server that answers with the head that it was sent.
pub(crate) struct Web {
    pub(crate) port: u16,
    heads: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl Web {
    /// In the clear.
    pub(crate) async fn open() -> Verdict<Self> {
        Self::serve(None).await
    }

    /// As `host`, over TLS.
    pub(crate) async fn open_tls(world: &World, host: &str) -> Verdict<Self> {
        Self::serve(Some(world.authority.acceptor(host)?)).await
    }

    async fn serve(tls: Option<tokio_rustls::TlsAcceptor>) -> Verdict<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((peer, _)) = listener.accept().await {
                let (tls, seen) = (tls.clone(), Arc::clone(&seen));
                connections.spawn(async move {
                    // A client that hangs up is the client's business.
                    match tls {
                        None => drop(answer(peer, &seen).await),
                        Some(tls) => {
                            if let Ok(peer) = tls.accept(peer).await {
                                drop(answer(peer, &seen).await);
                            }
                        }
                    }
                });
            }
        });
        Ok(Self {
            port,
            heads,
            _serving: serving,
        })
    }

    /// The heads of the requests that came.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn answer(
    mut peer: impl AsyncRead + AsyncWrite + Unpin,
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD {
        head.push(peer.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{head}",
        head.len()
    );
    seen.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(head);
    peer.write_all(reply.as_bytes()).await?;
    peer.shutdown().await
}
