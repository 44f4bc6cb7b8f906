//! HTTP/2 on both sides of a connection whose TLS ends here.
//!
//! Each request is a flow of its own: decided about, given its credential, carried with back-pressure in
//! both directions, and cut by itself when the policy changes. Trailers, which gRPC lives on, go both
//! ways. The two connections live and die together: when the outside says that it goes away, the
//! program inside is told so and connects anew.

mod body;
mod fields;
pub(super) mod settings;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::{client, server};

use self::stream::{After, Origin};
use super::replay::Replay;
use crate::Reason;
use crate::place::Flow;

/// For both sides to say that they speak it, and for a program to hear that the outside has ended.
const DEADLINE: Duration = Duration::from_secs(10);

/// Carries requests until either side has ended. `flow` is the connection; whoever calls this drops it
/// when the flow is cut.
pub(super) async fn carry(
    flow: &Flow,
    inside: server::TlsStream<Replay>,
    outside: client::TlsStream<TcpStream>,
) -> Option<Reason> {
    let origin = outside.get_ref().0.peer_addr();
    let Ok(origin) = origin.map(|peer| Arc::new(Origin::of(flow, peer))) else {
        return Some(Reason::UpstreamBroken);
    };
    let upward = timeout(DEADLINE, settings::client().handshake::<_, Bytes>(outside)).await;
    let Ok(Ok((requests, mut outside))) = upward else {
        return Some(Reason::UpstreamBroken);
    };
    let inward = timeout(DEADLINE, settings::server().handshake::<_, Bytes>(inside)).await;
    let mut inside = match inward {
        Ok(Ok(inside)) => inside,
        Ok(Err(_)) => return Some(Reason::RequestMalformed),
        Err(_) => return Some(Reason::Deadline),
    };
    let mut streams = JoinSet::new();
    let mut ended = false;
    let mut rest = std::pin::pin!(sleep(Duration::ZERO));
    loop {
        tokio::select! {
            biased;
            _ = &mut outside, if !ended => {
                ended = true;
                inside.graceful_shutdown();
                rest.as_mut().reset(Instant::now() + DEADLINE);
            }
            // What is left to say is that it is over; whoever does not listen is left.
            () = &mut rest, if ended => return None,
            Some(after) = streams.join_next() => {
                // A stream that panicked is no reason to end the others.
                if matches!(after, Ok(After::Leave)) {
                    inside.graceful_shutdown();
                }
            }
            next = inside.accept() => match next {
                None => return None,
                Some(Err(why)) => return broken(&why),
                Some(Ok((request, respond))) => {
                    let stream = stream::serve(Arc::clone(&origin), requests.clone(), request, respond);
                    streams.spawn(stream);
                }
            }
        }
    }
}

/// Why the connection inside ended, if not as it should.
fn broken(why: &::h2::Error) -> Option<Reason> {
    // Programs close without a word all the time.
    (!why.is_io() && !why.is_remote()).then_some(Reason::RequestMalformed)
}
