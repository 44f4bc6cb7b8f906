//! File calls: `/files`, the `filesystem.Filesystem` service and `/ext/v1/tar`.

mod descent;
mod entry;
mod fail;
mod gzip;
mod http;
mod jail;
mod multipart;
mod query;
mod service;
mod sink;
mod source;
mod state;
mod stop;
mod tar;
mod tree;
mod users;
mod watch;

use std::sync::Arc;

use ::http::StatusCode;
use namzu_protocol::ext;

use crate::auth::Access as Door;
use crate::http::{self as web, Request, Response};
use crate::worker::Worker;

pub(crate) use fail::{Fail, Kind, Outcome, io as io_fail};
pub(crate) use jail::{Access, Last, Parents};
pub(crate) use state::Files;
pub(crate) use stop::blocking;

/// Answers a file call.
pub(crate) async fn handle(worker: Arc<Worker>, request: Request) -> Response {
    match request.uri().path() {
        "/files" => http::handle(&worker, request).await,
        ext::TAR => http::handle_tar(&worker, request).await,
        _ if request.extensions().get::<Door>() != Some(&Door::Granted) => {
            web::error(StatusCode::UNAUTHORIZED, "the token is missing or wrong")
        }
        _ => service::handle(worker, request).await,
    }
}
