//! One connection whose TLS ends here.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rustls::server::{Acceptor, ClientHello};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::client::TlsStream as Outside;
use tokio_rustls::server::{StartHandshake, TlsStream};

use super::replay::Replay;
use super::{H2, HTTP1, deny, h2, upstream};
use crate::denial::Denial;
use crate::http::pool::Key;
use crate::http::server::{Out, Server};
use crate::place::{Ask, Flow, Via};
use crate::stream::Inside;
use crate::{Host, Name, Reason, Scheme, http};

/// For the hello, most of which was read already, and for the rest of a handshake.
const DEADLINE: Duration = Duration::from_secs(10);

/// What a program inside says it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    /// It says so at all. Who does not speaks HTTP/1.1, and must not be told what is spoken.
    any: bool,
    h2: bool,
    http1: bool,
}

/// What is spoken on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    H2,
    Http1,
}

/// Ends TLS: dials and verifies the outside, completes the handshake with the program inside, and carries
/// requests, each of which is decided about. `early` is what was read from inside already, from the first
/// byte of the hello on.
///
/// Returns when both sides have ended.
pub(crate) async fn intercept(flow: Flow, inside: Inside, early: BytesMut) {
    let io = Replay::new(early, inside);
    let cut = io.cut();
    let narrowed = async {
        let why = flow.cut().await;
        // Before the connection is dropped, which happens as soon as this is over.
        cut.set();
        why
    };
    let why = tokio::select! {
        biased;
        why = narrowed => Some(why),
        why = Box::pin(run(&flow, io)) => why,
    };
    flow.end(why);
}

async fn run(flow: &Flow, io: Replay) -> Option<Reason> {
    let accept = LazyConfigAcceptor::new(Acceptor::default(), io);
    let start = match timeout(DEADLINE, accept).await {
        Ok(Ok(start)) => start,
        Ok(Err(_)) => return Some(Reason::RequestMalformed),
        Err(_) => return Some(Reason::Deadline),
    };
    let hello = start.client_hello();
    if let Err(reason) = names(&hello, &flow.ask.host) {
        let sent = hello.server_name().unwrap_or_default();
        let sent = sent.to_owned();
        flow.place.refuse(flow.ask.via, sent, reason).await;
        return Some(reason);
    }
    let mut offer = Offer::of(&hello);
    // Held for as long as HTTP/2 is spoken. Whoever has as many connections as may be gets another protocol,
    // if that is any good to it.
    let room = offer.h2.then(|| flow.place.limiter.http2()).flatten();
    if offer.h2 && room.is_none() {
        if !offer.http1 {
            return tell(flow, start, offer, &flow.denial(Reason::TooManyFlows)).await;
        }
        offer.h2 = false;
    }
    let outside = match dial(flow, offer).await {
        Ok(outside) => outside,
        Err(denial) => return tell(flow, start, offer, &denial).await,
    };
    let protocol = match offer.mirrored(outside.get_ref().1.alpn_protocol()) {
        Ok(protocol) => protocol,
        Err(reason) => return tell(flow, start, offer, &flow.denial(reason)).await,
    };
    let inside = match answer(flow, start, offer, protocol).await {
        Ok(inside) => inside,
        Err(reason) => return Some(reason),
    };
    match protocol {
        Protocol::H2 => {
            let why = h2::carry(flow, inside, outside).await;
            drop(room);
            why
        }
        Protocol::Http1 => {
            drop(room);
            http1(flow, inside, outside).await
        }
    }
}

/// HTTP/1.1 has an engine of its own, which finds the connection that was just made where it looks for
/// one anyway.
async fn http1(
    flow: &Flow,
    inside: TlsStream<Replay>,
    outside: Outside<TcpStream>,
) -> Option<Reason> {
    let Ask { host, port, .. } = &flow.ask;
    let key = Key {
        host: host.clone(),
        port: *port,
        scheme: Scheme::Https,
    };
    let server = Server::new(Out::Tls(Box::new(outside)));
    let place = Arc::clone(&flow.place);
    place.pool.put(key, flow.verdict.generation, server);
    let origin = http::Origin::Fixed {
        host: host.clone(),
        port: *port,
        scheme: Scheme::Https,
    };
    http::serve(place, Via::Intercepted, origin, inside, BytesMut::new()).await;
    None
}

/// That the hello is for the host that was decided about. An address has no server name (RFC 6066 §3).
fn names(hello: &ClientHello<'_>, host: &Host) -> Result<(), Reason> {
    match (host, hello.server_name()) {
        (Host::Name(name), Some(sent)) if Name::parse(sent).as_ref() == Ok(name) => Ok(()),
        (Host::Address(_), None) => Ok(()),
        (Host::Name(_), None) => Err(Reason::ServerNameMissing),
        _ => Err(Reason::ServerNameMismatch),
    }
}

impl Offer {
    fn of(hello: &ClientHello<'_>) -> Self {
        let mut offer = Self {
            any: false,
            h2: false,
            http1: false,
        };
        for protocol in hello.alpn().into_iter().flatten() {
            offer.any = true;
            offer.h2 |= protocol == H2;
            offer.http1 |= protocol == HTTP1;
        }
        offer
    }

    /// What the outside is offered: nothing that the program inside does not speak.
    fn outward(self) -> &'static [&'static [u8]] {
        match (self.h2, self.http1 || !self.any) {
            (true, true) => &[H2, HTTP1],
            (true, false) => &[H2],
            (false, true) => &[HTTP1],
            (false, false) => &[],
        }
    }

    /// What is spoken when the outside `chose` so.
    fn mirrored(self, chose: Option<&[u8]>) -> Result<Protocol, Reason> {
        match chose {
            Some(H2) if self.h2 => Ok(Protocol::H2),
            None | Some(HTTP1) if self.http1 || !self.any => Ok(Protocol::Http1),
            // It does not speak what the program insists on.
            _ => Err(Reason::UpstreamTls),
        }
    }

    /// What a refusal is told in.
    fn refusal(self) -> Option<Protocol> {
        if self.http1 || !self.any {
            Some(Protocol::Http1)
        } else {
            self.h2.then_some(Protocol::H2)
        }
    }
}

async fn dial(flow: &Flow, offer: Offer) -> Result<Outside<TcpStream>, Denial> {
    let alpn = offer.outward();
    // Without a CA nothing inside trusts the boundary: a rule that needs it came too late.
    if alpn.is_empty() || flow.place.ca.is_none() {
        return Err(flow.denial(Reason::NotSupported));
    }
    let tcp = flow.dial().await?;
    upstream::connect(flow, tcp, alpn).await
}

/// Completes the handshake with the program inside.
async fn answer(
    flow: &Flow,
    start: StartHandshake<Replay>,
    offer: Offer,
    protocol: Protocol,
) -> Result<TlsStream<Replay>, Reason> {
    let ca = flow.place.ca.as_ref().ok_or(Reason::NotSupported)?;
    let said = match protocol {
        Protocol::H2 => H2,
        Protocol::Http1 => HTTP1,
    };
    flow.saw_protocol(said);
    let config = ca
        .server(&flow.ask.host, offer.any.then_some(said))
        .map_err(|why| {
            tracing::error!(%why, "no certificate for a host");
            Reason::Internal
        })?;
    match timeout(DEADLINE, start.into_stream(config)).await {
        Ok(Ok(inside)) => Ok(inside),
        Ok(Err(why)) => {
            // A program with roots of its own, or that pins a key: the most common trouble with it.
            tracing::debug!(host = %flow.ask.host, %why, "a program did not complete the handshake");
            Err(Reason::ProgramTls)
        }
        Err(_) => Err(Reason::Deadline),
    }
}

async fn tell(
    flow: &Flow,
    start: StartHandshake<Replay>,
    offer: Offer,
    denial: &Denial,
) -> Option<Reason> {
    if let Some(protocol) = offer.refusal()
        && let Ok(inside) = answer(flow, start, offer, protocol).await
    {
        match protocol {
            Protocol::H2 => deny::http2(denial, inside).await,
            Protocol::Http1 => deny::http1(denial, inside).await,
        }
    }
    Some(denial.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Offer = Offer {
        any: true,
        h2: true,
        http1: true,
    };
    const NONE: Offer = Offer {
        any: false,
        h2: false,
        http1: false,
    };
    const ONLY_H2: Offer = Offer {
        http1: false,
        ..BOTH
    };
    const OTHER: Offer = Offer { any: true, ..NONE };

    #[test]
    fn the_outside_is_offered_what_the_program_offers() {
        assert_eq!(BOTH.outward(), [H2, HTTP1]);
        assert_eq!(ONLY_H2.outward(), [H2]);
        assert_eq!(NONE.outward(), [HTTP1]);
        assert!(OTHER.outward().is_empty());
    }

    #[test]
    fn what_the_outside_chose_is_what_the_program_gets() {
        assert_eq!(BOTH.mirrored(Some(H2)), Ok(Protocol::H2));
        assert_eq!(BOTH.mirrored(Some(HTTP1)), Ok(Protocol::Http1));
        assert_eq!(BOTH.mirrored(None), Ok(Protocol::Http1));
        assert_eq!(NONE.mirrored(None), Ok(Protocol::Http1));
    }

    #[test]
    fn a_program_is_never_told_to_speak_what_it_did_not_offer() {
        assert_eq!(NONE.mirrored(Some(H2)), Err(Reason::UpstreamTls));
        assert_eq!(ONLY_H2.mirrored(None), Err(Reason::UpstreamTls));
        assert_eq!(ONLY_H2.mirrored(Some(HTTP1)), Err(Reason::UpstreamTls));
        assert_eq!(BOTH.mirrored(Some(b"spdy/3")), Err(Reason::UpstreamTls));
    }

    #[test]
    fn a_refusal_is_told_in_the_plainest_protocol_that_was_offered() {
        assert_eq!(BOTH.refusal(), Some(Protocol::Http1));
        assert_eq!(NONE.refusal(), Some(Protocol::Http1));
        assert_eq!(ONLY_H2.refusal(), Some(Protocol::H2));
        assert_eq!(OTHER.refusal(), None);
    }
}
