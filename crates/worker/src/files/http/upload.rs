//! `POST /files`: one file as the body, or several as parts of a form.

use std::collections::{BTreeMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};
use namzu_protocol::path_text;
use rustix::fs::{Mode, XattrFlags};
use serde::Serialize;

use super::{is_gzip, path_of};
use crate::config::Config;
use crate::files::entry::METADATA;
use crate::files::fail::{self, Fail, Kind, Outcome};
use crate::files::gzip::Decompressed;
use crate::files::jail::{Access, Jail, Last, Parents};
use crate::files::multipart::{Event, Multipart};
use crate::files::sink::{Sink, pump};
use crate::files::state::absolute;
use crate::files::stop::blocking;
use crate::http::{self as web, Request, Response};
use crate::worker::Worker;

/// The most metadata entries of one upload.
const MAX_METADATA: usize = 64;
const METADATA_HEADER: &str = "x-metadata-";

/// One file of the answer.
#[derive(Serialize)]
struct Written {
    name: String,
    path: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

pub(super) async fn handle(worker: &Worker, request: Request) -> Outcome<Response> {
    let path = path_of(worker, &request)?;
    let headers = request.headers();
    let kind = headers
        .get(header::CONTENT_TYPE)
        .map(|value| value.as_bytes().to_vec());
    let kind = kind.unwrap_or_default();
    let is_compressed = is_gzip(headers)?;
    let target = Target {
        jail: Arc::clone(&worker.files.jail),
        metadata: metadata(headers)?,
    };
    let essence = kind
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    let metadata = target.metadata.clone();
    let paths = match essence.to_ascii_lowercase().as_slice() {
        b"application/octet-stream" => {
            let path = path.ok_or_else(|| Fail::invalid("the query names no path"))?;
            let (file, path) = blocking(move |_| Ok((target.open(&path)?, path))).await?;
            send(request, file, is_compressed).await?;
            vec![path]
        }
        b"multipart/form-data" => {
            let form = Form {
                parser: Multipart::new(&kind)?,
                parts: Parts {
                    target,
                    config: Arc::clone(&worker.config),
                    override_path: path,
                    file: None,
                    written: Vec::new(),
                    seen: HashSet::new(),
                },
            };
            let form = send(request, form, is_compressed).await?;
            form.parser.finish()?;
            form.parts.written
        }
        _ => {
            let message =
                "the content type is neither multipart/form-data nor application/octet-stream";
            return Err(Fail::invalid(message));
        }
    };
    let answer: Vec<Written> = paths
        .iter()
        .map(|path| {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            Written {
                name: path_text::encode(name),
                path: path_text::encode(path),
                r#type: "file",
                metadata: metadata
                    .iter()
                    .map(|(key, value)| (key.clone(), String::from_utf8_lossy(value).into_owned()))
                    .collect(),
            }
        })
        .collect();
    Ok(web::json(StatusCode::OK, &answer))
}

async fn send<S: Sink>(request: Request, sink: S, is_compressed: bool) -> Outcome<S> {
    let body = request.into_body();
    if !is_compressed {
        return pump(body, sink).await;
    }
    let sink = pump(body, Decompressed::new(sink)).await?;
    blocking(move |_| sink.finish()).await
}

fn metadata(headers: &HeaderMap) -> Outcome<BTreeMap<String, Vec<u8>>> {
    let mut metadata = BTreeMap::new();
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(METADATA_HEADER) else {
            continue;
        };
        if key.is_empty()
            || metadata
                .insert(key.to_owned(), value.as_bytes().to_vec())
                .is_some()
        {
            return Err(Fail::invalid("a metadata header has no key or is repeated"));
        }
        if metadata.len() > MAX_METADATA {
            return Err(Fail::invalid(format!(
                "there are more than {MAX_METADATA} metadata headers"
            )));
        }
    }
    Ok(metadata)
}

/// Where files are put, and what is stored with them.
#[derive(Debug)]
struct Target {
    jail: Arc<Jail>,
    metadata: BTreeMap<String, Vec<u8>>,
}

impl Target {
    /// Opens a file to write from its start. It is written in place, so that whoever holds or watches it sees that.
    fn open(&self, path: &[u8]) -> Outcome<Open> {
        let failed = |errno| Fail::errno("write", path, errno);
        let place = self
            .jail
            .place(path, Access::Write, Last::Follow, Parents::Made)?;
        let (fd, is_new) = place.create_file().map_err(failed)?;
        if is_new {
            // Whatever the worker's umask.
            rustix::fs::fchmod(&fd, Mode::from_raw_mode(0o644)).map_err(failed)?;
        }
        let file = File::from(fd);
        self.describe(&file, is_new)
            .map_err(|errno| Fail::errno("store the metadata of", path, errno))?;
        Ok(Open {
            file,
            path: path.to_vec(),
        })
    }

    /// Replaces what was stored with the file.
    fn describe(&self, file: &File, is_new: bool) -> rustix::io::Result<()> {
        if !is_new {
            for attribute in attributes(file) {
                let key = attribute.to_bytes().strip_prefix(METADATA);
                let stays =
                    key.is_none_or(|key| self.metadata.keys().any(|kept| kept.as_bytes() == key));
                if !stays {
                    rustix::fs::fremovexattr(file, &attribute)?;
                }
            }
        }
        for (key, value) in &self.metadata {
            let name = [METADATA, key.as_bytes()].concat();
            rustix::fs::fsetxattr(file, name, value, XattrFlags::empty())?;
        }
        Ok(())
    }
}

/// The names of a file's attributes; none where the file system has none.
fn attributes(file: &File) -> Vec<CString> {
    let mut names = vec![0; 64 << 10];
    let length = rustix::fs::flistxattr(file, &mut names[..]).unwrap_or(0);
    names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .filter_map(|name| CString::new(name).ok())
        .collect()
}

/// A file being written.
#[derive(Debug)]
struct Open {
    file: File,
    path: Vec<u8>,
}

impl Sink for Open {
    fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.file
            .write_all(bytes)
            .map_err(|error| fail::io("write", &self.path, &error))
    }
}

/// The files of a form.
#[derive(Debug)]
struct Form {
    parser: Multipart,
    parts: Parts,
}

#[derive(Debug)]
struct Parts {
    target: Target,
    config: Arc<Config>,
    /// From the query; only one file may come then.
    override_path: Option<Vec<u8>>,
    /// The part being written; `None` for parts that are no file.
    file: Option<Open>,
    written: Vec<Vec<u8>>,
    seen: HashSet<Vec<u8>>,
}

impl Sink for Form {
    fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        let parts = &mut self.parts;
        self.parser.push(bytes, &mut |event| match event {
            Event::Part(head) if head.name.as_deref() == Some(b"file") => {
                parts.begin(head.filename.as_deref())
            }
            Event::Part(_) => Ok(()),
            Event::Data(data) => match &mut parts.file {
                Some(file) => file.write(data),
                None => Ok(()),
            },
            Event::End => {
                parts.file = None;
                Ok(())
            }
        })
    }
}

impl Parts {
    fn begin(&mut self, filename: Option<&[u8]>) -> Outcome<()> {
        let path = match &self.override_path {
            Some(_) if !self.written.is_empty() => {
                return Err(Fail::invalid(
                    "the query names one path and the form has several files",
                ));
            }
            Some(path) => path.clone(),
            None => {
                let name = filename.filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| Fail::invalid("a file of the form has no name"))?;
                absolute(&self.config, name)?
            }
        };
        if !self.seen.insert(path.clone()) {
            let message = format!("the form has '{}' more than once", fail::show(&path));
            return Err(Fail::new(Kind::InvalidArgument, message));
        }
        self.file = Some(self.target.open(&path)?);
        self.written.push(path);
        Ok(())
    }
}
