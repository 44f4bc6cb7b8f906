//! Signals that ask this program to stop. They end its work, and never end it half-way.

use std::future::{Future, pending};
use std::io;

use namzu_sandbox::Error;
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, local};

/// Ends this process by the signal that asked it to stop, now that all is taken down: a shell goes
/// on with its loop after a program that merely exits, whatever the code. Returns where the signal
/// is not one of those, or would not end this process.
pub(crate) fn end_by(signal: i32) {
    let asked = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    // SIGQUIT would leave a core of ours; a PID 1 gets no signal that it does not handle.
    if asked.iter().any(|kind| kind.as_raw_value() == signal) && std::process::id() != 1 {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}

/// The signals that ask to stop.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
    /// Its end asks to stop, too.
    line: Option<UnixStream>,
}

impl Signals {
    /// Takes them over. From here on none of them ends the program by itself, however often it
    /// comes: what was begun is always taken down in order.
    pub(crate) fn new() -> Result<Self, Failure> {
        let open = || -> io::Result<Self> {
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hangup: signal(SignalKind::hangup())?,
                quit: signal(SignalKind::quit())?,
                line: None,
            })
        };
        open().map_err(|err| local("listening for signals", err).into())
    }

    /// Takes the end of `line` for a request to stop, until [`Self::let_go`].
    pub(crate) fn hold(&mut self, line: UnixStream) {
        self.line = Some(line);
    }

    /// Gives the line back.
    pub(crate) fn let_go(&mut self) -> Option<UnixStream> {
        self.line.take()
    }

    /// The number of the next one.
    ///
    /// # Cancel safety
    ///
    /// Safe: none is lost.
    pub(crate) async fn next(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
            _ = self.quit.recv() => SignalKind::quit(),
            () = ended(self.line.as_ref()) => SignalKind::terminate(),
        };
        kind.as_raw_value()
    }

    /// Drives `work` until it is done or a signal comes; then `work` is dropped, which must clean
    /// up after itself.
    pub(crate) fn unless<T>(
        &mut self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Failure>> {
        // Most of the program's state is in here; what awaits it stays small.
        let mut work = Box::pin(work);
        async move {
            tokio::select! {
                // What is done is done: its outcome is reported even if a signal came meanwhile.
                biased;
                done = &mut work => match done {
                    Ok(done) => Ok(done),
                    Err(err) => Err(self.caused(err)),
                },
                signal = self.next() => Err(Failure::Interrupted(signal)),
            }
        }
    }

    /// A terminal's Ctrl-C goes to the backend's own processes too: what they then fail with is
    /// the signal's doing.
    fn caused(&mut self, err: Error) -> Failure {
        use std::task::{Context, Poll, Waker};
        let mut next = std::pin::pin!(self.next());
        match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(signal) => Failure::Interrupted(signal),
            Poll::Pending => err.into(),
        }
    }
}

/// Waits until nobody holds the other end of a line, on which nothing else is said.
async fn ended(line: Option<&UnixStream>) {
    let Some(line) = line else {
        return pending().await;
    };
    loop {
        let _ = line.readable().await;
        match line.try_read(&mut [0]) {
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
    }
}
