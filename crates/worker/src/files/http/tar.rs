//! `GET` and `POST /ext/v1/tar`.

use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::{Coding, coding, is_gzip, required_path};
use crate::auth::Access as Door;
use crate::files::fail::{Fail, Outcome};
use crate::files::gzip::{Compressed, Decompressed};
use crate::files::jail::{Access, Jail, Last, Parents};
use crate::files::sink::pump;
use crate::files::source::SourceBody;
use crate::files::stop::blocking;
use crate::files::tar::{Pack, Unpack};
use crate::http::{self as web, Request, Response};
use crate::worker::Worker;

/// Answers a call. A signature does not open it.
pub(in crate::files) async fn handle(worker: &Worker, request: Request) -> Response {
    if request.extensions().get::<Door>() != Some(&Door::Granted) {
        return web::error(StatusCode::UNAUTHORIZED, "the token is missing or wrong");
    }
    let outcome = match *request.method() {
        Method::GET => pack(worker, &request).await,
        Method::POST => unpack(worker, request).await,
        _ => {
            let mut response = web::error(StatusCode::METHOD_NOT_ALLOWED, "GET and POST only");
            let allowed = HeaderValue::from_static("GET, POST");
            response.headers_mut().insert(header::ALLOW, allowed);
            return response;
        }
    };
    outcome.unwrap_or_else(Into::into)
}

async fn pack(worker: &Worker, request: &Request) -> Outcome<Response> {
    let path = required_path(worker, request)?;
    let coding = coding(request.headers());
    let jail = Arc::clone(&worker.files.jail);
    let pack = blocking(move |_| Pack::open(&jail.existing(&path, Access::Read)?, &path)).await?;
    let mut response = web::empty(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-tar"),
    );
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    match coding {
        None => {
            let message = "neither gzip nor identity is accepted";
            return Ok(web::error(StatusCode::NOT_ACCEPTABLE, message));
        }
        Some(Coding::Plain) => {
            *response.body_mut() = SourceBody::new(pack, None).boxed_unsync();
        }
        Some(Coding::Gzip) => {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            *response.body_mut() = SourceBody::new(Compressed::new(pack), None).boxed_unsync();
        }
    }
    Ok(response)
}

async fn unpack(worker: &Worker, request: Request) -> Outcome<Response> {
    let path = required_path(worker, &request)?;
    let is_compressed = is_gzip(request.headers())?;
    let jail = Arc::clone(&worker.files.jail);
    let sink = blocking(move |_| below(&jail, &path)).await?;
    let body = request.into_body();
    let sink = if is_compressed {
        let sink = pump(body, Decompressed::new(sink)).await?;
        blocking(move |_| sink.finish()).await?
    } else {
        pump(body, sink).await?
    };
    blocking(move |_| sink.finish()).await?;
    Ok(web::json(StatusCode::OK, &serde_json::json!({})))
}

/// Opens the directory to unpack below, making it where it is missing.
fn below(jail: &Jail, path: &[u8]) -> Outcome<Unpack> {
    let failed = |errno| Fail::errno("unpack below", path, errno);
    let place = jail.place(path, Access::Write, Last::Follow, Parents::Made)?;
    match rustix::fs::mkdirat(place.dir(), place.name(), Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let dir = place.open_dir().map_err(failed)?;
    // Where it really is, for links within; the open directory stays what it is whatever that path means later.
    let (top, _) = jail.resolved(path)?;
    Ok(Unpack::below(dir, top))
}
