//! Which handler a request belongs to, and whether it may reach it.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use namzu_protocol::{ext, query, v1};

use crate::auth::Access;
use crate::http::{self as web, Request, Response};
use crate::rpc;
use crate::worker::Worker;
use crate::{control, doors, files, metrics, probe, process, tunnel};

const HEALTH: &str = "/health";
const METRICS: &str = "/metrics";
const ENVS: &str = "/envs";
const FILES: &str = "/files";

/// Answers any request. On a private stream nobody has to prove anything.
pub(crate) async fn route(worker: Arc<Worker>, mut request: Request, private: bool) -> Response {
    let from_browser = request.headers().contains_key(header::ORIGIN);
    let mut response = if from_browser && request.method() == Method::OPTIONS {
        web::empty(StatusCode::NO_CONTENT)
    } else {
        match admit(&worker, &request, private) {
            Some(access) => {
                request.extensions_mut().insert(access);
                work(worker, request).await
            }
            None => refuse(&request),
        }
    };
    if from_browser {
        let any = HeaderValue::from_static("*");
        for name in [
            header::ACCESS_CONTROL_ALLOW_ORIGIN,
            header::ACCESS_CONTROL_ALLOW_METHODS,
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
        ] {
            response.headers_mut().insert(name, any.clone());
        }
    }
    response
}

/// How the request may go on, if it may.
fn admit(worker: &Worker, request: &Request, private: bool) -> Option<Access> {
    let path = request.uri().path();
    let proven = match &worker.config.token {
        // A worker without a token has private streams only.
        None => true,
        Some(token) => private || token.admits(request.headers()),
    };
    let signed = |query| matches!(query::get(query, "signature"), Ok(Some(_)));
    if proven || path == HEALTH || path == v1::HEALTHZ {
        Some(Access::Granted)
    } else if path == FILES && request.uri().query().is_some_and(signed) {
        Some(Access::SignatureOnly)
    } else {
        None
    }
}

fn refuse(request: &Request) -> Response {
    let message = "the access token is missing or wrong";
    if is_rpc(request.uri().path()) {
        return rpc::refuse(rpc::Error::new(rpc::Code::Unauthenticated, message));
    }
    web::error(StatusCode::UNAUTHORIZED, message)
}

fn is_rpc(path: &str) -> bool {
    path.starts_with("/process.Process/") || path.starts_with("/filesystem.Filesystem/")
}

/// Runs the handler; the worker is not idle until the answer's body is through.
async fn work(worker: Arc<Worker>, request: Request) -> Response {
    if worker.config.idle_timeout.is_none() || matches!(request.uri().path(), HEALTH | v1::HEALTHZ)
    {
        return dispatch(worker, request).await;
    }
    let busy = worker.busy();
    dispatch(worker, request).await.map(|body| {
        body.map_frame(move |frame| {
            let _held = &busy;
            frame.map_data(Bytes::from)
        })
        .boxed_unsync()
    })
}

async fn dispatch(worker: Arc<Worker>, request: Request) -> Response {
    match request.uri().path() {
        HEALTH => web::empty(StatusCode::NO_CONTENT),
        METRICS => metrics::handle(&worker),
        ENVS => web::json(
            StatusCode::OK,
            &worker.config.envs.iter().cloned().collect::<Envs>(),
        ),
        v1::HEALTHZ | v1::EXECUTE | v1::READ_FILE | v1::WRITE_FILE => {
            crate::v1::handle_http(worker, request).await
        }
        FILES | ext::TAR => files::handle(worker, request).await,
        ext::INFO | ext::KILL | ext::SHUTDOWN => control::handle(&worker, request).await,
        ext::PROBE => probe::handle(request).await,
        ext::DOORS => doors::handle(&worker, request).await,
        ext::EXPOSE | ext::REACH | ext::ACCEPT => tunnel::handle(&worker, request).await,
        path if path.starts_with("/process.Process/") => {
            process::service::handle(worker, request).await
        }
        path if path.starts_with("/filesystem.Filesystem/") => files::handle(worker, request).await,
        _ => web::json(
            StatusCode::NOT_FOUND,
            &NotFound {
                error: "not_found",
                code: 404,
                message: "not found",
            },
        ),
    }
}

type Envs = std::collections::BTreeMap<String, String>;

/// What both an envd client and a v1 host understand.
#[derive(serde::Serialize)]
struct NotFound {
    error: &'static str,
    code: u16,
    message: &'static str,
}
