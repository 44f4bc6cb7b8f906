//! Names, over UDP and TCP: what the policy allows gets an address that leads to the boundary, all else
//! does not exist. Nothing is ever asked outside: a look-up tells nobody anything.
//!
//! Only IPv4 addresses are given out. Every other type of an allowed name is empty rather than
//! missing, so that programs which ask for both address families at once are content. What names more
//! than one record, or carries bytes of the asker's choice, is refused.

mod wire;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub(crate) use self::wire::Code;
use self::wire::{Garbage, Query, Record};
use crate::denial::Denial;
use crate::place::{Ask, Place, Via};
use crate::stream::Inside;
use crate::{Host, Name, Reason};

/// How long programs may remember an address. It never changes, but whether it is given may.
const SECONDS: u32 = 60;
/// Datagrams of one socket that are being answered; further ones are lost, as datagrams are.
const AT_ONCE: usize = 64;
/// For a query to arrive whole, and for its answer to be taken, over TCP.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is waited after a socket failed: the likely cause, a lack of memory, goes away with time.
const PAUSE: Duration = Duration::from_millis(50);

const REVERSE: &str = ".in-addr.arpa";

/// Answers datagrams until it is dropped.
pub(crate) async fn udp(place: Arc<Place>, socket: UdpSocket) {
    let socket = Arc::new(socket);
    let mut answers = JoinSet::new();
    // One byte more than a query may have, so that a longer one is seen to be.
    let mut datagram = [0; wire::LONGEST_QUERY + 1];
    loop {
        let received = socket.recv_from(&mut datagram).await;
        while answers.try_join_next().is_some() {}
        let Ok((length, peer)) = received else {
            sleep(PAUSE).await;
            continue;
        };
        if answers.len() >= AT_ONCE {
            continue;
        }
        let query = datagram.get(..length).unwrap_or_default().to_vec();
        let (place, socket) = (Arc::clone(&place), Arc::clone(&socket));
        // A task of its own: a policy may have to be asked, and a panic ends nothing else.
        answers.spawn(async move {
            if let Some(answer) = answer(&place, &query).await {
                // Whoever asked has gone, or asks again.
                let _ = socket.send_to(&answer, peer).await;
            }
        });
    }
}

/// Answers queries on one connection until it ends, stalls, or sends what is none.
pub(crate) async fn tcp(place: Arc<Place>, mut inside: Inside) {
    loop {
        let Ok(Some(query)) = timeout(PATIENCE, receive(&mut inside)).await else {
            return;
        };
        let Some(answer) = answer(&place, &query).await else {
            return;
        };
        let Ok(length) = u16::try_from(answer.len()) else {
            return;
        };
        let framed = [&length.to_be_bytes()[..], &answer].concat();
        let sent = timeout(PATIENCE, inside.write_all(&framed)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

async fn receive(inside: &mut Inside) -> Option<Vec<u8>> {
    let length = usize::from(inside.read_u16().await.ok()?);
    if length > wire::LONGEST_QUERY {
        return None;
    }
    let mut query = vec![0; length];
    inside.read_exact(&mut query).await.ok()?;
    Some(query)
}

/// The answer to a message, if it gets one.
async fn answer(place: &Arc<Place>, message: &[u8]) -> Option<Vec<u8>> {
    let query = match wire::read(message) {
        Ok(query) => query,
        Err(Garbage::Silent) => return None,
        Err(garbage) => {
            place.refuse(Via::Dns, "", Reason::RequestMalformed).await;
            return garbage.answer();
        }
    };
    Some(match decide(place, &query).await {
        Ok(Found::Address(address)) => {
            query.answer(Code::NoError, Record::Address(address, SECONDS), None)
        }
        Ok(Found::Name(name)) => {
            query.answer(Code::NoError, Record::Pointer(name.as_str(), SECONDS), None)
        }
        Ok(Found::Nothing) => query.answer(Code::NoError, Record::None, None),
        Err(denial) => {
            let told = denial.dns();
            query.answer(told.code, Record::None, Some((told.info, &told.text)))
        }
    })
}

/// What there is for a query.
enum Found {
    Address(Ipv4Addr),
    Name(Name),
    /// The name exists, but not what was asked of it.
    Nothing,
}

async fn decide(place: &Arc<Place>, query: &Query<'_>) -> Result<Found, Denial> {
    // What the name of a query looks like that has none is nobody's business.
    let text = query.name.as_deref().unwrap_or_default();
    let refuse = |reason| place.refuse(Via::Dns, text, reason);
    let meta = (wire::FIRST_META..=wire::LAST_META).contains(&query.kind);
    if query.class != wire::IN || meta || matches!(query.kind, wire::NULL | wire::OPT) {
        return Err(refuse(Reason::NotSupported).await);
    }
    if let Some(name) = reversed(text).and_then(|address| place.names.name(address)) {
        return Ok(match query.kind {
            wire::PTR => Found::Name(name),
            _ => Found::Nothing,
        });
    }
    let Ok(name) = Name::parse(text) else {
        return Err(refuse(Reason::NameMalformed).await);
    };
    let ask = Ask::new(Via::Dns, Host::Name(name.clone()), 0);
    let flow = place.admit(ask).await?;
    // Nothing flows: whoever connects to the address is judged again.
    flow.end(None);
    if let Err(reason) = place.limiter.name(&name) {
        return Err(refuse(reason).await);
    }
    if query.kind != wire::A {
        return Ok(Found::Nothing);
    }
    match place.names.address(&name) {
        Some(address) => Ok(Found::Address(address)),
        None => Err(refuse(Reason::TooFast).await),
    }
}

/// The address that a name of the reverse tree is about.
fn reversed(name: &str) -> Option<Ipv4Addr> {
    let at = name.len().checked_sub(REVERSE.len())?;
    let (address, suffix) = name.split_at_checked(at)?;
    if !suffix.eq_ignore_ascii_case(REVERSE) {
        return None;
    }
    let address: Ipv4Addr = address.parse().ok()?;
    let [a, b, c, d] = address.octets();
    Some([d, c, b, a].into())
}

#[cfg(test)]
mod tests;
