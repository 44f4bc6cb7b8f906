//! SOCKS5 (RFC 1928): CONNECT without a password. Whom a connection belongs to is known from the listener.

mod parse;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use self::parse::{Fault, greeting, request};
use super::proxy::{Tunnel, Words, open};
use super::tell;
use crate::place::{Ask, Place, Via};
use crate::stream::Inside;
use crate::{Host, Reason};

/// For greeting and request to come.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is read at once; a request has 262 bytes at most.
const ROOM: usize = 512;

/// To SOCKS4: the request is rejected.
pub(super) const NO_SOCKS4: [u8; 8] = [0, 0x5b, 0, 0, 0, 0, 0, 0];
/// The connection is open. The address that it has outside is nobody's business inside.
pub(super) const OPENED: [u8; 10] = reply(0);

const NO_PASSWORD: [u8; 2] = [5, 0];
const NO_METHOD: [u8; 2] = [5, 0xff];

/// The reply with a code.
pub(super) const fn reply(code: u8) -> [u8; 10] {
    [5, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// What a program wants, or why that is refused.
type Asked = Result<(Host, u16), Refused>;

struct Refused {
    reason: Reason,
    /// What it sent, for the audit.
    raw: Vec<u8>,
    /// The last words to it.
    words: Vec<u8>,
}

/// Opens the tunnel that a program asks for; `early` was read already, from the first byte on.
pub(super) async fn serve(
    place: Arc<Place>,
    mut inside: Inside,
    mut early: BytesMut,
) -> Option<Tunnel> {
    let asked = timeout(PATIENCE, ask(&mut inside, &mut early)).await;
    let (host, port) = match asked {
        Ok(Some(Ok(asked))) => asked,
        Ok(Some(Err(Refused { reason, raw, words }))) => {
            place.refuse(Via::Socks, raw, reason).await;
            tell::last(inside, &words).await;
            return None;
        }
        Ok(None) | Err(_) => return None,
    };
    match place.admit(Ask::new(Via::Socks, host, port)).await {
        Ok(flow) => open(flow, inside, early, Words::Socks).await,
        Err(denial) => {
            Words::Socks.denied(inside, &denial).await;
            None
        }
    }
}

/// Reads greeting and request; `None` if the program has ended before.
async fn ask(inside: &mut Inside, early: &mut BytesMut) -> Option<Asked> {
    let fault = |fault: Fault, raw: &[u8]| {
        Some(Err(Refused {
            reason: fault.reason,
            raw: raw.to_vec(),
            words: reply(fault.reply).to_vec(),
        }))
    };
    loop {
        match greeting(early) {
            Ok(None) => fill(inside, early).await?,
            Ok(Some((length, true))) => {
                early.advance(length);
                break;
            }
            Ok(Some((_, false))) => {
                return Some(Err(Refused {
                    reason: Reason::NotSupported,
                    raw: Vec::new(),
                    words: NO_METHOD.to_vec(),
                }));
            }
            Err(why) => return fault(why, early),
        }
    }
    inside.write_all(&NO_PASSWORD).await.ok()?;
    inside.flush().await.ok()?;
    loop {
        match request(early) {
            Ok(None) => fill(inside, early).await?,
            Ok(Some((length, host, port))) => {
                early.advance(length);
                return Some(Ok((host, port)));
            }
            Err(why) => return fault(why, early),
        }
    }
}

async fn fill(inside: &mut Inside, early: &mut BytesMut) -> Option<()> {
    early.reserve(ROOM);
    match inside.read_buf(early).await {
        Ok(1..) => Some(()),
        _ => None,
    }
}
