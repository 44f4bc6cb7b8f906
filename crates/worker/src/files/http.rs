//! `GET`, `HEAD` and `POST /files`, and `/ext/v1/tar`.

mod conditions;
mod date;
mod disposition;
mod download;
mod range;
mod tar;
mod upload;

#[cfg(test)]
mod tests;

use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderMap, Method, StatusCode, header};
use namzu_protocol::query::FilesQuery;
use namzu_protocol::signature::{self, Operation};

use super::fail::{Fail, Kind, Outcome};
use super::query;
use super::state::{absolute, check_headers, check_user};
use crate::auth::Access;
use crate::http::{self as web, Request, Response};
use crate::worker::Worker;

pub(super) use self::tar::handle as handle_tar;

/// Answers `/files`.
pub(super) async fn handle(worker: &Worker, request: Request) -> Response {
    let operation = match *request.method() {
        Method::GET | Method::HEAD => Operation::Read,
        Method::POST => Operation::Write,
        _ => {
            let mut response =
                web::error(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD and POST only");
            let allowed = header::HeaderValue::from_static("GET, HEAD, POST");
            response.headers_mut().insert(header::ALLOW, allowed);
            return response;
        }
    };
    let outcome = match admit(worker, &request, operation) {
        Ok(()) if operation == Operation::Read => download::handle(worker, &request).await,
        Ok(()) => upload::handle(worker, request).await,
        Err(fail) => Err(fail),
    };
    outcome.unwrap_or_else(Into::into)
}

/// Lets in who proved the token, or signed this very request; and only as the worker's user.
fn admit(worker: &Worker, request: &Request, operation: Operation) -> Outcome<()> {
    let raw = request.uri().query().unwrap_or_default();
    if request.extensions().get::<Access>() != Some(&Access::Granted) {
        let refused = |why: String| Fail::new(Kind::Unauthenticated, why);
        let signed = FilesQuery::parse(raw).map_err(|error| Fail::invalid(error.to_string()))?;
        let token = worker.config.token.as_ref();
        let token = token.ok_or_else(|| refused("there is no token to sign with".into()))?;
        // A clock before 1970 makes every signature with an expiration an expired one.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(u64::MAX, |now| now.as_secs());
        signature::verify(&signed, operation, token.expose(), now)
            .map_err(|error| refused(error.to_string()))?;
    }
    check_user(&worker.config, query::text(raw, "username")?.as_deref())?;
    check_headers(&worker.config, request.headers())
}

/// The `path` of the query, absolute; `None` when it names none.
fn path_of(worker: &Worker, request: &Request) -> Outcome<Option<Vec<u8>>> {
    query::value(request.uri().query().unwrap_or_default(), "path")?
        .filter(|path| !path.is_empty())
        .map(|path| absolute(&worker.config, &path))
        .transpose()
}

fn required_path(worker: &Worker, request: &Request) -> Outcome<Vec<u8>> {
    path_of(worker, request)?.ok_or_else(|| Fail::invalid("the query names no path"))
}

/// How a response may be encoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Coding {
    Plain,
    Gzip,
}

/// The best coding that `Accept-Encoding` allows; `None` when it allows neither.
fn coding(headers: &HeaderMap) -> Option<Coding> {
    let (mut gzip, mut plain, mut any) = (None, None, None);
    for value in headers.get_all(header::ACCEPT_ENCODING) {
        for item in value.to_str().unwrap_or_default().split(',') {
            let mut parts = item.split(';');
            let name = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
            let allowed = !parts.any(|parameter| {
                let weight = parameter.trim().strip_prefix("q=");
                weight.is_some_and(|weight| weight.trim().parse::<f32>().is_ok_and(|q| q <= 0.0))
            });
            match name.as_str() {
                "gzip" | "x-gzip" => gzip = Some(allowed),
                "identity" => plain = Some(allowed),
                "*" => any = Some(allowed),
                _ => {}
            }
        }
    }
    if gzip.unwrap_or(false) {
        Some(Coding::Gzip)
    } else if plain.or(any).unwrap_or(true) {
        Some(Coding::Plain)
    } else {
        None
    }
}

/// Whether the request's body is compressed.
fn is_gzip(headers: &HeaderMap) -> Outcome<bool> {
    match headers
        .get(header::CONTENT_ENCODING)
        .map(|value| value.as_bytes().to_ascii_lowercase())
    {
        None => Ok(false),
        Some(value) if value == b"identity" || value.is_empty() => Ok(false),
        Some(value) if value == b"gzip" || value == b"x-gzip" => Ok(true),
        Some(_) => Err(Fail::invalid(
            "the content encoding is neither gzip nor identity",
        )),
    }
}
