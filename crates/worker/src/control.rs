//! The small calls of ext/v1: info, kill, shutdown.

use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use namzu_protocol::ext::{self, Info, KillRequest, KillResponse};
use rustix::process::Signal;

use crate::http::{self as web, Request, Response};
use crate::process::Selector;
use crate::worker::Worker;

/// The longest body of a call here.
const MOST: usize = 64 * 1024;

/// What this worker can do beyond version 1's calls.
const FEATURES: [&str; 7] = [
    "cursors",
    "head_tail",
    "limits",
    "reach",
    "tar",
    "expose",
    ext::DOORS_FEATURE,
];

/// Answers a call.
pub(crate) async fn handle(worker: &Worker, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let wanted = if path == ext::INFO {
        Method::GET
    } else {
        Method::POST
    };
    if request.method() != wanted {
        return web::error(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{path} takes {wanted}"),
        );
    }
    match path.as_str() {
        ext::INFO => web::json(StatusCode::OK, &info(worker)),
        ext::KILL => match body::<KillRequest>(request).await {
            Ok(request) => kill(worker, request),
            Err(refusal) => refusal,
        },
        ext::SHUTDOWN => {
            worker.shut_down();
            web::json(StatusCode::OK, &serde_json::Map::new())
        }
        _ => web::error(StatusCode::NOT_FOUND, "no such call"),
    }
}

/// Reads a JSON body.
pub(crate) async fn body<T: serde::de::DeserializeOwned>(request: Request) -> Result<T, Response> {
    let read = Limited::new(request.into_body(), MOST).collect().await;
    let bytes = read.map_err(|_| {
        web::error(
            StatusCode::BAD_REQUEST,
            "the body is too long or was cut off",
        )
    })?;
    serde_json::from_slice(&bytes.to_bytes())
        .map_err(|error| web::error(StatusCode::BAD_REQUEST, error.to_string()))
}

fn info(worker: &Worker) -> Info {
    let pid = rustix::process::getpid();
    let mut features = FEATURES.map(str::to_owned).to_vec();
    if worker.lane().is_some() {
        features.push(ext::LANE_FEATURE.to_owned());
    }
    Info {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: pid.as_raw_nonzero().get().unsigned_abs(),
        pid1: pid.is_init(),
        uid: worker.config.user.uid,
        workspace: worker.config.workspace.display().to_string(),
        features,
    }
}

fn kill(worker: &Worker, request: KillRequest) -> Response {
    let KillRequest {
        pid,
        tag,
        signal,
        tree,
    } = request;
    let Some(signal) = Signal::from_named_raw(signal) else {
        return web::error(
            StatusCode::BAD_REQUEST,
            format!("there is no signal {signal}"),
        );
    };
    let selector = match (pid, tag) {
        (Some(pid), None) => i32::try_from(pid).ok().map(Selector::Pid),
        (None, Some(tag)) => Some(Selector::Tag(tag)),
        _ => return web::error(StatusCode::BAD_REQUEST, "give either pid or tag"),
    };
    let Some(process) = selector.and_then(|selector| worker.processes().find(&selector)) else {
        return web::error(StatusCode::NOT_FOUND, "no such process");
    };
    let killed = match (tree, signal) {
        (true, Signal::KILL) => process.kill_tree(),
        (true, signal) => process.signal_tree(signal),
        (false, signal) => usize::from(process.signal_leader(signal)),
    };
    web::json(
        StatusCode::OK,
        &KillResponse {
            killed: u32::try_from(killed).unwrap_or(u32::MAX),
        },
    )
}
