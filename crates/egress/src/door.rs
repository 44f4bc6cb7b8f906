//! The doors: each speaks one protocol with programs inside, and asks [`Place`] for all that matters.

pub(crate) mod dns;
pub(crate) mod forwarded;
pub(crate) mod named;
pub(crate) mod names;
pub(crate) mod proxy;
mod socks;
pub(crate) mod speech;
pub(crate) mod tell;
pub(crate) mod tunnel;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use namzu_core::egress::Doors;
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Reason;
use crate::place::{Place, Via};
use crate::stream::{Inside, hurry, settle};

/// What is waited after accepting failed: the likely cause, a lack of descriptors, goes away with time.
const PAUSE: Duration = Duration::from_millis(50);
/// What is waited after a connection too many, so that whoever opens them without end is not told, and
/// the audit not written, any faster.
const COOL_DOWN: Duration = Duration::from_millis(10);

/// Serves doors that were opened inside. Dropping the tasks closes them and all that came through.
///
/// # Errors
///
/// Those of handing sockets to the runtime, which there must be.
pub(crate) fn serve(place: &Arc<Place>, doors: Doors) -> io::Result<JoinSet<()>> {
    let _runtime = Handle::try_current().map_err(io::Error::other)?;
    let mut tasks = JoinSet::new();
    for listener in doors.proxy {
        // A proxy by itself may be reached from elsewhere.
        if listener.local_addr()?.ip().is_loopback() {
            hurry(&listener);
        }
        let listener = adopt(listener)?;
        tasks.spawn(accept(
            Arc::clone(place),
            listener,
            Via::Connect,
            proxy::serve,
        ));
    }
    for listener in doors.dns_tcp {
        let listener = adopt(listener)?;
        tasks.spawn(accept(Arc::clone(place), listener, Via::Dns, dns::tcp));
    }
    for socket in doors.dns_udp {
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from_std(socket)?;
        tasks.spawn(dns::udp(Arc::clone(place), socket));
    }
    for (_, listener) in doors.named {
        hurry(&listener);
        let listener = adopt(listener)?;
        tasks.spawn(accept(
            Arc::clone(place),
            listener,
            Via::Named,
            named::serve,
        ));
    }
    Ok(tasks)
}

fn adopt(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    // Once, and not for each connection.
    settle(&listener);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts until it is dropped, which ends all connections as well. Each is a task of its own: a panic in
/// one ends nothing else.
async fn accept<F, Fut>(place: Arc<Place>, listener: TcpListener, via: Via, serve: F)
where
    F: Fn(Arc<Place>, Inside) -> Fut + Send,
    Fut: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let inside = Inside::Tcp(stream);
        let Ok(permit) = place.limiter.connection() else {
            inside.reset();
            place.refuse(via, "", Reason::TooManyFlows).await;
            sleep(COOL_DOWN).await;
            continue;
        };
        let served = serve(Arc::clone(&place), inside);
        connections.spawn(async move {
            served.await;
            drop(permit);
        });
    }
}

#[cfg(test)]
mod tests {
    use socket2::SockRef;
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn what_is_accepted_has_what_its_listener_was_set_to() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        hurry(&listener);
        let listener = adopt(listener).unwrap();
        let program = TcpStream::connect(listener.local_addr().unwrap());
        let (program, accepted) = tokio::join!(program, listener.accept());
        let (_program, (accepted, _)) = (program.unwrap(), accepted.unwrap());
        assert!(accepted.nodelay().unwrap());
        let socket = SockRef::from(&accepted);
        assert!(socket.keepalive().unwrap());
        let control = socket.tcp_congestion().unwrap();
        assert!(control.starts_with(b"reno"), "{control:?}");
    }
}
