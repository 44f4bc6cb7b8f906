//! A connection that was admitted: what its bytes are decides what becomes of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::speech::{self, Speech};
use super::tell;
use crate::denial::Denial;
use crate::place::Flow;
use crate::stream::Inside;
use crate::tls::hello::{self, Hello, HelloError};
use crate::{Host, Reason, Scheme, http, relay, tls};

/// For the first bytes, and all of a hello, to come.
const PATIENCE: Duration = Duration::from_secs(10);
/// For the first byte, where a rule lets anything be spoken: the program may be waiting for the server to
/// speak first.
const FIRST_BYTE: Duration = Duration::from_millis(250);

/// What is left to do for a connection: to carry it.
struct Ready {
    flow: Flow,
    inside: Inside,
    outside: TcpStream,
    early: BytesMut,
}

/// Carries an admitted connection to its end; `early` was read from inside already.
pub(crate) async fn run(flow: Flow, inside: Inside, early: BytesMut) {
    // In boxes: a tunnel that is only carried is not to pay for all that might have been, while it lasts.
    let Some(ready) = Box::pin(prepare(flow, inside, early)).await else {
        return;
    };
    Box::pin(relay::carry(
        ready.flow,
        ready.inside,
        ready.outside,
        ready.early,
    ))
    .await;
}

/// Everything up to the carrying; nothing is left of a connection that is not only carried.
async fn prepare(flow: Flow, mut inside: Inside, mut early: BytesMut) -> Option<Ready> {
    let schemes = flow.verdict.schemes;
    if schemes.is_opaque() {
        return opaque(flow, inside, early).await;
    }
    let heard = tokio::select! {
        biased;
        reason = flow.cut() => Err(reason),
        heard = hear(&mut inside, &mut early, schemes.has(Scheme::Tcp)) => heard,
    };
    if let Ok(Heard::Tls(Ok(hello))) = &heard
        && let Some(name) = &hello.server_name
    {
        flow.saw_server_name(name.as_str());
    }
    match heard {
        Ok(Heard::Tls(hello)) => match names_its_host(&flow.ask.host, hello.as_ref()) {
            Ok(()) if schemes.has(Scheme::Https) => secure(flow, inside, early).await,
            _ if schemes.has(Scheme::Tcp) => opaque(flow, inside, early).await,
            // Denied, unless the policy has just changed.
            Ok(()) => secure(flow, inside, early).await,
            Err(reason) => {
                let denial = flow.denial(reason);
                refuse(flow, inside, Speech::Tls, &denial).await
            }
        },
        Ok(Heard::Http) if schemes.has(Scheme::Http) || !schemes.has(Scheme::Tcp) => {
            plain(flow, inside, early).await
        }
        Ok(Heard::Http | Heard::Other) => opaque(flow, inside, early).await,
        Ok(Heard::Nothing) => {
            flow.end(None);
            None
        }
        Err(reason) => {
            flow.end(Some(reason));
            inside.reset();
            None
        }
    }
}

/// What a program has sent first.
enum Heard {
    Tls(Result<Hello, HelloError>),
    Http,
    Other,
    /// It has ended without a word.
    Nothing,
}

/// Reads until it is clear what is spoken, and a hello to its end. Where anything may be spoken, whoever
/// is slow speaks something else.
async fn hear(inside: &mut Inside, early: &mut BytesMut, anything: bool) -> Result<Heard, Reason> {
    let deadline = Instant::now() + PATIENCE;
    let late = || {
        if anything {
            Ok(Heard::Other)
        } else {
            Err(Reason::Deadline)
        }
    };
    let first = if anything {
        Instant::now() + FIRST_BYTE
    } else {
        deadline
    };
    let mut ended = false;
    loop {
        let more = match speech::recognise(early) {
            Some(Speech::Http) => return Ok(Heard::Http),
            Some(Speech::Ssh | Speech::Other) => return Ok(Heard::Other),
            Some(Speech::Tls) => match hello::read(early) {
                Err(HelloError::Incomplete(length)) => length,
                read => return Ok(Heard::Tls(read)),
            },
            None => early.len() + 1,
        };
        if ended {
            let nothing = early.is_empty();
            return Ok(if nothing {
                Heard::Nothing
            } else {
                Heard::Other
            });
        }
        let until = if early.is_empty() { first } else { deadline };
        match timeout_at(until, fill(inside, early, more)).await {
            Ok(whole) => ended = !whole,
            Err(_) => return late(),
        }
    }
}

/// Reads until there are `length` bytes; `false` if there will never be.
async fn fill(inside: &mut Inside, early: &mut BytesMut, length: usize) -> bool {
    while early.len() < length {
        if !matches!(inside.read_buf(early).await, Ok(1..)) {
            return false;
        }
    }
    true
}

/// Whether the server that a hello names is the one that the connection was opened for.
fn names_its_host(host: &Host, hello: Result<&Hello, &HelloError>) -> Result<(), Reason> {
    let Ok(hello) = hello else {
        return Err(Reason::ServerNameMissing);
    };
    match (host, &hello.server_name) {
        (Host::Name(host), Some(name)) if host == name => Ok(()),
        // Nobody has a name to give for what a rule names by its address.
        (Host::Address(_), None) => Ok(()),
        (_, Some(_)) => Err(Reason::ServerNameMismatch),
        (Host::Name(_), None) => Err(Reason::ServerNameMissing),
    }
}

/// TLS to the host that it names.
async fn secure(mut flow: Flow, inside: Inside, early: BytesMut) -> Option<Ready> {
    if let Err(denial) = flow.refine(Scheme::Https) {
        return refuse(flow, inside, Speech::Tls, &denial).await;
    }
    if flow.verdict.terminate {
        tls::intercept(flow, inside, early).await;
        return None;
    }
    dial(flow, inside, early, Speech::Tls).await
}

/// HTTP in the clear: each request is judged by itself.
async fn plain(mut flow: Flow, inside: Inside, early: BytesMut) -> Option<Ready> {
    if let Err(denial) = flow.refine(Scheme::Http) {
        return refuse(flow, inside, Speech::Http, &denial).await;
    }
    let origin = http::Origin::Fixed {
        host: flow.ask.host.clone(),
        port: flow.ask.port,
        scheme: Scheme::Http,
    };
    let served = http::serve(Arc::clone(&flow.place), flow.ask.via, origin, inside, early);
    let why = tokio::select! {
        biased;
        reason = flow.cut() => Some(reason),
        () = served => None,
    };
    flow.end(why);
    None
}

/// Bytes that a rule lets be anything.
async fn opaque(mut flow: Flow, inside: Inside, early: BytesMut) -> Option<Ready> {
    let speech = match flow.ask.port {
        speech::SSH => Speech::Ssh,
        _ => Speech::Other,
    };
    if let Err(denial) = flow.refine(Scheme::Tcp) {
        return refuse(flow, inside, speech, &denial).await;
    }
    dial(flow, inside, early, speech).await
}

async fn dial(flow: Flow, inside: Inside, early: BytesMut, speech: Speech) -> Option<Ready> {
    let dialled = tokio::select! {
        biased;
        reason = flow.cut() => {
            flow.end(Some(reason));
            inside.reset();
            return None;
        }
        dialled = flow.dial() => dialled,
    };
    match dialled {
        Ok(outside) => Some(Ready {
            flow,
            inside,
            outside,
            early,
        }),
        Err(denial) => refuse(flow, inside, speech, &denial).await,
    }
}

async fn refuse(flow: Flow, inside: Inside, speech: Speech, denial: &Denial) -> Option<Ready> {
    flow.end(Some(denial.reason));
    tell::denial(inside, speech, denial).await;
    None
}

#[cfg(test)]
mod tests;
