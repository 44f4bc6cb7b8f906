//! One connection: which wire it speaks, and serving it.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use namzu_protocol::v1::FRAME_HEADER_LEN;
use tokio::io::AsyncReadExt;

use crate::door::Proof;
use crate::doors::Holder;
use crate::io::FdStream;
use crate::listener::Peer;
use crate::router;
use crate::worker::Worker;

/// A peer that has not said what it speaks by then is no peer. A private one may take its time.
const PATIENCE: Duration = Duration::from_secs(30);
/// Enough for a round trip of a millisecond at memory speed.
const STREAM_WINDOW: u32 = 2 << 20;
/// No limit of its own: however many streams are not read, the others must not starve. Each is bounded.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
const FRAME: u32 = 128 * 1024;
/// Bytes of answers that wait for the peer, each stream.
const SEND_BUFFER: usize = 256 * 1024;
const MOST_STREAMS: u32 = 4096;
/// Bytes of a request's header fields.
const HEADERS: u32 = 64 * 1024;
/// Streams that a peer opened and reset before they were looked at; one more ends the connection.
const MOST_RESET: usize = 128;
/// Streams reset for the peer's faults; one more ends the connection.
const MOST_FAULTS: usize = 256;
/// What is read at once of an HTTP/1 connection, its header fields among it.
const READ_BUFFER: usize = 128 * 1024;
/// HTTP/2's preface starts so, no other wire does.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// What a connection speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wire {
    Http1,
    Http2,
    Frames,
}

/// Serves a connection to its end.
///
/// # Cancel safety
/// Dropping the future drops the connection and every call on it.
pub(crate) async fn serve(worker: Arc<Worker>, mut io: FdStream, peer: Peer, proof: Proof) {
    if peer != Peer::Anybody {
        proof.give();
    }
    let patience = async {
        if peer == Peer::Private {
            pending::<()>().await;
        } else {
            tokio::time::sleep(PATIENCE).await;
        }
    };
    let wire = tokio::select! {
        wire = sniff(&mut io) => wire,
        () = patience => return,
        () = worker.closing() => return,
    };
    // How a connection ends is its peer's business; there is nobody to tell.
    match wire {
        Ok(Some(Wire::Http2)) => {
            let _ = serve_http2(worker, io, peer, proof).await;
        }
        Ok(Some(Wire::Http1)) => {
            let _ = serve_http1(worker, io, peer, proof).await;
        }
        // Frames have no place for a token.
        Ok(Some(Wire::Frames)) if peer == Peer::Anybody => {}
        Ok(Some(Wire::Frames)) => crate::v1::handle_frames(worker, io).await,
        Ok(None) | Err(_) => {}
    }
}

async fn serve_http2(
    worker: Arc<Worker>,
    io: FdStream,
    peer: Peer,
    proof: Proof,
) -> hyper::Result<()> {
    let mut server = http2::Builder::new(Tasks);
    server
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_send_buf_size(SEND_BUFFER)
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(HEADERS)
        .max_pending_accept_reset_streams(MOST_RESET)
        .max_local_error_reset_streams(MOST_FAULTS)
        .enable_connect_protocol();
    if peer != Peer::Private {
        // A dead peer must not hold back a command for ever.
        server
            .keep_alive_interval(PATIENCE)
            .keep_alive_timeout(PATIENCE);
    }
    let holder = Holder::new(Arc::clone(&worker));
    let answer = service_fn(|mut request: crate::http::Request| {
        request.extensions_mut().insert(holder.asked());
        answer(Arc::clone(&worker), request, peer, proof.clone())
    });
    let mut connection = pin!(server.serve_connection(TokioIo::new(io), answer));
    tokio::select! {
        ended = &mut connection => return ended,
        () = worker.closing() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

async fn serve_http1(
    worker: Arc<Worker>,
    io: FdStream,
    peer: Peer,
    proof: Proof,
) -> hyper::Result<()> {
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).max_buf_size(READ_BUFFER);
    if peer == Peer::Private {
        server.header_read_timeout(None);
    } else {
        server.header_read_timeout(PATIENCE);
    }
    let answer = service_fn(|request| answer(Arc::clone(&worker), request, peer, proof.clone()));
    let connection = server
        .serve_connection(TokioIo::new(io), answer)
        .with_upgrades();
    let mut connection = pin!(connection);
    tokio::select! {
        ended = &mut connection => return ended,
        () = worker.closing() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

async fn answer(
    worker: Arc<Worker>,
    request: crate::http::Request,
    peer: Peer,
    proof: Proof,
) -> Result<crate::http::Response, Infallible> {
    if !proof.is_given()
        && let Some(token) = &worker.config.token
        && token.admits(request.headers())
    {
        proof.give();
    }
    Ok(router::route(worker, request, peer == Peer::Private).await)
}

/// Reads until it is clear what the peer speaks, and puts that back. `None` at the end.
async fn sniff(io: &mut FdStream) -> io::Result<Option<Wire>> {
    let mut read = BytesMut::with_capacity(64);
    loop {
        if io.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
        if let Some(wire) = recognise(&read) {
            io.unread(Bytes::from(read));
            return Ok(Some(wire));
        }
    }
}

fn recognise(read: &[u8]) -> Option<Wire> {
    let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let header = &read[..read.len().min(FRAME_HEADER_LEN)];
    let (digits, feed) = header.split_at(header.len().min(FRAME_HEADER_LEN - 1));
    if PREFACE.starts_with(read) || read.starts_with(PREFACE) {
        (read.len() >= PREFACE.len()).then_some(Wire::Http2)
    } else if digits.iter().all(is_hex) && feed.iter().all(|byte| *byte == b'\n') {
        (header.len() == FRAME_HEADER_LEN).then_some(Wire::Frames)
    } else {
        Some(Wire::Http1)
    }
}

/// Runs what hyper spawns. The tasks end with their connection, which owns their channels.
#[derive(Clone, Copy, Debug)]
struct Tasks;

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        tokio::spawn(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_is_told_by_its_first_bytes() {
        for (text, wire) in [
            (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], Wire::Http2),
            (b"00000011\n{\"op\"", Wire::Frames),
            (b"deadbeef\n", Wire::Frames),
            (b"GET / HTTP/1.1\r\n", Wire::Http1),
            (b"POST /execute HTTP/1.1\r\n", Wire::Http1),
            (b"DEADBEEF\n", Wire::Http1),
            (b"PRINT / HTTP/1.1", Wire::Http1),
            (b"abcdefgh\n", Wire::Http1),
            (b"deadbeefX", Wire::Http1),
        ] {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(recognise(text), Some(wire), "{shown}");
            // However the bytes are cut, no prefix says something else.
            for cut in 1..text.len() {
                assert!(
                    recognise(&text[..cut]).is_none_or(|told| told == wire),
                    "{shown} cut at {cut}"
                );
            }
        }
    }
}
