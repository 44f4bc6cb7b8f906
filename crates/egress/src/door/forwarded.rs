//! Connections that a worker inside forwards. It says by which door they came, and to which address;
//! both are claims, good for nothing more than the same connection made to a listener here would be.

use std::sync::Arc;

use super::{dns, named, proxy};
use crate::Reason;
use crate::boundary::ForwardedDoor;
use crate::place::{Place, Via};
use crate::stream::{Forwarded, Inside};

/// Serves one connection to its end.
pub(crate) async fn serve(place: Arc<Place>, door: ForwardedDoor, stream: Box<dyn Forwarded>) {
    let inside = Inside::Channel(stream);
    let via = match door {
        ForwardedDoor::Proxy => Via::Connect,
        ForwardedDoor::Dns => Via::Dns,
        ForwardedDoor::Named(_) => Via::Named,
    };
    let Ok(_permit) = place.limiter.connection() else {
        inside.reset();
        place.refuse(via, "", Reason::TooManyFlows).await;
        return;
    };
    match door {
        ForwardedDoor::Proxy => proxy::serve(Arc::clone(&place), inside).await,
        ForwardedDoor::Dns => dns::tcp(Arc::clone(&place), inside).await,
        ForwardedDoor::Named(at) => named::serve_at(Arc::clone(&place), inside, at).await,
    }
}
