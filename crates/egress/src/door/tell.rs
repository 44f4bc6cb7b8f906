//! A refusal to whoever has opened a connection already, in the words of what is spoken on it.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::speech::Speech;
use crate::denial::Denial;
use crate::stream::{Inside, Line};
use crate::{Reason, http};

/// For the refusal to be taken and the other side to close.
const PATIENCE: Duration = Duration::from_secs(2);
/// What is read and thrown away meanwhile: bytes that nobody has read make the kernel reset the
/// connection, and the refusal is lost.
const THROWN_AWAY: usize = 64 * 1024;

const ACCESS_DENIED: u8 = 49;
const INTERNAL_ERROR: u8 = 80;
const UNRECOGNIZED_NAME: u8 = 112;

/// The line that goes before SSH's packets.
const SSH_VERSION: &[u8] = b"SSH-2.0-namzu_egress\r\n";
const SSH_DISCONNECT: u8 = 1;
const SSH_NOT_ALLOWED: u32 = 1;
/// The longest text that every client prints whole.
const SSH_LONGEST: usize = 400;

/// Tells a refusal and ends the connection: with a reset where there are no words for it.
pub(crate) async fn denial(inside: Inside, speech: Speech, denial: &Denial) {
    match speech {
        Speech::Tls => last(inside, &alert(denial.reason)).await,
        Speech::Http => last(inside, &http::refusal(denial)).await,
        Speech::Ssh => last(inside, &ssh(&denial.line())).await,
        Speech::Other => inside.reset(),
    }
}

/// Says the last words on a connection and ends it so that they arrive.
pub(crate) async fn last<S: Line>(mut inside: S, words: &[u8]) {
    let told = timeout(PATIENCE, async {
        inside.write_all(words).await?;
        inside.shutdown().await?;
        let mut left = THROWN_AWAY;
        // Not in the future, which a tunnel that is never refused would carry with it.
        let mut buffer = vec![0; 4096];
        while left > 0 {
            match inside.read(&mut buffer).await? {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        Ok::<_, std::io::Error>(())
    });
    // Whoever does not listen is told nothing.
    let _ = told.await;
}

/// A fatal alert, in the clear: legal before the handshake, and printed by every client.
const fn alert(reason: Reason) -> [u8; 7] {
    let description = match reason {
        Reason::ServerNameMismatch | Reason::ServerNameMissing => UNRECOGNIZED_NAME,
        Reason::LookupFailed
        | Reason::DialFailed
        | Reason::UpstreamTls
        | Reason::UpstreamBroken
        | Reason::Closed
        | Reason::Internal => INTERNAL_ERROR,
        _ => ACCESS_DENIED,
    };
    [21, 3, 3, 0, 2, 2, description]
}

/// A version and a disconnect before any keys are exchanged. Clients print the text of a disconnect by
/// default; lines before the version are shown only to whoever debugs.
fn ssh(text: &str) -> Vec<u8> {
    let text = text.as_bytes();
    let text = text.get(..SSH_LONGEST).unwrap_or(text);
    let mut payload = vec![SSH_DISCONNECT];
    payload.extend(SSH_NOT_ALLOWED.to_be_bytes());
    payload.extend(u32::try_from(text.len()).unwrap_or_default().to_be_bytes());
    payload.extend_from_slice(text);
    // No language.
    payload.extend(0_u32.to_be_bytes());
    // Length, padding's length and payload fill blocks of 8, with at least 4 bytes of padding.
    let padding = 4 + (8 - (payload.len() + 5 + 4) % 8) % 8;
    let length = payload.len() + 1 + padding;
    let mut out = SSH_VERSION.to_vec();
    out.extend(u32::try_from(length).unwrap_or_default().to_be_bytes());
    out.push(u8::try_from(padding).unwrap_or_default());
    out.extend(payload);
    out.extend(std::iter::repeat_n(0, padding));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disconnect_is_a_packet_however_long_its_text() {
        for length in 0..=500 {
            let packet = &ssh(&"x".repeat(length))[SSH_VERSION.len()..];
            let says = u32::from_be_bytes(packet[..4].try_into().unwrap());
            assert_eq!(usize::try_from(says).unwrap() + 4, packet.len());
            assert_eq!(packet.len() % 8, 0);
            assert!(packet[4] >= 4, "{length}");
            let text = u32::from_be_bytes(packet[10..14].try_into().unwrap());
            let end = 14 + usize::try_from(text).unwrap() + 4;
            assert_eq!(packet.len(), end + usize::from(packet[4]));
        }
    }

    #[test]
    fn a_refused_server_name_is_told_from_a_refused_host() {
        assert_eq!(alert(Reason::NotListed), [21, 3, 3, 0, 2, 2, 49]);
        assert_eq!(alert(Reason::ServerNameMismatch)[6], 112);
        assert_eq!(alert(Reason::DialFailed)[6], 80);
    }
}
