//! Requests on one connection from inside, one after the other, each judged by itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Method;
use http::uri::PathAndQuery;

use super::Origin;
use super::client::{Client, NoHead};
use super::exchange::{Failure, Kept, Outgoing, Told, exchange};
use super::fields::Framing;
use super::head::RequestHead;
use super::pool::Key;
use super::server::Server;
use super::target::Target;
use super::write::{self, Connection, default_port};
use crate::denial::Denial;
use crate::place::{Ask, Flow, Place, Via};
use crate::stream::Line;
use crate::{Authority, Host, Reason, Scheme};

/// For a request that cannot be sent twice, an idle connection must be this young: an older one may be
/// closed by the server at the very time.
const FRESH: Duration = Duration::from_secs(1);

/// Serves the requests that come on `io`, of which `early` was read already, until it ends. Each is
/// admitted as a flow of its own.
///
/// # Cancel safety
///
/// Dropped in the middle of a request, both connections end with it.
pub(crate) async fn serve<S: Line>(
    place: Arc<Place>,
    via: Via,
    origin: Origin,
    io: S,
    early: BytesMut,
) {
    let mut client = Client::new(io, early);
    loop {
        match one(&place, via, &origin, &mut client).await {
            After::Next => {}
            After::Close => return client.finish().await,
            After::Reset => return client.io.doom(),
            After::Over => return,
        }
    }
}

/// What becomes of a connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// It takes another.
    Next,
    /// It ends, when the answer has arrived.
    Close,
    /// It breaks off, so that nobody takes what was answered for the whole.
    Reset,
    /// It is over.
    Over,
}

/// Whom a request is for.
struct Wanted {
    host: Host,
    port: u16,
    scheme: Scheme,
    path: Option<PathAndQuery>,
}

async fn one<S: Line>(
    place: &Arc<Place>,
    via: Via,
    origin: &Origin,
    client: &mut Client<S>,
) -> After {
    let bytes = match client.head().await {
        Ok(bytes) => bytes,
        Err(NoHead::Over) => return After::Over,
        Err(NoHead::Refused(reason)) => {
            let raw = client.buffer.split();
            return refuse(place, via, client, &raw, reason).await;
        }
    };
    let head = match RequestHead::parse(&bytes) {
        Ok(head) => head,
        Err(reason) => return refuse(place, via, client, &bytes, reason).await,
    };
    let wanted = match wanted(origin, &head) {
        Ok(wanted) => wanted,
        Err(reason) => return refuse(place, via, client, &bytes, reason).await,
    };
    drop(bytes);
    let path = wanted.path.as_ref().map_or("*", PathAndQuery::path);
    let ask = Ask {
        via,
        host: wanted.host.clone(),
        port: wanted.port,
        scheme: Some(wanted.scheme),
        request: Some((head.method.as_str().into(), path.into())),
    };
    match place.admit(ask).await {
        Ok(flow) => admitted(flow, wanted, head, client).await,
        Err(denial) => denied(client, &denial, &head).await,
    }
}

/// Answers what is no request, or not one that is judged here. What follows it cannot be told from it.
async fn refuse<S: Line>(
    place: &Place,
    via: Via,
    client: &mut Client<S>,
    raw: &[u8],
    reason: Reason,
) -> After {
    let denial = place.refuse(via, raw, reason).await;
    write::denial(&mut client.out, &denial, Connection::Closes, false);
    client.flush().await;
    After::Close
}

/// Answers a request that is not carried out. The connection stays where it is known that nothing of the
/// request is still to come.
async fn denied<S: Line>(client: &mut Client<S>, denial: &Denial, head: &RequestHead) -> After {
    let stays = head.keep_alive && matches!(head.framing, Framing::None | Framing::Length(0));
    answer(
        client,
        denial,
        stays,
        head.minor == 1,
        head.method == Method::HEAD,
    )
    .await
}

async fn answer<S: Line>(
    client: &mut Client<S>,
    denial: &Denial,
    stays: bool,
    modern: bool,
    bodiless: bool,
) -> After {
    let connection = match (stays, modern) {
        (false, _) => Connection::Closes,
        (true, true) => Connection::Stays,
        (true, false) => Connection::StaysOld,
    };
    client.out.clear();
    write::denial(&mut client.out, denial, connection, bodiless);
    match (client.flush().await, stays) {
        (false, _) => After::Over,
        (true, true) => After::Next,
        (true, false) => After::Close,
    }
}

/// Whom a request is for: to a proxy its target says so, and `Host` says nothing; else `Host` must say the
/// same as the connection.
fn wanted(origin: &Origin, head: &RequestHead) -> Result<Wanted, Reason> {
    match (origin, &head.target) {
        (_, Target::Authority(_)) => Err(Reason::TraceRefused),
        (Origin::Proxy, Target::Absolute(scheme, authority, path)) => Ok(Wanted {
            host: authority.host.clone(),
            port: authority.port.unwrap_or(default_port(*scheme)),
            scheme: *scheme,
            path: Some(path.clone()),
        }),
        (Origin::Fixed { host, port, scheme }, Target::Origin(_) | Target::Asterisk) => {
            let same = |named: &Authority| {
                named.host == *host && named.port.is_none_or(|named| named == *port)
            };
            if !head.host.as_ref().is_none_or(same) {
                return Err(Reason::HostMismatch);
            }
            Ok(Wanted {
                host: host.clone(),
                port: *port,
                scheme: *scheme,
                path: match &head.target {
                    Target::Origin(path) => Some(path.clone()),
                    _ => None,
                },
            })
        }
        (Origin::Proxy, Target::Origin(_) | Target::Asterisk)
        | (Origin::Fixed { .. }, Target::Absolute(..)) => Err(Reason::RequestMalformed),
    }
}

/// Carries out a request that was admitted.
async fn admitted<S: Line>(
    flow: Flow,
    wanted: Wanted,
    head: RequestHead,
    client: &mut Client<S>,
) -> After {
    let mut headers = head.headers;
    let credential = flow
        .verdict
        .rule
        .as_ref()
        .and_then(|rule| rule.credential.as_deref());
    let scrub = match flow.regime.broker.outgoing(credential, &mut headers).await {
        Ok(scrub) => scrub,
        Err(reason) => {
            let denial = flow.denial(reason);
            flow.end(Some(reason));
            let head = RequestHead { headers, ..head };
            return denied(client, &denial, &head).await;
        }
    };
    let request = Outgoing {
        target: wanted
            .path
            .as_ref()
            .map_or("*", PathAndQuery::as_str)
            .to_owned(),
        host: write::host_field(&wanted.host, wanted.port, wanted.scheme),
        headers,
        framing: head.framing,
        websocket: head.websocket,
        modern: head.minor == 1,
        keep_alive: head.keep_alive,
        expects: head.expects,
        method: head.method,
        scrub,
    };
    let key = Key {
        host: wanted.host,
        port: wanted.port,
        scheme: wanted.scheme,
    };
    let mut told = Told::default();
    match carried(&flow, &key, &request, client, &mut told).await {
        Ok(kept) => {
            flow.end(None);
            if kept.client {
                After::Next
            } else {
                After::Close
            }
        }
        Err(Fault::Denied(denial)) => {
            flow.end(Some(denial.reason));
            let stays = request.keep_alive && request.bodiless();
            answer(
                client,
                &denial,
                stays,
                request.modern,
                request.method == Method::HEAD,
            )
            .await
        }
        Err(Fault::Failed(failure)) => failed(flow, &request, client, &told, failure).await,
    }
}

/// Why a request was not carried out.
enum Fault {
    /// No server was reached.
    Denied(Denial),
    Failed(Failure),
}

/// Has a server carry out the request: one that is connected already, or a new one.
async fn carried<S: Line>(
    flow: &Flow,
    key: &Key,
    request: &Outgoing,
    client: &mut Client<S>,
    told: &mut Told,
) -> Result<Kept, Fault> {
    let generation = flow.verdict.generation;
    let pool = &flow.place.pool;
    let fresh = if request.repeatable() {
        Duration::MAX
    } else {
        FRESH
    };
    let taken = pool.take(key, generation, fresh);
    let shared = taken.and_then(|server| {
        if server.peer().is_some_and(|peer| flow.shares(peer)) {
            return Some(server);
        }
        // Still good for those whose rule opens where it leads.
        pool.put(key.clone(), generation, server);
        None
    });
    if let Some(mut server) = shared {
        match watched(flow, client, &mut server, request, told).await {
            Ok(kept) => {
                if kept.server {
                    pool.put(key.clone(), generation, server);
                }
                return Ok(kept);
            }
            // It had closed, and this request crossed with the news.
            Err(Failure::Server) if request.repeatable() && !told.heard => {}
            Err(failure) => return Err(Fault::Failed(failure)),
        }
    }
    let opened = tokio::select! {
        biased;
        opened = Server::open(flow, key.scheme) => opened,
        why = flow.cut() => return Err(Fault::Failed(Failure::Over(why))),
    };
    let mut server = opened.map_err(Fault::Denied)?;
    let kept = watched(flow, client, &mut server, request, told)
        .await
        .map_err(Fault::Failed)?;
    if kept.server {
        pool.put(key.clone(), generation, server);
    }
    Ok(kept)
}

/// An exchange that ends when its flow is cut. Whatever fails, nobody outside may take what was sent of the
/// request for the whole.
async fn watched<S: Line>(
    flow: &Flow,
    client: &mut Client<S>,
    server: &mut Server,
    request: &Outgoing,
    told: &mut Told,
) -> Result<Kept, Failure> {
    let ended = tokio::select! {
        biased;
        ended = exchange(client, server, request, flow, told) => ended,
        why = flow.cut() => Err(Failure::Over(why)),
    };
    if ended.is_err() {
        server.io.doom();
    }
    ended
}

/// Tells the client, where that can still be done, that its request failed.
async fn failed<S: Line>(
    flow: Flow,
    request: &Outgoing,
    client: &mut Client<S>,
    told: &Told,
    failure: Failure,
) -> After {
    let reason = match failure {
        Failure::Client => {
            flow.end(None);
            return After::Reset;
        }
        Failure::Over(why) => {
            // Before the books are closed, so that whoever waits for the cut finds it done.
            client.io.doom();
            flow.end(Some(why));
            return After::Reset;
        }
        Failure::Request => Reason::RequestMalformed,
        Failure::Server => Reason::UpstreamBroken,
    };
    let denial = flow.denial(reason);
    flow.end(Some(reason));
    if told.answered {
        return After::Reset;
    }
    let stays = request.keep_alive && told.read;
    answer(
        client,
        &denial,
        stays,
        request.modern,
        request.method == Method::HEAD,
    )
    .await
}

/// Whether a connection begins with CONNECT; `None` while that cannot be told.
pub(crate) fn is_connect(bytes: &[u8]) -> Option<bool> {
    let prefix = b"CONNECT ";
    let seen = bytes.len().min(prefix.len());
    if bytes[..seen] != prefix[..seen] {
        return Some(false);
    }
    (seen == prefix.len()).then_some(true)
}

/// Reads the head of a CONNECT: whom it wants. Its `Host` says nothing.
///
/// # Errors
///
/// Those of [`RequestHead::parse`].
pub(crate) fn read_connect(head: &Bytes) -> Result<(Host, u16), Reason> {
    match RequestHead::parse(head)?.target {
        Target::Authority(Authority {
            host,
            port: Some(port),
        }) => Ok((host, port)),
        _ => Err(Reason::RequestMalformed),
    }
}

#[cfg(test)]
mod tests;
