//! What a program speaks, told by the first bytes it sends.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::stream::Inside;

/// The port on which the server speaks first, in a way that can carry a refusal.
pub(crate) const SSH: u16 = 22;

/// The longest method that is known to be one (RFC 9110 has up to 7, extensions up to 17).
const LONGEST_METHOD: usize = 20;

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    /// TLS.
    Tls,
    /// HTTP in the clear.
    Http,
    /// SSH.
    Ssh,
    /// Something else, or nothing.
    Other,
}

/// Tells what is spoken; `None` while it could be more than one thing.
pub(crate) fn recognise(sent: &[u8]) -> Option<Speech> {
    match sent {
        [] | [22] => return None,
        [22, 3, ..] => return Some(Speech::Tls),
        _ => {}
    }
    // A method and the space after it. Upper case only, as every method is: a database's first
    // message, or SSH's, is never taken for a request.
    let method = sent
        .iter()
        .take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-');
    let length = method.count();
    match sent.get(length) {
        _ if length > LONGEST_METHOD => Some(Speech::Other),
        None => None,
        Some(b' ') if length > 0 => Some(Speech::Http),
        Some(_) if sent.starts_with(b"SSH-") => Some(Speech::Ssh),
        Some(_) => Some(Speech::Other),
    }
}

/// Reads until it can be told what is spoken, or for as long as `patience` lasts. What was read is left in
/// `early`.
pub(crate) async fn listen(
    inside: &mut Inside,
    early: &mut BytesMut,
    patience: Duration,
) -> Speech {
    let heard = timeout(patience, async {
        loop {
            if let Some(speech) = recognise(early) {
                return speech;
            }
            match inside.read_buf(early).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Speech::Other,
            }
        }
    });
    heard.await.unwrap_or(Speech::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_what_is_spoken_however_they_are_cut() {
        for (sent, speech) in [
            (&b"\x16\x03\x01\x02\0\x01"[..], Speech::Tls),
            (b"GET / HTTP/1.1\r\n", Speech::Http),
            (b"M-SEARCH * HTTP/1.1\r\n", Speech::Http),
            (b"PRI * HTTP/2.0\r\n", Speech::Http),
            (b"SSH-2.0-OpenSSH_9.2\r\n", Speech::Ssh),
            (b"get / http/1.1\r\n", Speech::Other),
            (b" / HTTP/1.1\r\n", Speech::Other),
            (b"G\xc3\x89T / HTTP/1.1", Speech::Other),
            (b"\x16\x02\x01\x02\0\x01", Speech::Other),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", Speech::Other),
            (b"AAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1", Speech::Other),
            (b"*1\r\n$4\r\nPING\r\n", Speech::Other),
        ] {
            assert_eq!(recognise(sent), Some(speech), "{sent:?}");
            for length in 0..sent.len() {
                let told = recognise(&sent[..length]);
                assert!(
                    told.is_none_or(|told| told == speech),
                    "{sent:?} at {length}"
                );
            }
        }
        assert_eq!(recognise(b""), None);
    }
}
