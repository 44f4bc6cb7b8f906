//! What a command is given: bytes on its standard input or terminal.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use namzu_core::{Error, ErrorCode, Phase, Result};
use namzu_protocol::connect::{ContentType, Envelope};
use namzu_protocol::process::{
    self as wire, CloseStdinRequest, CloseStdinResponse, ProcessInput, ProcessSelector,
    SendInputRequest, SendInputResponse, StreamInputData, StreamInputRequest, StreamInputStart,
    UpdateRequest, UpdateResponse, process_input, stream_input_request,
};
use namzu_protocol::{Bytes, Codec};
use namzu_types::PtySize;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;

use super::wire::size_of;
use crate::conn::Payload;
use crate::lane::Feed;
use crate::worker::{Worker, rpc};

/// Bytes of one message of input.
const PIECE: usize = 64 << 10;

/// Where input goes.
enum Sink {
    /// A pipe of ours.
    Pipe(Sender),
    /// The worker's.
    Stdin,
    /// The worker's terminal.
    Pty,
    /// The worker knows: we attached.
    Unknown,
    /// It has none, or no more.
    Closed,
}

/// The bytes of the request, on their way, or the end of input.
enum Feeding {
    Pipe(Feed),
    /// In a mutex that nobody locks: it makes the handle `Sync`, so that a future that holds a
    /// reference to it across an await is `Send`.
    Call(Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>),
}

impl Feeding {
    fn call(call: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::Call(Mutex::new(Box::pin(call)))
    }
}

pub(super) struct Input {
    sink: Sink,
    feeding: Option<Feeding>,
    /// It ends with the bytes of the request.
    ends: bool,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("ends", &self.ends)
            .finish_non_exhaustive()
    }
}

impl Input {
    /// Gives a new command `bytes`; with `ends`, nothing more.
    pub(super) fn new(
        worker: &Worker,
        pid: u32,
        pipe: Option<Sender>,
        pty: bool,
        bytes: Option<Vec<u8>>,
        ends: bool,
    ) -> Self {
        let sink = match pipe {
            Some(pipe) => Sink::Pipe(pipe),
            None if pty => Sink::Pty,
            None if bytes.is_some() => Sink::Stdin,
            None => Sink::Closed,
        };
        let mut input = Self {
            sink,
            feeding: None,
            ends,
        };
        let bytes = Bytes::from(bytes.unwrap_or_default());
        if !bytes.is_empty() {
            input.feeding = match input.sink {
                Sink::Pipe(_) => Some(Feeding::Pipe(Feed { bytes })),
                Sink::Stdin | Sink::Pty => Some(stream(worker, pid, pty, bytes)),
                Sink::Unknown | Sink::Closed => None,
            };
        } else if ends {
            input.end(worker, pid);
        }
        input
    }

    /// Takes it out. A terminal's input has any number of writers, so that one stays behind.
    pub(super) const fn take(&mut self) -> Self {
        let sink = match self.sink {
            Sink::Pty => Sink::Pty,
            Sink::Unknown => Sink::Unknown,
            Sink::Pipe(_) | Sink::Stdin | Sink::Closed => Sink::Closed,
        };
        let left = Self {
            sink,
            feeding: None,
            ends: false,
        };
        std::mem::replace(self, left)
    }

    /// The input of a command that somebody else started.
    pub(super) const fn unknown() -> Self {
        Self {
            sink: Sink::Unknown,
            feeding: None,
            ends: false,
        }
    }

    /// Whether it is known that the command has no terminal.
    pub(super) const fn has_no_terminal(&self) -> bool {
        !matches!(self.sink, Sink::Pty | Sink::Unknown)
    }

    /// What is left of the bytes of the request, for whoever goes on with them.
    pub(super) fn rest(
        &mut self,
        worker: &Worker,
        pid: u32,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let call = match self.feeding.take()? {
            Feeding::Call(call) => call.into_inner().unwrap_or_else(PoisonError::into_inner),
            // A pipe ends with its handle.
            Feeding::Pipe(_) => return None,
        };
        // Only the connection: holding the worker would keep it alive.
        let (conn, ends) = (worker.conn().clone(), self.ends);
        Some(async move {
            call.await;
            if ends {
                let call = rpc(wire::CLOSE_STDIN, ContentType::Unary(Codec::Proto));
                let request = CloseStdinRequest {
                    process: Some(ProcessSelector::pid(pid)),
                };
                let body = Payload::Full(Codec::Proto.encode(&request));
                // It may have ended by itself.
                let _ = conn.send(call, body).await;
            }
        })
    }

    /// Goes on with the bytes of the request. That the command does not want them is no failure:
    /// it may end without having read them.
    pub(super) fn poll_feed(
        &mut self,
        worker: &Worker,
        pid: u32,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        while let Some(feeding) = &mut self.feeding {
            let fed = match (feeding, &self.sink) {
                (Feeding::Pipe(feed), Sink::Pipe(pipe)) => feed.poll(pipe, cx).map(drop),
                (Feeding::Pipe(_), _) => Poll::Ready(()),
                (Feeding::Call(call), _) => call
                    .get_mut()
                    .unwrap_or_else(PoisonError::into_inner)
                    .as_mut()
                    .poll(cx),
            };
            if fed.is_pending() {
                return Poll::Pending;
            }
            self.feeding = None;
            if self.ends {
                self.end(worker, pid);
            }
        }
        Poll::Ready(())
    }

    /// Lets it end once the bytes of the request are written.
    pub(super) fn end_after_feed(&mut self, worker: &Worker, pid: u32) {
        self.ends = true;
        if self.feeding.is_none() {
            self.end(worker, pid);
        }
    }

    fn end(&mut self, worker: &Worker, pid: u32) {
        match std::mem::replace(&mut self.sink, Sink::Closed) {
            Sink::Pipe(_) | Sink::Closed => {}
            // The end of a terminal's input is the command's own business.
            pty @ Sink::Pty => self.sink = pty,
            Sink::Stdin | Sink::Unknown => {
                let worker = worker.clone();
                self.feeding = Some(Feeding::call(async move {
                    let _ = close(&worker, pid).await;
                }));
            }
        }
    }

    async fn fed(&mut self, worker: &Worker, pid: u32) {
        poll_fn(|cx| self.poll_feed(worker, pid, cx)).await;
    }

    pub(super) async fn write(&mut self, worker: &Worker, pid: u32, bytes: &[u8]) -> Result<()> {
        self.fed(worker, pid).await;
        match &mut self.sink {
            Sink::Pipe(pipe) => pipe.write_all(bytes).await.map_err(|err| {
                Error::new(
                    ErrorCode::InvalidArgument,
                    "the command does not read its standard input any more",
                )
                .with_source(err)
                .during(Phase::Exec)
            }),
            Sink::Closed => Err(Error::new(
                ErrorCode::InvalidArgument,
                "the command has no standard input, or it was closed",
            )
            .during(Phase::Exec)),
            Sink::Stdin => send(worker, pid, false, bytes).await,
            Sink::Pty => send(worker, pid, true, bytes).await,
            Sink::Unknown => {
                // Refused as a whole when it is the wrong one of the two.
                let refused = match send(worker, pid, false, bytes).await {
                    Ok(()) => {
                        self.sink = Sink::Stdin;
                        return Ok(());
                    }
                    Err(err) if wrong_sink(&err) => err,
                    Err(err) => return Err(err),
                };
                match send(worker, pid, true, bytes).await {
                    Ok(()) => {
                        self.sink = Sink::Pty;
                        Ok(())
                    }
                    Err(err) if wrong_sink(&err) => Err(refused),
                    Err(err) => Err(err),
                }
            }
        }
    }

    pub(super) async fn close(&mut self, worker: &Worker, pid: u32) -> Result<()> {
        if self.feeding.is_some() && matches!(self.sink, Sink::Pipe(_) | Sink::Stdin) {
            // Not waited for: the command may write before it has read everything, and whoever
            // calls this is the one who reads what it writes.
            self.ends = true;
            return Ok(());
        }
        self.fed(worker, pid).await;
        match self.sink {
            Sink::Closed => Ok(()),
            Sink::Pty => Err(Error::new(
                ErrorCode::InvalidArgument,
                "the input of a terminal has no end: send a control character",
            )
            .during(Phase::Exec)),
            Sink::Pipe(_) => {
                self.sink = Sink::Closed;
                Ok(())
            }
            Sink::Stdin | Sink::Unknown => {
                close(worker, pid).await?;
                self.sink = Sink::Closed;
                Ok(())
            }
        }
    }
}

/// The worker's answer when a command has a terminal instead of a pipe, or the other way round.
fn wrong_sink(err: &Error) -> bool {
    matches!(
        err.code(),
        ErrorCode::InvalidArgument | ErrorCode::BackendFailed
    )
}

fn input(pty: bool, bytes: Bytes) -> Option<ProcessInput> {
    let input = if pty {
        process_input::Input::Pty(bytes)
    } else {
        process_input::Input::Stdin(bytes)
    };
    Some(ProcessInput { input: Some(input) })
}

/// All of `bytes` in one call, piece by piece as the command reads them.
fn stream(worker: &Worker, pid: u32, pty: bool, mut bytes: Bytes) -> Feeding {
    use stream_input_request::Event;
    let conn = worker.conn().clone();
    Feeding::call(async move {
        let mut first = Some(Event::Start(StreamInputStart {
            process: Some(ProcessSelector::pid(pid)),
        }));
        let mut pieces = std::iter::from_fn(move || {
            let event = first.take().or_else(|| {
                let piece = bytes.split_to(bytes.len().min(PIECE));
                (!piece.is_empty()).then(|| {
                    Event::Data(StreamInputData {
                        input: input(pty, piece),
                    })
                })
            })?;
            let message = StreamInputRequest { event: Some(event) };
            // Far below the length that an envelope can carry.
            let envelope = Envelope::encode(Codec::Proto, &message).ok()?;
            Some(envelope.into_bytes())
        });
        let call = rpc(wire::STREAM_INPUT, ContentType::Stream(Codec::Proto));
        // Without a deadline: it lasts as long as the command reads. Its failure is the command's
        // not wanting it; a lost connection shows on the event stream.
        let _ = conn.send(call, Payload::Pieces(&mut pieces)).await;
    })
}

async fn send(worker: &Worker, pid: u32, pty: bool, bytes: &[u8]) -> Result<()> {
    for piece in bytes.chunks(PIECE) {
        let request = SendInputRequest {
            process: Some(ProcessSelector::pid(pid)),
            input: input(pty, Bytes::copy_from_slice(piece)),
        };
        let what = "write to the command";
        let _: SendInputResponse = worker
            .unary_patient(Phase::Exec, what, wire::SEND_INPUT, &request)
            .await?;
    }
    Ok(())
}

async fn close(worker: &Worker, pid: u32) -> Result<()> {
    let request = CloseStdinRequest {
        process: Some(ProcessSelector::pid(pid)),
    };
    let what = "end the command's standard input";
    let _: CloseStdinResponse = worker
        .unary(Phase::Exec, what, wire::CLOSE_STDIN, &request)
        .await?;
    Ok(())
}

/// Sets the size of a command's terminal.
pub(super) async fn resize(worker: &Worker, pid: u32, size: PtySize) -> Result<()> {
    let request = UpdateRequest {
        process: Some(ProcessSelector::pid(pid)),
        pty: Some(wire::Pty {
            size: Some(size_of(size)),
        }),
    };
    let what = "resize the terminal";
    let _: UpdateResponse = worker
        .unary(Phase::Exec, what, wire::UPDATE, &request)
        .await?;
    Ok(())
}
