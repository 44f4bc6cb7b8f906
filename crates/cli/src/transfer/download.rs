//! From a sandbox to the host.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use namzu_sandbox::client::FileKind;
use namzu_sandbox::{Error, ErrorCode, Phase, Sandbox};
use rustix::fs::{Mode, OFlags};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::bridge::{Counted, PIECE, Source, pipe_in};
use super::unpack::{Limits, unpack};
use super::{Options, Progress, target};
use crate::failure::{local, remote};
use crate::host_path;
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
        FileKind::File => file(sandbox, path, &host, info.mode, options).await?,
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
        Err(Gone::Failed(err)) => Err(local("writing to standard output", err)),
    }
}

async fn file(
    sandbox: &Sandbox,
    path: &Path,
    host: &Path,
    mode: u32,
    options: Options,
) -> Result<(), Error> {
    // Known to be unwritable before anything is read.
    let out = Out::open(host, mode & 0o777, options.follow)?;
    let reader = sandbox.files().reader(path).await?;
    let progress = Progress::new(options.progress, reader.len());
    receive(Counted::new(reader, progress), move |source| {
        out.write(|file| copy(source, file, options.max_size).map(drop))
    })
    .await
}

async fn directory(
    sandbox: &Sandbox,
    path: &Path,
    host: &Path,
    options: Options,
) -> Result<(), Error> {
    let failed = |err: io::Error| local(format!("making `{}`", host.display()), err);
    match fs::create_dir(host) {
        Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(failed(err)),
        _ => {}
    }
    // Not through a link that was put there since it was looked at.
    let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if !options.follow {
        flags |= OFlags::NOFOLLOW;
    }
    let root =
        rustix::fs::open(host, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    let reader = sandbox.files().tar_out(path).await?;
    let progress = Progress::new(options.progress, None);
    let limits = Limits {
        bytes: options.max_size,
    };
    let done = receive(Counted::new(reader, progress), move |source| {
        unpack(source, root.as_fd(), limits)
    })
    .await?;
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
fn copy(mut from: Source, to: &mut File, max: u64) -> Result<u64, Error> {
    let mut copied = 0;
    loop {
        let piece = from
            .next()
            .map_err(|err| remote("reading from the sandbox", err))?;
        let Some(piece) = piece else {
            return Ok(copied);
        };
        copied += piece.len() as u64;
        if copied > max {
            return Err(too_large(max));
        }
        to.write_all(&piece)
            .map_err(|err| local("writing the copy", err))?;
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
    /// A new one that takes its name when it is whole: what was cut never looks complete, and a
    /// symlink put there meanwhile is replaced, not followed.
    Fresh(tempfile::NamedTempFile, std::path::PathBuf),
    /// A device or pipe.
    Special(File),
}

impl Out {
    fn open(path: &Path, mode: u32, follow: bool) -> Result<Self, Error> {
        let failed = |err| local(format!("writing `{}`", path.display()), err);
        let mut path = path.to_owned();
        let mut mode = mode;
        let found = if follow {
            path.metadata()
        } else {
            path.symlink_metadata()
        };
        match found {
            Ok(meta) if meta.is_dir() => {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            Ok(meta) if meta.file_type().is_file() => {
                if follow {
                    // The link stays, what it leads to is replaced.
                    path = path.canonicalize().map_err(failed)?;
                }
                mode = meta.permissions().mode() & 0o777;
            }
            Ok(_) if follow || host_path::is_device(&path) => {
                return special(&path, follow).map(Self::Special).map_err(failed);
            }
            Ok(_) => {
                return Err(Error::new(
                    ErrorCode::PathRefused,
                    format!("`{}` is neither file nor directory", path.display()),
                )
                .with_hint("--follow writes to it all the same; `-` is standard output")
                .during(Phase::Files));
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(failed(err)),
        }
        let parent = match path.parent() {
            Some(parent) if parent != OsStr::new("") => parent,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new()
            .prefix(".namzu-")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(parent)
            .map_err(failed)?;
        Ok(Self::Fresh(file, path))
    }

    fn write(self, fill: impl FnOnce(&mut File) -> Result<(), Error>) -> Result<(), Error> {
        match self {
            Self::Fresh(mut file, path) => {
                fill(file.as_file_mut())?;
                file.persist(&path)
                    .map_err(|err| local(format!("writing `{}`", path.display()), err.error))?;
                Ok(())
            }
            Self::Special(mut file) => fill(&mut file),
        }
    }
}

/// Opens a device, or a pipe that somebody reads.
fn special(path: &Path, follow: bool) -> io::Result<File> {
    // A pipe that nobody reads would hold us up for ever, deaf to signals.
    let mut flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    if !follow {
        flags |= OFlags::NOFOLLOW;
    }
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::fcntl_setfl(&fd, OFlags::empty())?;
    Ok(fd.into())
}
