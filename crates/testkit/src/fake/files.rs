//! `/files`: whole files and ranges.

use http::header::{ACCEPT_RANGES, CONTENT_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use namzu_protocol::connect::Code;

use crate::fake::Fault;
use crate::fake::machine::{Machine, WORKSPACE};
use crate::fake::reply::{Body, Refusal, respond};
use crate::fake::tree::absolute;

const BYTES: &str = "application/octet-stream";

/// The absolute path of one that a caller names.
pub(crate) fn place(machine: &Machine, path: &str) -> String {
    let path = absolute(path, WORKSPACE);
    if machine.has(Fault::TrimsNames) {
        path.split('/').map(str::trim).collect::<Vec<_>>().join("/")
    } else {
        path
    }
}

/// Reads a file, or the range that the headers ask for.
pub(crate) fn get(machine: &Machine, path: &str, headers: &HeaderMap) -> Response<Body> {
    let found = machine
        .files()
        .read(&place(machine, path))
        .map(<[u8]>::to_vec);
    let bytes = match found {
        Ok(bytes) => bytes,
        Err(refusal) => {
            if machine.has(Fault::ReadsHostFiles)
                && let Ok(bytes) = std::fs::read(path)
            {
                return respond(200, BYTES, bytes);
            }
            return refusal.file();
        }
    };
    match headers.get(RANGE).and_then(|value| value.to_str().ok()) {
        None => {
            let mut response = respond(200, BYTES, bytes);
            response
                .headers_mut()
                .insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
            response
        }
        Some(range) => part(machine, &bytes, range),
    }
}

fn part(machine: &Machine, bytes: &[u8], range: &str) -> Response<Body> {
    let len = bytes.len();
    let ends = range
        .strip_prefix("bytes=")
        .and_then(|range| range.split_once('-'));
    let Some((Ok(from), to)) = ends.map(|(from, to)| (from.parse::<usize>(), to.parse::<usize>()))
    else {
        return Refusal::new(Code::InvalidArgument, "no range that is known").file();
    };
    if from >= len {
        let mut response = respond(416, BYTES, Vec::new());
        if let Ok(value) = HeaderValue::from_str(&format!("bytes */{len}")) {
            response.headers_mut().insert(CONTENT_RANGE, value);
        }
        return response;
    }
    let last = to.unwrap_or(len - 1).min(len - 1).max(from);
    let from = if machine.has(Fault::CountsRangesWrong) {
        last.min(from + 1)
    } else {
        from
    };
    let mut response = respond(206, BYTES, bytes[from..=last].to_vec());
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    if let Ok(value) = HeaderValue::from_str(&format!("bytes {from}-{last}/{len}")) {
        response.headers_mut().insert(CONTENT_RANGE, value);
    }
    response
}

/// Writes a file whole.
pub(crate) fn post(machine: &Machine, path: &str, bytes: Vec<u8>) -> Response<Body> {
    let place = place(machine, path);
    let cut = !machine.has(Fault::KeepsOldContent);
    match machine.files().write(&place, bytes, cut) {
        Ok(()) => {
            let name = serde_json::json!([{
                "path": place,
                "name": place.rsplit('/').next().unwrap_or_default(),
                "type": "file",
            }]);
            respond(200, "application/json", name.to_string())
        }
        Err(refusal) => refusal.file(),
    }
}
