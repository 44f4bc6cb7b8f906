//! The v1 wire over a stream: one request, its answer, the end.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use namzu_protocol::v1::{
    Event, FrameDecoder, FrameRequest, FrameRequestError, Health, Refusal, encode_frame,
};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::execute::{self, Events};
use super::files;
use crate::worker::Worker;

/// Serves one connection of frames. Whatever is no request drops it, and its end, in either direction, cancels
/// the command.
pub(crate) async fn handle_frames<I>(worker: Arc<Worker>, mut io: I)
where
    I: AsyncRead + AsyncWrite + Send + Unpin,
{
    // How it ends is the peer's business; there is nobody to tell.
    let _ = serve(worker, &mut io).await;
    let _ = io.shutdown().await;
}

async fn serve<I>(worker: Arc<Worker>, io: &mut I) -> io::Result<()>
where
    I: AsyncRead + AsyncWrite + Send + Unpin,
{
    let Some(payload) = read_frame(io, worker.config.max_body_bytes).await? else {
        return Ok(());
    };
    match FrameRequest::from_json(&payload) {
        Ok(FrameRequest::Healthz) => send(io, &Health { ok: true }).await,
        Ok(FrameRequest::ReadFile(request)) => answer(io, files::read(worker, request).await).await,
        Ok(FrameRequest::WriteFile(request)) => {
            answer(io, files::write(worker, request).await).await
        }
        Ok(FrameRequest::Execute(request)) => match execute::start(&worker, request).await {
            Ok(events) => stream(io, events).await,
            Err(refusal) => refuse_command(io, refusal).await,
        },
        Err(FrameRequestError::InvalidBody {
            is_execute: true,
            message,
        }) => refuse_command(io, Refusal::command("invalid_body", message)).await,
        Err(error @ (FrameRequestError::UnknownOp(_) | FrameRequestError::InvalidBody { .. })) => {
            send(io, &Refusal::file(error.to_string())).await
        }
        Err(_) => Ok(()),
    }
}

/// The one frame of a request; `None` for what is none.
async fn read_frame<I: AsyncRead + Unpin>(
    io: &mut I,
    cap: usize,
) -> io::Result<Option<bytes::Bytes>> {
    let mut decoder = FrameDecoder::new(cap);
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(8 << 10);
        if io.read_buf(&mut buffer).await? == 0 {
            return Ok(None);
        }
        let mut chunk = buffer.split().freeze();
        match decoder.decode(&mut chunk) {
            Ok(Some(payload)) => return Ok(Some(payload)),
            Ok(None) => {}
            Err(_) => return Ok(None),
        }
    }
}

async fn answer<I: AsyncWrite + Unpin>(
    io: &mut I,
    outcome: Result<impl Serialize, Refusal>,
) -> io::Result<()> {
    match outcome {
        Ok(answer) => send(io, &answer).await,
        Err(refusal) => send(io, &refusal).await,
    }
}

/// A refused command is an event like any other end.
async fn refuse_command<I: AsyncWrite + Unpin>(io: &mut I, refusal: Refusal) -> io::Result<()> {
    let error = match refusal.message {
        Some(message) => format!("{}: {message}", refusal.error),
        None => refusal.error,
    };
    write_frame(io, &Event::Error { error }.to_json()).await?;
    write_frame(io, b"").await
}

async fn stream<I>(io: &mut I, mut events: Events) -> io::Result<()>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(event) = next(io, &mut events).await? {
        write_frame(io, &event.to_json()).await?;
    }
    write_frame(io, b"").await
}

/// The next event, or an error as soon as the peer is gone. What else it sends is not for us.
async fn next<I: AsyncRead + Unpin>(io: &mut I, events: &mut Events) -> io::Result<Option<Event>> {
    poll_fn(|cx| {
        let mut ignored = [0; 256];
        loop {
            let mut buffer = ReadBuf::new(&mut ignored);
            match Pin::new(&mut *io).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return events.poll(cx).map(Ok),
            }
        }
    })
    .await
}

async fn send<I: AsyncWrite + Unpin>(io: &mut I, answer: &impl Serialize) -> io::Result<()> {
    write_frame(io, &serde_json::to_vec(answer)?).await
}

async fn write_frame<I: AsyncWrite + Unpin>(io: &mut I, payload: &[u8]) -> io::Result<()> {
    let frame = encode_frame(payload).map_err(io::Error::other)?;
    io.write_all(&frame).await?;
    io.flush().await
}
