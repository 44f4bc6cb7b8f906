//! `GET /files`.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use rustix::buffer::spare_capacity;

use super::conditions::{State, Verdict, text};
use super::range::{self, Part};
use super::{Coding, coding, date, disposition, required_path};
use crate::files::fail::{Fail, Outcome};
use crate::files::gzip::Compressed;
use crate::files::jail::Access;
use crate::files::source::{self, CHUNK, Source, SourceBody};
use crate::files::stop::blocking;
use crate::http::{self as web, Request, Response};
use crate::pool::Pool;
use crate::worker::Worker;

pub(super) async fn handle(worker: &Worker, request: &Request) -> Outcome<Response> {
    let path = required_path(worker, request)?;
    let headers = request.headers();
    let (file, stat, first) = {
        let (path, jail) = (path.clone(), Arc::clone(&worker.files.jail));
        blocking(move |_| {
            let failed = |errno| Fail::errno("read", &path, errno);
            let place = jail.existing(&path, Access::Read)?;
            let (fd, stat) = place.open_file().map_err(failed)?;
            let mut file = FileSource::new(File::from(fd), 0, None);
            // The kernel's own files say they are empty and are not.
            let first = if stat.st_size == 0 {
                file.next()
                    .map_err(|error| crate::files::fail::io("read", &path, &error))?
            } else {
                None
            };
            Ok((file, stat, first))
        })
        .await?
    };
    let state = State::of(&stat);
    // What the kernel makes up as it is read has no state to compare.
    let verdict = match first {
        None => state.weigh(headers),
        Some(_) => Verdict::Send,
    };
    match verdict {
        Verdict::Send => {}
        Verdict::NotModified => return Ok(described(StatusCode::NOT_MODIFIED, &state, &path)),
        Verdict::Failed => return Ok(described(StatusCode::PRECONDITION_FAILED, &state, &path)),
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let part = match text(headers, &header::RANGE) {
        Some(asked) if state.allows_range(headers) => range::parse(asked, size),
        _ => Part::Whole,
    };
    let mut answer = Answer {
        request,
        state,
        path,
    };
    match part {
        Part::Unsatisfiable => {
            let message = "nothing of the file lies in the range";
            let mut response = web::error(StatusCode::RANGE_NOT_SATISFIABLE, message);
            set(
                &mut response,
                header::CONTENT_RANGE,
                format!("bytes */{size}"),
            );
            Ok(response)
        }
        Part::Some { first, length } => {
            let source = FileSource::new(file.file, first, Some(length));
            let mut response = answer.send(StatusCode::PARTIAL_CONTENT, source, Some(length));
            let range = format!("bytes {first}-{}/{size}", first + length - 1);
            set(&mut response, header::CONTENT_RANGE, range);
            Ok(response)
        }
        Part::Whole => {
            let whole = match first {
                Some(first) => Whole::Endless(Some(first), file),
                None => Whole::Sized(FileSource::new(file.file, 0, Some(size))),
            };
            let length = matches!(whole, Whole::Sized(_)).then_some(size);
            match coding(headers) {
                None => {
                    let message = "neither gzip nor identity is accepted";
                    Ok(web::error(StatusCode::NOT_ACCEPTABLE, message))
                }
                Some(Coding::Plain) => Ok(answer.send(StatusCode::OK, whole, length)),
                Some(Coding::Gzip) => {
                    // Other bytes than the plain ones are another state.
                    answer.state.etag = answer.state.etag.replacen('-', "z-", 1);
                    let mut response = answer.send(StatusCode::OK, Compressed::new(whole), None);
                    set(&mut response, header::CONTENT_ENCODING, "gzip".into());
                    Ok(response)
                }
            }
        }
    }
}

struct Answer<'r> {
    request: &'r Request,
    state: State,
    path: Vec<u8>,
}

impl Answer<'_> {
    fn send<S: Source>(&self, status: StatusCode, source: S, length: Option<u64>) -> Response {
        let mut response = described(status, &self.state, &self.path);
        if self.request.method() == Method::HEAD {
            drop(source);
        } else {
            *response.body_mut() = SourceBody::new(source, length).boxed_unsync();
        }
        set(
            &mut response,
            header::CONTENT_TYPE,
            "application/octet-stream".into(),
        );
        if let Some(length) = length {
            set(&mut response, header::CONTENT_LENGTH, length.to_string());
        }
        response
    }
}

/// A response with what identifies the file and no body.
fn described(status: StatusCode, state: &State, path: &[u8]) -> Response {
    let mut response = web::empty(status);
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    set(&mut response, header::ETAG, state.etag.clone());
    set(
        &mut response,
        header::CONTENT_DISPOSITION,
        disposition::inline(name),
    );
    set(&mut response, header::ACCEPT_RANGES, "bytes".into());
    set(&mut response, header::VARY, "accept-encoding".into());
    if let Some(modified) = date::format(state.modified) {
        set(&mut response, header::LAST_MODIFIED, modified);
    }
    response
}

fn set(response: &mut Response, name: header::HeaderName, value: String) {
    // All values here are made of printable ASCII.
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(name, value);
    }
}

/// A file of known size, or one of the kernel's whose first chunk was read to find that it has any.
#[derive(Debug)]
enum Whole {
    Sized(FileSource),
    Endless(Option<Bytes>, FileSource),
}

impl Source for Whole {
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Self::Sized(file) => file.next(),
            Self::Endless(first, file) => match first.take() {
                Some(first) => Ok(Some(first)),
                None => file.next(),
            },
        }
    }
}

/// The bytes of a file from a place on.
#[derive(Debug)]
struct FileSource {
    file: File,
    at: u64,
    /// How many are still to come; `None`: up to the end.
    left: Option<u64>,
    pool: Arc<Pool>,
}

impl FileSource {
    fn new(file: File, at: u64, left: Option<u64>) -> Self {
        Self {
            file,
            at,
            left,
            pool: source::pool(),
        }
    }
}

impl Source for FileSource {
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.left == Some(0) {
            return Ok(None);
        }
        let mut buffer = self.pool.take();
        while buffer.len() < CHUNK {
            let at = self.at + buffer.len() as u64;
            if rustix::io::pread(&self.file, spare_capacity(&mut buffer), at)? == 0 {
                break;
            }
            if self.left.is_some_and(|left| buffer.len() as u64 >= left) {
                break;
            }
        }
        if let Some(left) = &mut self.left {
            buffer.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            if buffer.is_empty() {
                // The length was promised: better no end than a false one.
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file shrank while it was read",
                ));
            }
            *left -= buffer.len() as u64;
        }
        self.at += buffer.len() as u64;
        Ok((!buffer.is_empty()).then(|| self.pool.lend(buffer)))
    }
}
