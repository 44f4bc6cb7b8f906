//! `namzu-worker doors`: makes listening sockets in the network of a sandbox, from outside.
//!
//! It runs on the host, beside the process that made the sandbox. It joins the sandbox's network
//! namespace, and for that the user namespace that owns it, and nothing else of the sandbox: no
//! process inside can see it, signal it or trace it, and it runs and reads nothing of theirs. It lives
//! for one request.
//!
//! Standard input is a `SOCK_SEQPACKET` socket to the host process, standard output the network
//! namespace. The wire is in [`message`].

mod door;
mod join;
mod message;
pub(crate) mod route;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use self::message::Request;

/// What could not be done.
#[derive(Debug)]
enum Failure {
    /// The host forbids to join.
    Join(String),
    /// Inside.
    Inside(String),
    /// There is nobody to tell.
    Line(io::Error),
}

/// Serves one request, or none when nobody asks.
///
/// # Errors
///
/// The line to the host process is broken. What fails inside is told over that line.
pub(crate) fn run() -> io::Result<()> {
    let stdin = io::stdin();
    let stdout = io::stdout();
    let line = stdin.as_fd();
    match serve(line, stdout.as_fd()) {
        Ok(()) => Ok(()),
        Err(Failure::Join(text)) => message::fail(line, message::REFUSED, &text),
        Err(Failure::Inside(text)) => message::fail(line, message::FAILED, &text),
        Err(Failure::Line(error)) => Err(error),
    }
}

fn serve(line: BorrowedFd<'_>, netns: BorrowedFd<'_>) -> Result<(), Failure> {
    // Before anybody asks: joining is what takes time, and it can be done while the sandbox is built.
    let joined = join::join(netns);
    // A failure is told after it was asked: with a question unread, the end of this process would
    // reach the host process before the answer.
    let Some(request) = Request::receive(line).map_err(Failure::Line)? else {
        return Ok(());
    };
    joined.map_err(Failure::Join)?;
    // Not before: whoever builds the sandbox sets up its loopback, and would find it done.
    route::set_up().map_err(|error| Failure::Inside(format!("cannot route inside: {error}")))?;
    // All or none.
    let doors = door::open_all(&request).map_err(Failure::Inside)?;
    for (kind, port, socket) in &doors {
        message::send(line, *kind, *port, socket.as_fd()).map_err(Failure::Line)?;
    }
    message::end(line).map_err(Failure::Line)
}
