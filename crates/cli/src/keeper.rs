//! The keeper: this program once more, in the background, for a sandbox that outlives the one that
//! was typed and whose network needs somebody who holds it.
//!
//! It makes the sandbox as was asked, says so as this program would, and then serves the boundary and
//! a [control socket](control) until the sandbox has ended. Killed, it leaves a sandbox with no way
//! out.

mod control;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use clap::Parser;
use namzu_sandbox::core::spawn::{Setup, command, prepare};
use namzu_sandbox::{Error, ErrorCode, Phase};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process::Child;

pub(crate) use self::control::{Answer, Change, Control, Question, ask, forget, serve};
use crate::args::{Cli, KeepArgs};
use crate::context::Context;
use crate::failure::{Failure, local};

/// How long it may take to take down what it had begun.
const END: Duration = Duration::from_secs(25);

/// Parses what was typed once more.
pub(crate) fn typed(args: KeepArgs) -> Option<Cli> {
    let words = std::iter::once(OsString::from("namzu-sandbox")).chain(args.argv);
    Cli::try_parse_from(words).ok()
}

/// Starts the keeper with all that was typed and waits until the sandbox is ready. Gives back its exit
/// code; whatever there is to say it has said.
pub(crate) async fn start(cx: &mut Context) -> Result<u8, Failure> {
    let failed = |err: io::Error| local("starting the keeper of the sandbox", err);
    let (ours, theirs) = StdStream::pair().map_err(failed)?;
    ours.set_nonblocking(true).map_err(failed)?;
    let mut line = UnixStream::from_std(ours).map_err(failed)?;
    let mut keeper = command("/proc/self/exe");
    keeper
        .arg0("namzu-sandbox")
        .args(["keep", "--"])
        .args(std::env::args_os().skip(1))
        .envs(std::env::vars_os())
        .stdin(OwnedFd::from(theirs))
        // Stopped, it takes down what it had begun.
        .kill_on_drop(false);
    // It is no part of the job that a terminal stops.
    prepare(
        &mut keeper,
        Setup {
            session: true,
            ..Setup::default()
        },
    );
    let mut child = keeper.spawn().map_err(failed)?;
    drop(keeper);
    let mut code = [0];
    let said = tokio::select! {
        biased;
        read = line.read_exact(&mut code) => read.map(drop),
        signal = cx.signals.next() => {
            drop(line);
            let _ = tokio::time::timeout(END, child.wait()).await;
            return Err(Failure::Interrupted(signal));
        }
    };
    match said {
        Ok(()) => Ok(code[0]),
        Err(_) => Err(gone(&mut child).await.into()),
    }
}

async fn gone(child: &mut Child) -> Error {
    let status = match tokio::time::timeout(END, child.wait()).await {
        Ok(Ok(status)) => status.to_string(),
        Ok(Err(err)) => err.to_string(),
        Err(_) => "it hangs".to_owned(),
    };
    Error::new(
        ErrorCode::Internal,
        format!("the keeper of the sandbox ended without a word ({status})"),
    )
    .during(Phase::Create)
}

/// Stops when whoever started this does: by its end of the line that is standard input.
pub(crate) fn hold(cx: &mut Context) -> Result<(), Failure> {
    let failed = |err: io::Error| local("listening to who was typed", err);
    let line = rustix::stdio::stdin()
        .try_clone_to_owned()
        .map_err(failed)?;
    let line = StdStream::from(line);
    line.set_nonblocking(true).map_err(failed)?;
    cx.signals.hold(UnixStream::from_std(line).map_err(failed)?);
    Ok(())
}

/// Lets whoever started this end, who need not wait for our streams to close.
pub(crate) fn ready(cx: &mut Context) -> Result<(), Failure> {
    let line = cx.signals.let_go();
    let failed = |err: io::Error| local("leaving the terminal", err);
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(failed)?;
    for replaced in [
        rustix::stdio::dup2_stdin(&null),
        rustix::stdio::dup2_stdout(&null),
        rustix::stdio::dup2_stderr(&null),
    ] {
        replaced.map_err(|errno| failed(errno.into()))?;
    }
    tell(line, 0);
    Ok(())
}

/// Has whoever started this end with the code of a failure that was said.
pub(crate) fn failed(cx: &mut Context, failure: &Failure) -> u8 {
    let code = failure.exit_code();
    tell(cx.signals.let_go(), code);
    code
}

fn tell(line: Option<UnixStream>, code: u8) {
    // One byte always has room. Where nobody listens any more, nobody needs it.
    if let Some(mut line) = line.and_then(|line| line.into_std().ok()) {
        let _ = line.write_all(&[code]);
    }
}
