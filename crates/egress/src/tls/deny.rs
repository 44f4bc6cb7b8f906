//! Tells a program inside, over the TLS that it asked for, why there is nothing behind it.
//!
//! A connection that just breaks off tells nobody anything, and a model that drives a program retries.
//! So the handshake is completed as if the host were there, and the first request is answered.

use std::time::Duration;

use ::h2::server::SendResponse;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use super::replay::Replay;
use crate::denial::{Denial, HEADER};
use crate::door::tell;

/// For a program to send its first request.
const DEADLINE: Duration = Duration::from_secs(10);
/// How much of a request is read to find its end.
const MOST: usize = 32 * 1024;

/// Answers the first HTTP/1.1 request and closes.
pub(super) async fn http1(denial: &Denial, mut inside: TlsStream<Replay>) {
    let asked = timeout(DEADLINE, await_head(&mut inside)).await;
    // Whoever asks for nothing is not told.
    if matches!(asked, Ok(Ok(()))) {
        tell::last(inside, &crate::http::refusal(denial)).await;
    }
}

/// Reads until a head has ended, or is longer than any.
async fn await_head(inside: &mut TlsStream<Replay>) -> std::io::Result<()> {
    let mut head = Vec::with_capacity(1024);
    while head.len() < MOST {
        let seen = head.len();
        if inside.read_buf(&mut head).await? == 0 {
            break;
        }
        let from = seen.saturating_sub(3);
        if memchr::memmem::find(&head[from..], b"\r\n\r\n").is_some() {
            break;
        }
    }
    Ok(())
}

/// Answers each HTTP/2 request that is under way, then closes.
pub(super) async fn http2(denial: &Denial, inside: TlsStream<Replay>) {
    let answer = async {
        let mut connection = super::h2::settings::server()
            .handshake::<_, Bytes>(inside)
            .await?;
        while let Some(request) = connection.accept().await {
            let (_, mut respond) = request?;
            stream(denial, &mut respond);
            connection.graceful_shutdown();
        }
        Ok::<_, ::h2::Error>(())
    };
    let _ = timeout(DEADLINE, answer).await;
}

/// Answers one HTTP/2 request; false if it was answered already, or nobody waits any more.
pub(super) fn stream(denial: &Denial, respond: &mut SendResponse<Bytes>) -> bool {
    let mut response = Response::new(());
    *response.status_mut() = denial.status();
    let headers = response.headers_mut();
    headers.insert(HEADER, HeaderValue::from_static(denial.reason.code()));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let Ok(mut body) = respond.send_response(response, false) else {
        return false;
    };
    // Queued whole, whatever the window is: it is short.
    body.send_data(Bytes::from(denial.body()), true).is_ok()
}
