//! From a sandbox to the host.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use namzu_sandbox::client::FileKind;
use namzu_sandbox::{Error, ErrorCode, Phase, Sandbox};
use rustix::fs::FileType;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::bridge::{Counted, PIECE, Source, pipe_in};
use super::sparse::Sparse;
use super::unpack::{Limits, unpack};
use super::{Options, Progress, target};
use crate::failure::{local, of_stream, remote};
use crate::host_path::{self, Fresh, Place};
use crate::parse::Location;
use crate::stdio::{Gone, Writer};

/// How a copy ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// All of it is there.
    Whole,
    /// Whoever read standard output went away before the end.
    Unread,
}

/// Copies `path` inside to `to`.
///
/// # Errors
///
/// Those of [`Files`](namzu_sandbox::client::Files) and of writing to the host; `path_refused` with
/// reasons when entries of a directory were refused, all others copied.
pub(crate) async fn run(
    sandbox: &Sandbox,
    path: &Path,
    to: &Location,
    options: Options,
) -> Result<Delivery, Error> {
    let Location::Host(host) = to else {
        return standard(sandbox, path, options).await;
    };
    let info = sandbox.files().stat(path).await?;
    let host = target::on_host(host, target::name(path), options)?;
    match info.kind {
        FileKind::Directory => directory(sandbox, path, &host, options).await?,
        FileKind::File => file(sandbox, path, host, info.mode, options).await?,
        _ => {
            return Err(Error::new(
                ErrorCode::InvalidArgument,
                "the source is neither file nor directory",
            )
            .during(Phase::Files));
        }
    }
    Ok(Delivery::Whole)
}

/// Copies the file `path` to standard output.
async fn standard(sandbox: &Sandbox, path: &Path, options: Options) -> Result<Delivery, Error> {
    let reader = sandbox.files().reader(path).await?;
    if reader.len().is_some_and(|len| len > options.max_size) {
        return Err(too_large(options.max_size));
    }
    let progress = Progress::new(options.progress, reader.len());
    let mut from = Counted::new(reader, progress);
    let mut out = Writer::stdout();
    let (mut copied, mut sent) = (0, Ok(()));
    let outcome = loop {
        let mut piece = Vec::with_capacity(PIECE);
        match from.read_buf(&mut piece).await {
            Ok(0) => break Ok(()),
            Ok(len) => copied += len as u64,
            Err(err) => break Err(remote("reading from the sandbox", err)),
        }
        // It may have grown.
        if copied > options.max_size {
            break Err(too_large(options.max_size));
        }
        sent = out.send(piece.into()).await;
        if sent.is_err() {
            break Ok(());
        }
    };
    match sent.and(out.finish().await) {
        Ok(()) => outcome.map(|()| Delivery::Whole),
        Err(Gone::Reader) => Ok(Delivery::Unread),
        Err(Gone::Failed(err)) => Err(of_stream("writing to standard output", err)),
    }
}

async fn file(
    sandbox: &Sandbox,
    path: &Path,
    host: Place,
    mode: u32,
    options: Options,
) -> Result<(), Error> {
    // Known to be unwritable before anything is read.
    let out = Out::open(host, mode & 0o777, options)?;
    let reader = sandbox.files().reader(path).await?;
    let progress = Progress::new(options.progress, reader.len());
    receive(Counted::new(reader, progress), move |source| {
        out.fill(source, options.max_size)
    })
    .await
}

async fn directory(
    sandbox: &Sandbox,
    path: &Path,
    host: &Place,
    options: Options,
) -> Result<(), Error> {
    let root = host.directory().map_err(target::hint)?;
    let reader = sandbox.files().tar_out(path).await?;
    let progress = Progress::new(options.progress, None);
    let limits = Limits {
        bytes: options.max_size,
    };
    let done = receive(Counted::new(reader, progress), move |source| {
        unpack(source, root.as_fd(), limits)
    })
    .await
    .map_err(|err| match err.code() {
        // The stream breaks off without a reason.
        ErrorCode::ProtocolViolation => err.with_hint(
            "the sandbox may have changed the directory meanwhile, or it holds a path of more \
             than 4096 bytes; what was copied so far stays",
        ),
        _ => err,
    })?;
    if done.refused == 0 {
        return Ok(());
    }
    let mut reasons = done.reasons;
    let unnamed = done.refused - reasons.len() as u64;
    if unnamed > 0 {
        reasons.push(format!("{unnamed} more"));
    }
    Err(Error::new(
        ErrorCode::PathRefused,
        format!("{} entries were left out, all others copied", done.refused),
    )
    .with_reasons(reasons)
    .during(Phase::Files))
}

/// Carries `from` to `work`, which blocks on a thread of its own.
async fn receive<T: Send + 'static>(
    from: impl AsyncRead + Unpin,
    work: impl FnOnce(Source) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (feed, source) = pipe_in();
    let work = tokio::task::spawn_blocking(move || work(source));
    feed.run(from).await;
    work.await
        .map_err(|err| local("copying", io::Error::other(err)))?
}

/// Copies everything, telling the two sides' failures apart.
fn copy(
    mut from: Source,
    max: u64,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), Error> {
    let mut copied = 0;
    loop {
        let piece = from
            .next()
            .map_err(|err| remote("reading from the sandbox", err))?;
        let Some(piece) = piece else {
            return Ok(());
        };
        copied += piece.len() as u64;
        if copied > max {
            return Err(too_large(max));
        }
        write(&piece).map_err(|err| local("writing the copy", err))?;
    }
}

fn too_large(max: u64) -> Error {
    Error::new(
        ErrorCode::InvalidArgument,
        format!("the file has more than {max} bytes"),
    )
    .with_hint("--max-size allows more")
    .during(Phase::Files)
}

/// The file a copy is written to.
enum Out {
    /// A new one that takes its place when it is whole.
    Fresh(Fresh, Place),
    /// A device or pipe.
    Special(File),
}

impl Out {
    fn open(place: Place, mode: u32, options: Options) -> Result<Self, Error> {
        let path = place.path();
        let mode = match place.stat()? {
            None => mode,
            // One that is replaced keeps its mode.
            Some((FileType::RegularFile, mode)) => mode,
            Some((FileType::Directory, _)) => {
                let err = io::ErrorKind::IsADirectory;
                return Err(local(format!("writing `{}`", path.display()), err));
            }
            Some(_) if options.follow || host_path::is_device(path) => {
                return place.write().map(Self::Special).map_err(target::hint);
            }
            Some(_) => {
                return Err(host_path::no_file(path)
                    .with_hint("--follow writes to it all the same; `-` is standard output"));
            }
        };
        Ok(Self::Fresh(place.fresh(mode)?, place))
    }

    fn fill(self, source: Source, max: u64) -> Result<(), Error> {
        match self {
            Self::Fresh(mut file, place) => {
                let mut sparse = Sparse::new(file.file());
                copy(source, max, |piece| sparse.write(piece))?;
                sparse
                    .finish()
                    .map_err(|err| local("writing the copy", err))?;
                place.settle(file)
            }
            Self::Special(mut file) => copy(source, max, |piece| file.write_all(piece)),
        }
    }
}
