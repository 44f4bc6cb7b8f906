//! File calls: `/files`, the `filesystem.Filesystem` service and `/ext/v1/tar`.

use std::sync::Arc;

use http::StatusCode;

use crate::http::{self as web, Request, Response};
use crate::worker::Worker;

/// Answers a file call.
pub(crate) async fn handle(_worker: Arc<Worker>, _request: Request) -> Response {
    web::error(StatusCode::NOT_FOUND, "not found")
}
