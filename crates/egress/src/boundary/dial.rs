//! Connecting to the first address that answers.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::stream::{hurry, settle};

/// What an address is given before the next is tried beside it (RFC 8305 §5).
const HEAD_START: Duration = Duration::from_millis(250);
/// Addresses that are tried.
const MOST: usize = 8;

/// Connects to one of `targets`; `None` when none answers.
///
/// # Cancel safety
///
/// All attempts end.
pub(super) async fn any(targets: Vec<SocketAddr>) -> Option<TcpStream> {
    if let [target] = targets[..] {
        return to(target).await.ok();
    }
    let mut waiting = in_turn(targets);
    let mut attempts = JoinSet::new();
    loop {
        if let Some(next) = waiting.pop_front() {
            attempts.spawn(to(next));
        }
        tokio::select! {
            done = attempts.join_next() => match done {
                Some(Ok(Ok(stream))) => return Some(stream),
                Some(_) => {}
                None if waiting.is_empty() => return None,
                None => {}
            },
            () = sleep(HEAD_START), if !waiting.is_empty() => {}
        }
    }
}

/// IPv6 and IPv4 by turns, beginning with the kind of the first.
fn in_turn(targets: Vec<SocketAddr>) -> VecDeque<SocketAddr> {
    let first = targets.first().is_some_and(SocketAddr::is_ipv6);
    let (one, other): (Vec<_>, Vec<_>) = targets.into_iter().partition(|t| t.is_ipv6() == first);
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let mut turns = VecDeque::new();
    loop {
        let (a, b) = (one.next(), other.next());
        if a.is_none() && b.is_none() {
            break;
        }
        turns.extend(a.into_iter().chain(b));
    }
    turns.truncate(MOST);
    turns
}

async fn to(target: SocketAddr) -> io::Result<TcpStream> {
    let socket = match target {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    settle(&socket);
    if target.ip().is_loopback() {
        // Before it connects: what has been paced once stays so.
        hurry(&socket);
    }
    let stream = socket.connect(target).await?;
    // What the kernel says is what was screened, whatever rewrites addresses on this host.
    let peer = stream.peer_addr()?;
    if (peer.ip().to_canonical(), peer.port()) != (target.ip(), target.port()) {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use socket2::SockRef;

    use super::*;

    #[test]
    fn the_two_kinds_of_addresses_take_turns() {
        let parse = |list: &[&str]| -> Vec<SocketAddr> {
            list.iter().map(|text| text.parse().unwrap()).collect()
        };
        let turns = in_turn(parse(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"]));
        assert_eq!(
            turns,
            parse(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"])
        );
        assert!(in_turn(Vec::new()).is_empty());
    }

    #[tokio::test]
    async fn an_address_that_refuses_does_not_hide_one_that_answers() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let alive = listener.local_addr().unwrap();
        let dead = SocketAddr::new("127.0.0.2".parse().unwrap(), alive.port());
        let stream = any(vec![dead, alive]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), alive);
        assert!(stream.nodelay().unwrap());
        assert!(SockRef::from(&stream).keepalive().unwrap());
        assert!(any(vec![dead]).await.is_none());
        assert!(any(vec![dead, dead]).await.is_none());
        assert!(any(Vec::new()).await.is_none());
    }
}
