//! The v1 wires: four HTTP routes, and length-prefixed frames.

use std::sync::Arc;

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::http::{self as web, Request, Response};
use crate::worker::Worker;

/// Answers `/healthz`, `/execute`, `/read-file`, `/write-file`.
pub(crate) async fn handle_http(_worker: Arc<Worker>, _request: Request) -> Response {
    web::error(StatusCode::NOT_FOUND, "not found")
}

/// Serves one connection of frames; `io` yields the sniffed header again.
pub(crate) async fn handle_frames<I>(_worker: Arc<Worker>, _io: I)
where
    I: AsyncRead + AsyncWrite + Send + Unpin,
{
}
