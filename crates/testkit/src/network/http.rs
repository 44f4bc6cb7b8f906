//! A web server that takes whatever it is sent, as many out there do.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::log::Log;
use super::serve::echo;

/// Serves HTTP/1.1. `/echo` answers with the head that it was sent, `/redirect` with one to
/// `evil.test`, `/upgrade` with 101 and what it is told from then on, and everything else with a word.
pub(super) async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    to: SocketAddr,
    log: &Log,
    at: usize,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let Some(head) = head(&mut stream, &mut buffer, log, at).await? else {
            return Ok(());
        };
        log.request(at);
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let field = |name: &str| field(&head, name);
        if field("expect").is_some() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        body(&head, &mut stream, &mut buffer, log, at).await?;
        if path == "/upgrade" && field("upgrade").is_some() {
            let answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
            stream.write_all(answer).await?;
            stream.write_all(&buffer).await?;
            return echo(stream, log, at).await;
        }
        let (status, extra, text) = match path.as_str() {
            "/echo" => ("200 OK", shown(&head), head.clone()),
            "/redirect" => (
                "302 Found",
                "Location: http://evil.test/stolen\r\n".to_owned(),
                String::new(),
            ),
            _ => ("200 OK", String::new(), format!("this is {}\n", to.ip())),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n{extra}\r\n",
            text.len(),
        );
        stream.write_all(answer.as_bytes()).await?;
        if !head.starts_with("HEAD ") {
            stream.write_all(text.as_bytes()).await?;
        }
        stream.flush().await?;
    }
}

/// A header that shows what was sent to prove who one is.
fn shown(head: &str) -> String {
    let sent = field(head, "authorization").unwrap_or_default();
    format!("X-Echo: {sent}\r\n")
}

async fn more(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    log: &Log,
    at: usize,
) -> io::Result<bool> {
    let before = buffer.len();
    stream.read_buf(buffer).await?;
    log.received(at, &buffer[before..]);
    Ok(buffer.len() > before)
}

async fn head(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    log: &Log,
    at: usize,
) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = find(buffer, b"\r\n\r\n") {
            let rest = buffer.split_off(end + 4);
            let head = std::mem::replace(buffer, rest);
            return Ok(Some(String::from_utf8_lossy(&head).into_owned()));
        }
        if !more(stream, buffer, log, at).await? {
            return Ok(None);
        }
    }
}

async fn body(
    head: &str,
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    log: &Log,
    at: usize,
) -> io::Result<()> {
    if field(head, "transfer-encoding").is_some() {
        while find(buffer, b"0\r\n\r\n").is_none() {
            if !more(stream, buffer, log, at).await? {
                return Ok(());
            }
        }
        let end = find(buffer, b"0\r\n\r\n").map_or(0, |end| end + 5);
        buffer.drain(..end);
        return Ok(());
    }
    let length = field(head, "content-length").and_then(|text| text.parse().ok());
    let length: usize = length.unwrap_or(0);
    while buffer.len() < length {
        if !more(stream, buffer, log, at).await? {
            return Ok(());
        }
    }
    buffer.drain(..length);
    Ok(())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Serves HTTP/2; what it gets is entered in the log as text.
pub(super) async fn serve_h2<T>(io: T, log: Log, at: usize) -> io::Result<()>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let log = log.clone();
        async move { Ok::<_, Infallible>(answer(request, &log, at).await) }
    });
    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(io, service)
        .await
        .map_err(io::Error::other)
}

async fn answer(request: Request<Incoming>, log: &Log, at: usize) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let mut text = format!("{} {} HTTP/2\n", parts.method, parts.uri);
    for (name, value) in &parts.headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}: {value}");
    }
    log.received(at, text.as_bytes());
    if let Ok(body) = body.collect().await {
        let trailers = body.trailers().cloned().unwrap_or_default();
        for (name, value) in &trailers {
            let value = String::from_utf8_lossy(value.as_bytes());
            log.received(at, format!("trailer {name}: {value}\n").as_bytes());
        }
        log.received(at, &body.to_bytes());
    }
    let echoed = if parts.uri.path() == "/echo" {
        text
    } else {
        "this is h2\n".to_owned()
    };
    let mut answer = Response::new(Full::new(Bytes::from(echoed)));
    let kind = ::http::HeaderValue::from_static("text/plain");
    answer.headers_mut().insert("content-type", kind);
    answer
}
