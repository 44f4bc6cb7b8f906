//! Connections to the address of a name, by programs that know nothing of a proxy.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;

use super::speech::{self, Speech};
use super::{tell, tunnel};
use crate::place::{Ask, Place, Via};
use crate::stream::Inside;
use crate::{Host, Reason};

/// What a program that is refused may take to show what it speaks. Whoever waits for the other side to
/// speak first is reset after it.
const PATIENCE: Duration = Duration::from_millis(500);

/// Serves a connection that was accepted inside: its local address stands for a name.
pub(crate) async fn serve(place: Arc<Place>, inside: Inside) {
    let at = match &inside {
        Inside::Tcp(stream) => stream.local_addr().ok(),
        Inside::Channel(_) => None,
    };
    match at {
        Some(SocketAddr::V4(at)) => serve_at(place, inside, at).await,
        // It ended while it was accepted, or is none of ours.
        Some(SocketAddr::V6(_)) | None => inside.reset(),
    }
}

/// Serves a connection to `at`, which may be anything at all: it is looked up, and no more.
pub(crate) async fn serve_at(place: Arc<Place>, mut inside: Inside, at: SocketAddrV4) {
    let Some(name) = place.names.name(*at.ip()) else {
        place
            .refuse(Via::Named, at.to_string(), Reason::NameUnknown)
            .await;
        return inside.reset();
    };
    let ask = Ask::new(Via::Named, Host::Name(name), at.port());
    match place.admit(ask).await {
        Ok(flow) => tunnel::run(flow, inside, BytesMut::new()).await,
        Err(denial) => {
            let mut early = BytesMut::new();
            let speech = match at.port() {
                speech::SSH => Speech::Ssh,
                _ => speech::listen(&mut inside, &mut early, PATIENCE).await,
            };
            tell::denial(inside, speech, &denial).await;
        }
    }
}

#[cfg(test)]
mod tests;
