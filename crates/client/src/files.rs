//! Files inside a sandbox.

mod entry;
mod reader;
mod upload;
mod watch;

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use http::header::{CONTENT_TYPE, HeaderValue, RANGE};
use http::{Method, StatusCode};
use namzu_core::{Error, ErrorCode, Phase, Result};
use namzu_protocol::filesystem::{
    self as wire, EntryInfo, ListDirRequest, ListDirResponse, MakeDirRequest, MakeDirResponse,
    MoveRequest, MoveResponse, RemoveRequest, RemoveResponse, StatRequest, StatResponse,
};
use namzu_protocol::{WireMessage, ext, path_text, query};
use tokio::io::AsyncRead;

pub use self::entry::{FileInfo, FileKind, WatchEvent, WatchKind};
pub use self::reader::FileReader;
pub use self::watch::Watch;
use crate::conn::{Call, Payload, Response};
use crate::fault;
use crate::worker::Worker;

/// Path of the file endpoint of envd's wire.
const FILES: &str = "/files";

/// Bytes reserved for a file before any of them came, whatever length the worker announces.
const RESERVE: usize = 1 << 20;

/// Bytes of one listing: as many entries as the wire allows, of ordinary length.
const LIST_CAP: usize = 48 << 20;

/// Bytes of a path, as Linux and the worker have it.
const PATH_CAP: usize = 4_095;

/// Bytes up to which a file to write is sent in one piece.
const WHOLE: usize = 256 << 10;

/// File calls of one sandbox. Paths are absolute, or relative to the workspace.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    worker: &'a Worker,
    workspace: &'a str,
}

impl<'a> Files<'a> {
    pub(crate) const fn new(worker: &'a Worker, workspace: &'a str) -> Self {
        Self { worker, workspace }
    }

    /// Reads a whole file of at most `cap` bytes.
    ///
    /// # Errors
    ///
    /// `invalid_argument` when it is longer than `cap` or a directory, `not_found`,
    /// `path_refused`, `permission_denied`.
    pub async fn read(&self, path: impl AsRef<Path>, cap: usize) -> Result<Vec<u8>> {
        let what = "read the file";
        let response = self.get(what, FILES, path.as_ref(), None).await?;
        if reader::length(&response).is_some_and(|length| length > cap as u64) {
            return Err(too_long(cap));
        }
        self.gather(what, response, 0, cap, true).await
    }

    /// Reads the bytes `range` of a file; fewer where it ends earlier.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub async fn read_range(&self, path: impl AsRef<Path>, range: Range<u64>) -> Result<Vec<u8>> {
        let what = "read the file";
        let Range { start, end } = range;
        let length =
            usize::try_from(end.saturating_sub(start)).map_err(|_| too_long(usize::MAX))?;
        if length == 0 {
            // HTTP has no empty range; that the file is there must show all the same.
            return self.stat(path).await.map(|_| Vec::new());
        }
        let range = format!("bytes={start}-{}", end - 1);
        let response = self.get(what, FILES, path.as_ref(), Some(&range)).await;
        let response = match response {
            Ok(response) => response,
            Err(Refused::PastEnd) => return Ok(Vec::new()),
            Err(Refused::Error(err)) => return Err(err),
        };
        // A worker that does not do ranges sends the whole.
        let skip = if response.status == StatusCode::PARTIAL_CONTENT {
            0
        } else {
            start
        };
        self.gather(what, response, skip, length, false).await
    }

    /// Opens a file for reading piece by piece.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub async fn reader(&self, path: impl AsRef<Path>) -> Result<FileReader> {
        let response = self
            .get("read the file", FILES, path.as_ref(), None)
            .await?;
        Ok(FileReader::new(self.worker, "read the file", response))
    }

    /// Writes a file, made with its parents if absent, cut to the new content otherwise.
    ///
    /// # Errors
    ///
    /// `disk_full`, `path_refused`, `permission_denied`, `invalid_argument` for a directory.
    pub async fn write(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<()> {
        let mut bytes = bytes.as_ref();
        if bytes.len() > WHOLE {
            return self.write_from(path, &mut bytes).await.map(drop);
        }
        let what = "write the file";
        let call = self.post(FILES, path.as_ref(), "application/octet-stream")?;
        let body = Payload::Full(bytes.to_vec().into());
        let response = self.worker.send(Phase::Files, what, call, body).await?;
        self.accepted(what, response).await
    }

    /// Writes a file from a stream and gives back how many bytes it was.
    ///
    /// # Errors
    ///
    /// As [`Self::write`]; `internal` with the cause when `source` fails.
    ///
    /// # Cancel safety
    ///
    /// A part may have been written.
    pub async fn write_from(
        &self,
        path: impl AsRef<Path>,
        source: impl AsyncRead + Send + Unpin,
    ) -> Result<u64> {
        let what = "write the file";
        let call = self.post(FILES, path.as_ref(), "application/octet-stream")?;
        let (response, sent) = upload::upload(self.worker, what, call, source).await?;
        self.accepted(what, response).await?;
        Ok(sent)
    }

    /// Describes one entry.
    ///
    /// # Errors
    ///
    /// `not_found`, `path_refused`.
    pub async fn stat(&self, path: impl AsRef<Path>) -> Result<FileInfo> {
        let request = StatRequest {
            path: self.text(path.as_ref())?,
        };
        let answer: StatResponse = self.rpc("look at the file", wire::STAT, &request).await?;
        entry_of("look at the file", answer.entry)
    }

    /// Lists a directory, `depth` levels deep (1: its own entries).
    ///
    /// # Errors
    ///
    /// `not_found`, `invalid_argument` for a file, `path_refused`.
    pub async fn list(&self, path: impl AsRef<Path>, depth: u32) -> Result<Vec<FileInfo>> {
        let request = ListDirRequest {
            path: self.text(path.as_ref())?,
            depth: depth.max(1),
        };
        let what = "list the directory";
        let answer: ListDirResponse = self
            .worker
            .unary_up_to(Phase::Files, what, wire::LIST_DIR, &request, LIST_CAP)
            .await?;
        answer
            .entries
            .into_iter()
            .map(|entry| entry_of(what, Some(entry)))
            .collect()
    }

    /// Makes a directory with its parents.
    ///
    /// # Errors
    ///
    /// `already_exists`, `path_refused`.
    pub async fn make_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let request = MakeDirRequest {
            path: self.text(path.as_ref())?,
        };
        let _: MakeDirResponse = self
            .rpc("make the directory", wire::MAKE_DIR, &request)
            .await?;
        Ok(())
    }

    /// Moves an entry; parents of the new place are made.
    ///
    /// # Errors
    ///
    /// `not_found`, `path_refused`.
    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let request = MoveRequest {
            source: self.text(from.as_ref())?,
            destination: self.text(to.as_ref())?,
        };
        let _: MoveResponse = self.rpc("move the file", wire::MOVE, &request).await?;
        Ok(())
    }

    /// Removes an entry with everything below it. Idempotent.
    ///
    /// # Errors
    ///
    /// `path_refused`, `permission_denied`.
    pub async fn remove(&self, path: impl AsRef<Path>) -> Result<()> {
        let request = RemoveRequest {
            path: self.text(path.as_ref())?,
        };
        let _: RemoveResponse = self.rpc("remove the file", wire::REMOVE, &request).await?;
        Ok(())
    }

    /// Watches a directory; returns once changes are seen.
    ///
    /// # Errors
    ///
    /// `not_found`, `invalid_argument` for a file.
    pub async fn watch(&self, path: impl AsRef<Path>, recursive: bool) -> Result<Watch> {
        let path = self.text(path.as_ref())?;
        Watch::open(self.worker, path, recursive).await
    }

    /// A file or directory as a tar stream.
    ///
    /// # Errors
    ///
    /// `not_found`, `path_refused`.
    pub async fn tar_out(&self, path: impl AsRef<Path>) -> Result<FileReader> {
        let what = "read the tar stream";
        let response = self.get(what, ext::TAR, path.as_ref(), None).await?;
        Ok(FileReader::new(self.worker, what, response))
    }

    /// Unpacks a tar stream below a directory and gives back how many bytes the stream was.
    ///
    /// # Errors
    ///
    /// `invalid_argument` for a broken stream, `path_refused` for an entry that leaves `path`,
    /// `disk_full`.
    pub async fn tar_in(
        &self,
        path: impl AsRef<Path>,
        source: impl AsyncRead + Send + Unpin,
    ) -> Result<u64> {
        let what = "unpack the tar stream";
        let call = self.post(ext::TAR, path.as_ref(), "application/x-tar")?;
        let (response, sent) = upload::upload(self.worker, what, call, source).await?;
        self.accepted(what, response).await?;
        Ok(sent)
    }

    /// The path as the wire carries it: absolute, and text.
    fn text(&self, path: &Path) -> Result<String> {
        let absolute = Path::new(self.workspace).join(path);
        let bytes = absolute.as_os_str().as_bytes();
        if bytes.contains(&0) {
            return Err(Error::new(
                ErrorCode::InvalidArgument,
                format!("the path {} holds a NUL byte", path.display()),
            )
            .during(Phase::Files));
        }
        if bytes.len() > PATH_CAP {
            let text = format!("a path is longer than {PATH_CAP} bytes");
            return Err(Error::new(ErrorCode::InvalidArgument, text).during(Phase::Files));
        }
        Ok(path_text::encode(bytes))
    }

    fn post(&self, endpoint: &str, path: &Path, kind: &'static str) -> Result<Call> {
        let path = self.text(path)?;
        let query = query::build(&[("path", &path)]);
        Ok(Call::new(Method::POST, format!("{endpoint}?{query}")).header(CONTENT_TYPE, kind))
    }

    async fn get(
        &self,
        what: &'static str,
        endpoint: &str,
        path: &Path,
        range: Option<&str>,
    ) -> Result<Response, Refused> {
        let path = self.text(path)?;
        let query = query::build(&[("path", &path)]);
        let mut call = Call::new(Method::GET, format!("{endpoint}?{query}"));
        if let Some(range) = range.map(HeaderValue::from_str).transpose().ok().flatten() {
            call.headers.insert(RANGE, range);
        }
        let response = self
            .worker
            .send(Phase::Files, what, call, Payload::Empty)
            .await?;
        match response.status {
            StatusCode::OK => Ok(response),
            StatusCode::PARTIAL_CONTENT if range.is_some() => Ok(response),
            StatusCode::RANGE_NOT_SATISFIABLE if range.is_some() => Err(Refused::PastEnd),
            _ => Err(self
                .worker
                .refusal_json(Phase::Files, what, response)
                .await
                .into()),
        }
    }

    async fn accepted(&self, what: &str, response: Response) -> Result<()> {
        if response.status.is_success() {
            return Ok(());
        }
        Err(self.worker.refusal_json(Phase::Files, what, response).await)
    }

    async fn rpc<Q: WireMessage, A: WireMessage>(
        &self,
        what: &str,
        path: &str,
        request: &Q,
    ) -> Result<A> {
        self.worker.unary(Phase::Files, what, path, request).await
    }

    /// `length` bytes of a body after the first `skip`. More of them is an error when `all` was
    /// asked for.
    async fn gather(
        &self,
        what: &str,
        response: Response,
        mut skip: u64,
        length: usize,
        all: bool,
    ) -> Result<Vec<u8>> {
        let announced = reader::length(&response).unwrap_or(0);
        let mut body = response.body;
        let mut bytes = Vec::with_capacity(
            length
                .min(RESERVE)
                .min(usize::try_from(announced).unwrap_or(0)),
        );
        while bytes.len() < length || all {
            // Each piece has the deadline of a call: a large file may take longer as a whole.
            let piece = async { body.chunk().await.transpose() };
            let Some(mut chunk) = self.worker.timed(Phase::Files, what, piece).await? else {
                break;
            };
            let skipped = skip.min(chunk.len() as u64);
            skip -= skipped;
            // At most the chunk's length.
            let chunk = chunk.split_off(usize::try_from(skipped).unwrap_or(0));
            let room = length - bytes.len();
            if chunk.len() > room && all {
                return Err(too_long(length));
            }
            bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
        Ok(bytes)
    }
}

/// Why there is no body.
enum Refused {
    /// The range begins where the file ends, or later.
    PastEnd,
    Error(Error),
}

impl From<Error> for Refused {
    fn from(err: Error) -> Self {
        Self::Error(err)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::PastEnd => Self::new(
                ErrorCode::InvalidArgument,
                "the range begins after the end of the file",
            ),
            Refused::Error(err) => err,
        }
    }
}

fn entry_of(what: &str, entry: Option<EntryInfo>) -> Result<FileInfo> {
    let broken = |cause: &'static str| fault::violation(what, cause).during(Phase::Files);
    let entry = entry.ok_or_else(|| broken("the answer holds no entry"))?;
    FileInfo::from_wire(entry).map_err(|_| broken("an entry's path is malformed"))
}

fn too_long(cap: usize) -> Error {
    Error::new(
        ErrorCode::InvalidArgument,
        format!("read the file: it is longer than the {cap} bytes allowed"),
    )
    .with_hint("raise the cap, or read it piece by piece")
    .during(Phase::Files)
}
