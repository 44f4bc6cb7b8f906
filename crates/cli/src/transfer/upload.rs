//! From the host into a sandbox.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use namzu_sandbox::{Error, ErrorCode, Phase, Sandbox};

use super::bridge::{Counted, Sink, copy_out, pipe_out};
use super::{Options, Progress, pack, target};
use crate::failure::{local, of_stream};
use crate::host_path;
use crate::parse::Location;

/// Copies `from` to `path` inside, and says what was left out.
///
/// # Errors
///
/// Those of reading the host's files and of [`Files`](namzu_sandbox::client::Files).
pub(crate) async fn run(
    sandbox: &Sandbox,
    from: &Location,
    path: &Path,
    options: Options,
) -> Result<Vec<String>, Error> {
    let Location::Host(host) = from else {
        let stdin = File::from(
            rustix::io::dup(rustix::stdio::stdin())
                .map_err(|errno| of_stream("reading standard input", errno.into()))?,
        );
        return file(sandbox, stdin, path, None, options, |err| {
            of_stream("reading standard input", err)
        })
        .await;
    };
    let opened = open(host, options)?;
    let meta = opened
        .metadata()
        .map_err(|err| local(format!("reading `{}`", host.display()), err))?;
    let name = target::name(host);
    if meta.is_dir() {
        let path = target::inside(sandbox, path, name).await?;
        return directory(sandbox, opened, &path, options).await;
    }
    if !meta.is_file() && !options.follow {
        return Err(Error::new(
            ErrorCode::InvalidArgument,
            format!("`{}` is neither file nor directory", host.display()),
        )
        .with_hint("--follow reads it all the same; `-` reads standard input")
        .during(Phase::Files));
    }
    let path = target::inside(sandbox, path, name).await?;
    let size = meta.is_file().then_some(meta.len());
    file(sandbox, opened, &path, size, options, |err| {
        local("reading the source", err)
    })
    .await
}

fn open(typed: &Path, options: Options) -> Result<File, Error> {
    let file = target::place(typed, options)?
        .read()
        .map_err(target::hint)?;
    let failed = |err| local(format!("opening `{}`", typed.display()), err);
    if host_path::is_typed_as_directory(typed) && !file.metadata().map_err(failed)?.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    Ok(file)
}

async fn file(
    sandbox: &Sandbox,
    from: File,
    path: &Path,
    size: Option<u64>,
    options: Options,
    unread: impl FnOnce(io::Error) -> Error,
) -> Result<Vec<String>, Error> {
    let (sink, drain) = pipe_out();
    // Detached: it may wait for standard input for ever, and ends with the process.
    let copied = copy_out(from, sink).map_err(|err| local("starting a copy", err))?;
    let source = Counted::new(drain, Progress::new(options.progress, size));
    let written = sandbox.files().write_from(path, source).await;
    // Whoever ended first has the reason: a failed read makes the write fail too.
    if let Ok(Err(err)) = copied.await
        && err.kind() != io::ErrorKind::BrokenPipe
    {
        return Err(unread(err));
    }
    written.map(|_| Vec::new())
}

async fn directory(
    sandbox: &Sandbox,
    root: File,
    path: &Path,
    options: Options,
) -> Result<Vec<String>, Error> {
    match sandbox.files().make_dir(path).await {
        Err(err) if err.code() != ErrorCode::AlreadyExists => return Err(err),
        _ => {}
    }
    let (sink, drain) = pipe_out();
    let packed = tokio::task::spawn_blocking(move || pack_to(&root, sink));
    let source = Counted::new(drain, Progress::new(options.progress, None));
    let sent = sandbox.files().tar_in(path, source).await;
    let packed = packed
        .await
        .map_err(|err| local("packing", io::Error::other(err)))?;
    match (packed, sent) {
        (Ok(packed), Ok(_)) => Ok(packed
            .skipped
            .into_iter()
            .map(|name| format!("{name} is neither file, directory nor symlink: left out"))
            .collect()),
        // The packer fails with a broken pipe when the sandbox stopped reading; it has the reason.
        (Err(err), Err(_)) if !is_broken_pipe(&err) => Err(err),
        (Err(err), Ok(_)) => Err(err),
        (_, Err(err)) => Err(err),
    }
}

fn pack_to(root: &File, mut sink: Sink) -> Result<pack::Packed, Error> {
    let packed = pack::pack(root.as_fd(), &mut sink)?;
    sink.finish().map_err(|err| local("packing", err))?;
    Ok(packed)
}

fn is_broken_pipe(err: &Error) -> bool {
    std::error::Error::source(err)
        .and_then(|cause| cause.downcast_ref::<io::Error>())
        .is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
