//! Tries the sandbox's walls from inside, for the host that asks. What an outcome means is for the
//! host to say.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use http::{Method, StatusCode};
use namzu_protocol::ext::{MAX_TRIES, Outcome, ProbeRequest, ProbeResponse, Try};
use tokio::net::{TcpStream, UdpSocket, lookup_host};
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use crate::control;
use crate::http::{self as web, Request, Response};

/// The longest that one try may take.
const LONGEST: Duration = Duration::from_secs(10);

/// What is sent in a datagram; whatever answers it answers.
const WORD: &[u8] = b"probe\n";

/// Answers a call.
pub(crate) async fn handle(request: Request) -> Response {
    if request.method() != Method::POST {
        return web::error(StatusCode::METHOD_NOT_ALLOWED, "probe takes POST");
    }
    let ProbeRequest { tries, patience_ms } = match control::body(request).await {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    if tries.len() > MAX_TRIES {
        return web::error(StatusCode::BAD_REQUEST, "too many tries at once");
    }
    let patience = Duration::from_millis(patience_ms).min(LONGEST);
    web::json(
        StatusCode::OK,
        &ProbeResponse {
            outcomes: all(tries, patience).await,
        },
    )
}

/// Tries everything at once: one that is silent must not keep the others waiting.
async fn all(tries: Vec<Try>, patience: Duration) -> Vec<Outcome> {
    let deadline = Instant::now() + patience;
    // One that breaks off has shown nothing.
    let mut outcomes = vec![Outcome::Silent { addresses: vec![] }; tries.len()];
    let mut under_way = JoinSet::new();
    for (index, one) in tries.into_iter().enumerate() {
        under_way.spawn(async move { (index, try_one(one, deadline).await) });
    }
    while let Some(done) = under_way.join_next().await {
        if let Ok((index, outcome)) = done
            && let Some(place) = outcomes.get_mut(index)
        {
            *place = outcome;
        }
    }
    outcomes
}

async fn try_one(one: Try, deadline: Instant) -> Outcome {
    let (to, addresses) = match one {
        Try::Udp { to } => return outcome(timeout_at(deadline, datagram(to)).await, Vec::new()),
        Try::Tcp { to } => (to, Vec::new()),
        Try::Name { name, port } => {
            let found = timeout_at(deadline, lookup_host((name, port))).await;
            let found: Vec<SocketAddr> = match found {
                Ok(Ok(found)) => found.collect(),
                Ok(Err(error)) => return outcome(Ok(Err(error)), Vec::new()),
                Err(late) => return outcome(Err(late), Vec::new()),
            };
            let Some(first) = found.first().copied() else {
                let none = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                return outcome(Ok(Err(none)), Vec::new());
            };
            (first, found.iter().map(SocketAddr::ip).collect())
        }
    };
    let connected = timeout_at(deadline, TcpStream::connect(to)).await;
    outcome(connected.map(|done| done.map(drop)), addresses)
}

async fn datagram(to: SocketAddr) -> io::Result<()> {
    let any: IpAddr = if to.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(to).await?;
    socket.send(WORD).await?;
    socket.recv(&mut [0; 64]).await.map(drop)
}

fn outcome(tried: Result<io::Result<()>, Elapsed>, addresses: Vec<IpAddr>) -> Outcome {
    match tried {
        Ok(Ok(())) => Outcome::Reached { addresses },
        Ok(Err(error)) => Outcome::Failed {
            error: error.to_string(),
            addresses,
        },
        Err(_late) => Outcome::Silent { addresses },
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn what_listens_is_reached_and_what_does_not_is_refused() {
        let open = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (there, gone) = (open.local_addr().unwrap(), closed.local_addr().unwrap());
        drop(closed);
        let tries = vec![Try::Tcp { to: there }, Try::Tcp { to: gone }];
        let outcomes = all(tries, PATIENCE).await;
        assert_eq!(outcomes[0], Outcome::Reached { addresses: vec![] });
        assert!(
            matches!(outcomes[1], Outcome::Failed { .. }),
            "{outcomes:?}"
        );
    }

    #[tokio::test]
    async fn a_datagram_that_nobody_answers_is_silent() {
        let mute = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let to = mute.local_addr().unwrap();
        let outcomes = all(vec![Try::Udp { to }], Duration::from_millis(20)).await;
        assert_eq!(outcomes, [Outcome::Silent { addresses: vec![] }]);
    }

    #[tokio::test]
    async fn a_name_is_told_with_its_addresses() {
        let open = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = open.local_addr().unwrap().port();
        let one = Try::Name {
            name: "127.0.0.1".to_owned(),
            port,
        };
        let outcomes = all(vec![one], PATIENCE).await;
        let wanted = Outcome::Reached {
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
        };
        assert_eq!(outcomes, [wanted]);
    }
}
