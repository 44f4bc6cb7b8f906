//! The proxy port: HTTP and SOCKS5, told apart by the first byte.
//!
//! A tunnel whose rules let anything be spoken is dialled before it is answered, so that the answer says
//! whether there is a connection. Any other is answered first, because what is spoken decides whether
//! there will be one, and the program does not speak before it is answered; what fails then is told in
//! the words of what is spoken.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::speech::Speech;
use super::{socks, tell, tunnel};
use crate::denial::Denial;
use crate::http::scan::{Kind, Scan};
use crate::http::{self, Origin, is_connect, read_connect};
use crate::place::{Ask, Flow, Place, Via};
use crate::stream::Inside;
use crate::{Reason, Scheme, relay};

/// For a program to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is read at once.
const ROOM: usize = 1024;

/// How a program begins.
enum Beginning {
    Socks5,
    Socks4,
    /// The head, or why it is none.
    Connect(Result<Bytes, Reason>),
    Http,
    /// It has ended, or said too little for too long.
    Nothing,
}

/// Serves a connection to the proxy port.
pub(crate) async fn serve(place: Arc<Place>, mut inside: Inside) {
    let mut early = BytesMut::new();
    let begun = timeout(PATIENCE, begin(&mut inside, &mut early)).await;
    let beginning = match begun {
        Ok(beginning) => beginning,
        Err(_) if is_connect(&early) == Some(true) => Beginning::Connect(Err(Reason::Deadline)),
        Err(_) => Beginning::Nothing,
    };
    // Each in a box that is gone once it is over: what a connection was before it became a tunnel is not to
    // be paid for while that lasts.
    let opened = match beginning {
        Beginning::Socks5 => Box::pin(socks::serve(place, inside, early)).await,
        Beginning::Socks4 => {
            let reason = Reason::NotSupported;
            place.refuse(Via::Socks, "SOCKS4", reason).await;
            Box::pin(tell::last(inside, &socks::NO_SOCKS4)).await;
            None
        }
        Beginning::Connect(head) => Box::pin(connect(place, inside, head, early)).await,
        Beginning::Http => {
            Box::pin(http::serve(
                place,
                Via::Forward,
                Origin::Proxy,
                inside,
                early,
            ))
            .await;
            None
        }
        Beginning::Nothing => None,
    };
    if let Some(tunnel) = opened {
        tunnel.await;
    }
}

/// A tunnel that was opened, to be carried.
pub(super) type Tunnel = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn begin(inside: &mut Inside, early: &mut BytesMut) -> Beginning {
    let mut scan = Scan::new(Kind::Request);
    loop {
        match early.first() {
            None => {}
            Some(5) => return Beginning::Socks5,
            Some(4) => return Beginning::Socks4,
            Some(_) => match is_connect(early) {
                Some(false) => return Beginning::Http,
                Some(true) => match scan.end(early) {
                    Ok(None) => {}
                    Ok(Some(end)) => {
                        return Beginning::Connect(Ok(early.split_to(end).freeze()));
                    }
                    Err(reason) => return Beginning::Connect(Err(reason)),
                },
                None => {}
            },
        }
        early.reserve(ROOM);
        if !matches!(inside.read_buf(early).await, Ok(1..)) {
            return Beginning::Nothing;
        }
    }
}

async fn connect(
    place: Arc<Place>,
    inside: Inside,
    head: Result<Bytes, Reason>,
    early: BytesMut,
) -> Option<Tunnel> {
    let read = match &head {
        Ok(head) => read_connect(head),
        Err(reason) => Err(*reason),
    };
    let (host, port) = match read {
        Ok(authority) => authority,
        Err(reason) => {
            let raw = head.as_deref().unwrap_or(&early);
            let denial = place.refuse(Via::Connect, raw, reason).await;
            tell::denial(inside, Speech::Http, &denial).await;
            return None;
        }
    };
    drop(head);
    match place.admit(Ask::new(Via::Connect, host, port)).await {
        Ok(flow) => open(flow, inside, early, Words::Connect).await,
        Err(denial) => {
            Words::Connect.denied(inside, &denial).await;
            None
        }
    }
}

/// In which words a tunnel is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    Connect,
    Socks,
}

impl Words {
    const fn opened(self) -> &'static [u8] {
        match self {
            Self::Connect => b"HTTP/1.1 200 Connection established\r\n\r\n",
            Self::Socks => &socks::OPENED,
        }
    }

    pub(super) async fn denied(self, inside: Inside, denial: &Denial) {
        match self {
            Self::Connect => tell::denial(inside, Speech::Http, denial).await,
            Self::Socks => tell::last(inside, &socks::reply(denial.socks())).await,
        }
    }
}

/// Opens a tunnel that was admitted; `None` where that failed, of which the program was told.
pub(super) async fn open(
    mut flow: Flow,
    mut inside: Inside,
    early: BytesMut,
    words: Words,
) -> Option<Tunnel> {
    let dialled = if flow.verdict.schemes.is_opaque() {
        match dial(&mut flow).await {
            Ok(outside) => Some(outside),
            Err(denial) => {
                flow.end(Some(denial.reason));
                words.denied(inside, &denial).await;
                return None;
            }
        }
    } else {
        None
    };
    let told = timeout(PATIENCE, async {
        inside.write_all(words.opened()).await?;
        inside.flush().await
    });
    if !matches!(told.await, Ok(Ok(()))) {
        flow.end(None);
        return None;
    }
    Some(match dialled {
        Some(outside) => Box::pin(relay::carry(flow, inside, outside, early)),
        None => Box::pin(tunnel::run(flow, inside, early)),
    })
}

async fn dial(flow: &mut Flow) -> Result<TcpStream, Denial> {
    flow.refine(Scheme::Tcp)?;
    tokio::select! {
        biased;
        reason = flow.cut() => Err(flow.denial(reason)),
        dialled = flow.dial() => dialled,
    }
}

#[cfg(test)]
mod tests;
