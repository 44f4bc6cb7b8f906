//! The v1 wires: four HTTP routes, and length-prefixed frames.

mod execute;
mod files;
mod frames;

use std::sync::Arc;

use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use namzu_protocol::v1::{self as wire, ExecuteRequest, Health, Refusal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::auth::Access;
use crate::http::{self as web, Request, Response};
use crate::worker::Worker;

pub(crate) use frames::handle_frames;

/// Answers `/healthz`, `/execute`, `/read-file`, `/write-file`.
pub(crate) async fn handle_http(worker: Arc<Worker>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    match (request.method(), path.as_str()) {
        (&Method::GET | &Method::HEAD, wire::HEALTHZ) => {
            return web::json(StatusCode::OK, &Health { ok: true });
        }
        (&Method::POST, wire::EXECUTE | wire::READ_FILE | wire::WRITE_FILE) => {}
        _ => return web::json(StatusCode::NOT_FOUND, &Refusal::not_found()),
    }
    if request.extensions().get::<Access>() != Some(&Access::Granted) {
        return web::error(StatusCode::UNAUTHORIZED, "the token is missing or wrong");
    }
    match path.as_str() {
        wire::EXECUTE => execute(worker, request).await,
        wire::READ_FILE => match body(&worker, request).await {
            Ok(message) => answered(files::read(worker, message).await),
            Err((status, why)) => web::json(status, &Refusal::file(format!("invalid_body: {why}"))),
        },
        _ => match body(&worker, request).await {
            Ok(message) => answered(files::write(worker, message).await),
            Err((status, why)) => web::json(status, &Refusal::file(format!("invalid_body: {why}"))),
        },
    }
}

async fn execute(worker: Arc<Worker>, request: Request) -> Response {
    let message: ExecuteRequest = match body(&worker, request).await {
        Ok(message) => message,
        Err((status, why)) => return web::json(status, &Refusal::command("invalid_body", why)),
    };
    match execute::start(&worker, message).await {
        Ok(events) => web::stream(StatusCode::OK, wire::NDJSON, events.lines()),
        Err(refusal) => web::json(StatusCode::BAD_REQUEST, &refusal),
    }
}

fn answered(outcome: Result<impl Serialize, Refusal>) -> Response {
    match outcome {
        Ok(answer) => web::json(StatusCode::OK, &answer),
        Err(refusal) => web::json(StatusCode::BAD_REQUEST, &refusal),
    }
}

/// The request's body, up to the worker's cap.
async fn body<T: DeserializeOwned>(
    worker: &Worker,
    request: Request,
) -> Result<T, (StatusCode, String)> {
    let cap = worker.config.max_body_bytes;
    let bytes = match Limited::new(request.into_body(), cap).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let why = format!("the body is longer than {cap} bytes");
            return Err((StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        Err(error) => {
            return Err((
                StatusCode::BAD_REQUEST,
                format!("the body ended early: {error}"),
            ));
        }
    };
    serde_json::from_slice(&bytes).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))
}
