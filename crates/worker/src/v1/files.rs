//! Files of the v1 wires: whole ones, in JSON.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use namzu_protocol::v1::{
    ReadFileRequest, ReadFileResponse, Refusal, WriteFileRequest, WriteFileResponse,
};
use rustix::fs::Mode;

use super::execute::in_workspace;
use crate::files::{Access, Fail, Kind, Last, Outcome, Parents, blocking};
use crate::worker::Worker;

/// The largest file that is read into one answer.
const MAX_READ: u64 = 64 << 20;

/// Reads a file below the roots.
pub(super) async fn read(
    worker: Arc<Worker>,
    request: ReadFileRequest,
) -> Result<ReadFileResponse, Refusal> {
    let bytes = blocking(move |_| {
        let path = named(&worker, request.path.as_bytes())?;
        let place = worker.files.confined()?.existing(&path, Access::Read)?;
        let (fd, _) = place
            .open_file()
            .map_err(|errno| Fail::errno("read", &path, errno))?;
        let mut bytes = Vec::new();
        let read = File::from(fd).take(MAX_READ + 1).read_to_end(&mut bytes);
        read.map_err(|error| Fail::new(Kind::Internal, format!("read the file: {error}")))?;
        if bytes.len() as u64 > MAX_READ {
            return Err(Fail::new(
                Kind::TooMuch,
                format!("the file is larger than {MAX_READ} bytes"),
            ));
        }
        Ok(bytes)
    })
    .await
    .map_err(refuse)?;
    let encoding = request.encoding.unwrap_or_default();
    Ok(ReadFileResponse {
        ok: true,
        content: encoding.encode(&bytes),
        size_bytes: bytes.len() as u64,
        encoding,
    })
}

/// Writes a file below the writable roots, making its parents.
pub(super) async fn write(
    worker: Arc<Worker>,
    request: WriteFileRequest,
) -> Result<WriteFileResponse, Refusal> {
    let WriteFileRequest {
        path,
        content,
        encoding,
    } = request;
    let bytes = encoding.unwrap_or_default().decode(content);
    let bytes = bytes.map_err(|error| Refusal::file(error.to_string()))?;
    let bytes_written = bytes.len() as u64;
    blocking(move |_| {
        let path = named(&worker, path.as_bytes())?;
        let failed = |errno| Fail::errno("write", &path, errno);
        let place =
            worker
                .files
                .confined()?
                .place(&path, Access::Write, Last::Follow, Parents::Made)?;
        let (fd, is_new) = place.create_file().map_err(failed)?;
        if is_new {
            rustix::fs::fchmod(&fd, Mode::from_raw_mode(0o644)).map_err(failed)?;
        }
        let written = File::from(fd).write_all(&bytes);
        written.map_err(|error| crate::files::io_fail("write", &path, &error))
    })
    .await
    .map_err(refuse)?;
    Ok(WriteFileResponse {
        ok: true,
        bytes_written,
    })
}

fn refuse(fail: Fail) -> Refusal {
    Refusal::file(fail.message)
}

/// The absolute path that is meant.
fn named(worker: &Worker, path: &[u8]) -> Outcome<Vec<u8>> {
    if path.is_empty() {
        return Err(Fail::invalid("the request names no path"));
    }
    in_workspace(&worker.config.workspace, path)
}
