//! Which handler a request belongs to.

use std::sync::Arc;

use http::StatusCode;

use crate::http::{self as web, Request, Response};
use crate::worker::Worker;

/// Answers any request.
pub(crate) async fn route(worker: Arc<Worker>, request: Request) -> Response {
    match request.uri().path() {
        "/healthz" | "/execute" | "/read-file" | "/write-file" => {
            crate::v1::handle_http(worker, request).await
        }
        "/files" | "/ext/v1/tar" => crate::files::handle(worker, request).await,
        path if path.starts_with("/filesystem.Filesystem/") => {
            crate::files::handle(worker, request).await
        }
        _ => web::error(StatusCode::NOT_FOUND, "not found"),
    }
}
