//! What a command prints and how it ends, from the event stream and the pipes together.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use namzu_core::{Error, ErrorCode, Phase, Result};
use namzu_protocol::process::data_event::Output as Printed;
use namzu_protocol::process::process_event::Event as WireEvent;
use namzu_protocol::process::{ConnectResponse, DataEvent, ProcessEvent, StartResponse};
use tokio::time::{Instant, Sleep, sleep_until};

use super::wire::{Carrier, End, end};
use super::{Cursor, Event, Stream};
use crate::lane::{Pipes, Side};
use crate::messages::{Broken, Messages};
use crate::worker::Worker;

/// How long pipes that somebody inherited are kept open after the command's end, and how long the
/// event stream may stay open.
const GRACE: Duration = Duration::from_millis(250);

/// Messages without an event that are passed over before others get their turn.
const AT_ONCE: usize = 64;

/// The event stream of a command we started, or attached to.
#[derive(Debug)]
pub(super) enum Events {
    Started(Messages<StartResponse>),
    Attached(Messages<ConnectResponse>),
}

impl From<Messages<StartResponse>> for Events {
    fn from(messages: Messages<StartResponse>) -> Self {
        Self::Started(messages)
    }
}

impl From<Messages<ConnectResponse>> for Events {
    fn from(messages: Messages<ConnectResponse>) -> Self {
        Self::Attached(messages)
    }
}

impl Events {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ProcessEvent>, Broken>> {
        fn event<M: Carrier>(message: Option<M>) -> Option<ProcessEvent> {
            // A message without an event says nothing, as a keep-alive does.
            message.map(|message| message.event().unwrap_or_default())
        }
        match self {
            Self::Started(messages) => messages.poll_next(cx).map_ok(event),
            Self::Attached(messages) => messages.poll_next(cx).map_ok(event),
        }
    }

    fn violation(&self, cause: &'static str) -> Broken {
        match self {
            Self::Started(messages) => messages.violation(cause),
            Self::Attached(messages) => messages.violation(cause),
        }
    }
}

#[derive(Debug)]
pub(super) struct Output {
    events: Events,
    /// The worker ended the event stream in good order.
    closed: bool,
    pipes: Option<Pipes>,
    on_lane: bool,
    cursor: Cursor,
    /// Comes after what was skipped before it.
    held: Option<Event>,
    end: Option<End>,
    /// When what is still open after the end is closed.
    close_at: Option<Instant>,
    /// Rings at that time, where it is waited for.
    grace: Option<Pin<Box<Sleep>>>,
    /// Everything was given out.
    done: bool,
}

impl Output {
    pub(super) fn new(events: impl Into<Events>, pipes: Option<Pipes>, cursor: Cursor) -> Self {
        Self {
            events: events.into(),
            closed: false,
            on_lane: pipes.is_some(),
            pipes,
            cursor,
            held: None,
            end: None,
            close_at: None,
            grace: None,
            done: false,
        }
    }

    pub(super) const fn cursor(&self) -> Cursor {
        self.cursor
    }

    pub(super) const fn on_lane(&self) -> bool {
        self.on_lane
    }

    pub(super) const fn ended(&self) -> Option<&End> {
        self.end.as_ref()
    }

    pub(super) async fn explain(&self, worker: &Worker, broken: Broken) -> Error {
        match &self.events {
            Events::Started(messages) => messages.explain(worker, broken).await,
            Events::Attached(messages) => messages.explain(worker, broken).await,
        }
    }

    /// The next event; `None` after the last.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Event>, Broken>> {
        for _ in 0..AT_ONCE {
            if let Some(event) = self.held.take() {
                return Poll::Ready(Ok(Some(self.count(event))));
            }
            if self.done {
                return Poll::Ready(Ok(None));
            }
            // Even from pipes that are kept full: by then nothing in them is the command's.
            if self.close_at.is_some_and(|at| at <= Instant::now())
                && self.pipes.as_ref().is_some_and(Pipes::drained)
            {
                self.pipes = None;
            }
            if let Some(pipes) = &mut self.pipes {
                match pipes.poll_next(cx) {
                    Poll::Ready(Ok(Some((side, bytes)))) => {
                        let event = match side {
                            Side::Stdout => Event::Stdout(bytes),
                            Side::Stderr => Event::Stderr(bytes),
                        };
                        return Poll::Ready(Ok(Some(self.count(event))));
                    }
                    Poll::Ready(Ok(None)) => self.pipes = None,
                    Poll::Ready(Err(err)) => {
                        self.done = true;
                        return Poll::Ready(Err(Broken::Error(
                            Error::new(ErrorCode::Internal, "read the command's output")
                                .with_source(err)
                                .during(Phase::Exec),
                        )));
                    }
                    Poll::Pending => {}
                }
            }
            if !self.closed {
                match self.poll_event(cx) {
                    Poll::Ready(Ok(None)) => continue,
                    Poll::Ready(Ok(Some(event))) => {
                        return Poll::Ready(Ok(Some(self.count(event))));
                    }
                    Poll::Ready(Err(broken)) => {
                        self.done = true;
                        return Poll::Ready(Err(broken));
                    }
                    Poll::Pending => {}
                }
            }
            let Some(end) = self.end else {
                return Poll::Pending;
            };
            if !(self.closed && self.pipes.is_none()) {
                let at = *self.close_at.get_or_insert_with(|| Instant::now() + GRACE);
                let grace = self.grace.get_or_insert_with(|| Box::pin(sleep_until(at)));
                ready!(grace.as_mut().poll(cx));
                // What the command itself wrote is read, however slow the reader is.
                if self.pipes.as_ref().is_some_and(|pipes| !pipes.drained()) {
                    return Poll::Pending;
                }
                self.pipes = None;
            }
            self.done = true;
            return Poll::Ready(Ok(Some(Event::End(end.ended))));
        }
        // A worker that sends nothing but keep-alives must not hold the thread.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes in one message of the event stream; `None` when it is nothing to give out.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Event>, Broken>> {
        let next = match ready!(self.events.poll_next(cx)) {
            // It has ended, and said all that matters: how the stream breaks is all the same.
            Err(Broken::Connection(_)) if self.end.is_some() => None,
            next => next?,
        };
        let Some(event) = next else {
            self.closed = true;
            return Poll::Ready(match self.end {
                Some(_) => Ok(None),
                None => Err(self.events.violation("the stream ends before the command")),
            });
        };
        Poll::Ready(match event.event {
            None | Some(WireEvent::Keepalive(_)) => Ok(None),
            Some(_) if self.end.is_some() => Err(self.events.violation("an event follows the end")),
            Some(WireEvent::Start(_)) => Err(self.events.violation("a command starts twice")),
            Some(WireEvent::Data(data)) => Ok(self.take_data(data)),
            Some(WireEvent::End(last)) => {
                self.end = Some(end(&last));
                self.close_at = Some(Instant::now() + GRACE);
                if let Some(pipes) = &mut self.pipes {
                    pipes.command_ended();
                }
                Ok(None)
            }
        })
    }

    fn take_data(&mut self, data: DataEvent) -> Option<Event> {
        let (stream, bytes) = match data.output? {
            Printed::Stdout(bytes) => (Stream::Stdout, bytes),
            Printed::Stderr(bytes) => (Stream::Stderr, bytes),
            Printed::Pty(bytes) => (Stream::Pty, bytes),
        };
        let event = (!bytes.is_empty()).then(|| match stream {
            Stream::Stdout => Event::Stdout(bytes),
            Stream::Stderr => Event::Stderr(bytes),
            Stream::Pty => Event::Pty(bytes),
        });
        if data.skipped == 0 {
            return event;
        }
        self.held = event;
        Some(Event::Skipped {
            stream,
            bytes: data.skipped,
        })
    }

    /// Moves the cursor over what is given out. The worker's own offsets are not trusted.
    fn count(&mut self, event: Event) -> Event {
        let (stream, bytes) = match &event {
            Event::Stdout(bytes) => (Stream::Stdout, bytes.len() as u64),
            Event::Stderr(bytes) => (Stream::Stderr, bytes.len() as u64),
            Event::Pty(bytes) => (Stream::Pty, bytes.len() as u64),
            Event::Skipped { stream, bytes } => (*stream, *bytes),
            Event::End(_) => return event,
        };
        let position = match stream {
            Stream::Stdout => &mut self.cursor.stdout,
            Stream::Stderr => &mut self.cursor.stderr,
            Stream::Pty => &mut self.cursor.pty,
        };
        *position = position.saturating_add(bytes);
        event
    }
}
