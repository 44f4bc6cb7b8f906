//! Heads, written anew from what was read of them.

use bytes::{BufMut as _, BytesMut};
use http::{HeaderMap, Method, StatusCode};

use super::fields::Framing;
use super::response::ResponseHead;
use crate::denial::{Denial, HEADER};
use crate::{Host, Scheme};

/// The port that a scheme has where none is named.
pub(super) const fn default_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Http => 80,
        Scheme::Https | Scheme::Tcp => 443,
    }
}

/// What `Host`, or `:authority`, says of a host.
pub(crate) fn host_field(host: &Host, port: u16, scheme: Scheme) -> String {
    if port == default_port(scheme) {
        host.to_string()
    } else {
        format!("{host}:{port}")
    }
}

/// Writes the head of a request.
pub(super) fn request(
    out: &mut BytesMut,
    (method, target, host): (&Method, &str, &str),
    headers: &HeaderMap,
    framing: Framing,
    websocket: bool,
) {
    out.put_slice(method.as_str().as_bytes());
    out.put_u8(b' ');
    out.put_slice(target.as_bytes());
    out.put_slice(b" HTTP/1.1\r\nhost: ");
    out.put_slice(host.as_bytes());
    out.put_slice(b"\r\n");
    fields(out, headers);
    framed(out, framing);
    if websocket {
        out.put_slice(b"connection: upgrade\r\nupgrade: websocket\r\n");
    }
    out.put_slice(b"\r\n");
}

/// What the head of a response says of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// It stays, which is understood.
    Stays,
    /// It stays, which HTTP/1.0 must be told.
    StaysOld,
    Closes,
    Upgrades,
}

/// Writes the head of a response.
pub(super) fn response(
    out: &mut BytesMut,
    head: &ResponseHead,
    framing: Framing,
    connection: Connection,
) {
    status(out, head.status);
    fields(out, &head.headers);
    match (framing, head.length) {
        // To HEAD, and of 304: how long it would have been.
        (Framing::None, Some(length))
            if !head.status.is_informational() && head.status != StatusCode::NO_CONTENT =>
        {
            framed(out, Framing::Length(length));
        }
        _ => framed(out, framing),
    }
    ends(out, connection);
}

/// Writes a refusal.
pub(super) fn denial(out: &mut BytesMut, denial: &Denial, connection: Connection, bodiless: bool) {
    let body = denial.body();
    status_line(out, denial.status());
    // Many a program shows its user this line and nothing else.
    out.put_slice(b" (egress: ");
    out.put_slice(denial.reason.code().as_bytes());
    out.put_slice(b")\r\n");
    out.put_slice(HEADER.as_bytes());
    out.put_slice(b": ");
    out.put_slice(denial.reason.code().as_bytes());
    out.put_slice(b"\r\ncontent-type: application/json\r\ncache-control: no-store\r\n");
    framed(out, Framing::Length(body.len() as u64));
    ends(out, connection);
    if !bodiless {
        out.put_slice(&body);
    }
}

/// A refusal as a whole response, after which the connection is closed.
pub(crate) fn refusal(denial: &Denial) -> BytesMut {
    let mut out = BytesMut::new();
    self::denial(&mut out, denial, Connection::Closes, false);
    out
}

/// Writes a piece of a body, framed.
pub(super) fn piece(out: &mut BytesMut, piece: &[u8], chunked: bool) {
    if piece.is_empty() {
        // An empty chunk would be the end.
        return;
    }
    if chunked {
        hexadecimal(out, piece.len());
        out.put_slice(b"\r\n");
    }
    out.put_slice(piece);
    if chunked {
        out.put_slice(b"\r\n");
    }
}

/// Writes the end of a chunked body.
pub(super) fn last(out: &mut BytesMut) {
    out.put_slice(b"0\r\n\r\n");
}

fn status(out: &mut BytesMut, status: StatusCode) {
    status_line(out, status);
    out.put_slice(b"\r\n");
}

/// All but the end of the line.
fn status_line(out: &mut BytesMut, status: StatusCode) {
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(status.as_str().as_bytes());
    out.put_u8(b' ');
    out.put_slice(status.canonical_reason().unwrap_or_default().as_bytes());
}

fn ends(out: &mut BytesMut, connection: Connection) {
    out.put_slice(match connection {
        Connection::Stays => b"\r\n",
        Connection::StaysOld => b"connection: keep-alive\r\n\r\n",
        Connection::Closes => b"connection: close\r\n\r\n",
        Connection::Upgrades => b"connection: upgrade\r\nupgrade: websocket\r\n\r\n",
    });
}

fn fields(out: &mut BytesMut, headers: &HeaderMap) {
    for (name, value) in headers {
        out.put_slice(name.as_str().as_bytes());
        out.put_slice(b": ");
        out.put_slice(value.as_bytes());
        out.put_slice(b"\r\n");
    }
}

fn framed(out: &mut BytesMut, framing: Framing) {
    match framing {
        Framing::None | Framing::UntilClose => {}
        Framing::Chunked => out.put_slice(b"transfer-encoding: chunked\r\n"),
        Framing::Length(length) => {
            out.put_slice(b"content-length: ");
            decimal(out, length);
            out.put_slice(b"\r\n");
        }
    }
}

fn decimal(out: &mut BytesMut, number: u64) {
    let mut power = 1;
    while number / power >= 10 {
        power *= 10;
    }
    while power > 0 {
        out.put_u8(digit(number / power % 10));
        power /= 10;
    }
}

fn hexadecimal(out: &mut BytesMut, number: usize) {
    let mut shift = (usize::BITS - number.leading_zeros()).div_ceil(4);
    while shift > 0 {
        shift -= 1;
        out.put_u8(digit((number >> (shift * 4) & 0xf) as u64));
    }
}

fn digit(value: u64) -> u8 {
    b"0123456789abcdef"[usize::try_from(value & 0xf).unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are() {
        for number in [0, 1, 9, 10, 15, 16, 255, 256, 65_536, 1_234_567_890] {
            let mut out = BytesMut::new();
            decimal(&mut out, number as u64);
            assert_eq!(out, number.to_string().as_bytes());
            if number > 0 {
                let mut out = BytesMut::new();
                hexadecimal(&mut out, number);
                assert_eq!(out, format!("{number:x}").as_bytes());
            }
        }
        let mut out = BytesMut::new();
        decimal(&mut out, u64::MAX);
        assert_eq!(out, u64::MAX.to_string().as_bytes());
    }

    #[test]
    fn an_empty_piece_does_not_end_a_chunked_body() {
        let mut out = BytesMut::new();
        piece(&mut out, b"", true);
        assert!(out.is_empty());
        piece(&mut out, b"hello world 1234", true);
        assert_eq!(out, &b"10\r\nhello world 1234\r\n"[..]);
    }

    #[test]
    fn a_host_has_its_port_where_it_is_not_the_usual() {
        let host = Host::parse("a.test").unwrap();
        assert_eq!(host_field(&host, 80, Scheme::Http), "a.test");
        assert_eq!(host_field(&host, 80, Scheme::Https), "a.test:80");
    }
}
