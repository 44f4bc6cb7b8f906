//! One HTTP/2 request and its answer.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use ::h2::RecvStream;
use ::h2::client::{ResponseFuture, SendRequest};
use ::h2::server::SendResponse;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};

use super::body::{Pass, Stop, carry};
use super::fields;
use crate::broker::{Scrub, ScrubBody};
use crate::denial::Denial;
use crate::place::{Ask, Flow, Place, Via};
use crate::tls::deny;
use crate::{Host, Reason, Scheme};

/// What the connection was decided about: every request on it must be for the same.
pub(super) struct Origin {
    place: Arc<Place>,
    host: Host,
    port: u16,
    /// Where it leads, which not every rule for the host may open.
    peer: SocketAddr,
}

/// What is to become of the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It goes on.
    Stay,
    /// The outside takes no more requests on it.
    Leave,
}

impl Origin {
    pub(super) fn of(flow: &Flow, peer: SocketAddr) -> Self {
        Self {
            place: Arc::clone(&flow.place),
            host: flow.ask.host.clone(),
            port: flow.ask.port,
            peer,
        }
    }
}

/// Decides about a request and carries it.
pub(super) async fn serve(
    origin: Arc<Origin>,
    requests: SendRequest<Bytes>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> After {
    let admitted = match admit(&origin, &request).await {
        Ok(flow) => prepare(flow, request).await,
        Err(denial) => Err(denial),
    };
    let prepared = match admitted {
        Ok(prepared) => prepared,
        Err(denial) => {
            deny::stream(&denial, &mut respond);
            return After::Stay;
        }
    };
    let Prepared {
        flow,
        request,
        body,
        scrub,
    } = prepared;
    let exchange = Exchange { flow: &flow, scrub };
    let done = tokio::select! {
        biased;
        why = flow.cut() => Err(Fault::Denied(why)),
        done = exchange.run(requests, request, body, &mut respond) => done,
    };
    let (after, why) = match done {
        Ok(()) => (After::Stay, None),
        Err(fault) => fault.tell(&flow, &mut respond),
    };
    flow.end(why);
    after
}

async fn admit(origin: &Origin, request: &Request<RecvStream>) -> Result<Flow, Denial> {
    if let Err(reason) = fields::check(request, &origin.host, origin.port) {
        let raw = request.uri().to_string();
        return Err(origin.place.refuse(Via::Intercepted, raw, reason).await);
    }
    let method = request.method().as_str().into();
    let path = request.uri().path().into();
    let ask = Ask {
        via: Via::Intercepted,
        host: origin.host.clone(),
        port: origin.port,
        scheme: Some(Scheme::Https),
        request: Some((method, path)),
    };
    let flow = origin.place.admit(ask).await?;
    if flow.shares(origin.peer) {
        Ok(flow)
    } else {
        Err(flow.apart())
    }
}

/// A request that may go out, as it goes out.
struct Prepared {
    flow: Flow,
    request: Request<()>,
    body: RecvStream,
    scrub: Option<Scrub>,
}

/// Makes the head what the outside is to see.
async fn prepare(flow: Flow, request: Request<RecvStream>) -> Result<Prepared, Denial> {
    let (head, body) = request.into_parts();
    let mut headers = head.headers;
    fields::outgoing(&mut headers);
    let denied = |flow: Flow, reason| {
        let denial = flow.denial(reason);
        flow.end(Some(reason));
        denial
    };
    let credential = flow
        .verdict
        .rule
        .as_ref()
        .and_then(|rule| rule.credential.as_deref());
    let scrub = match flow.regime.broker.outgoing(credential, &mut headers).await {
        Ok(scrub) => scrub,
        Err(reason) => return Err(denied(flow, reason)),
    };
    let path = head.uri.path_and_query().cloned();
    let length = path.as_ref().map_or(0, |path| path.as_str().len());
    let sent = fields::size(&headers).saturating_add(length.try_into().unwrap_or(u64::MAX));
    if let Err(reason) = flow.up(sent) {
        return Err(denied(flow, reason));
    }
    let Some(target) = fields::target(&flow.ask.host, flow.ask.port, path) else {
        return Err(denied(flow, Reason::RequestMalformed));
    };
    let mut request = Request::new(());
    *request.method_mut() = head.method;
    *request.uri_mut() = target;
    *request.version_mut() = http::Version::HTTP_2;
    *request.headers_mut() = headers;
    Ok(Prepared {
        flow,
        request,
        body,
        scrub,
    })
}

struct Exchange<'a> {
    flow: &'a Flow,
    scrub: Option<Scrub>,
}

/// Why a request did not come to its end.
enum Fault {
    /// The outside took nothing of it: whoever asked may ask again on another connection.
    NotTaken,
    /// The outside broke off.
    Outside(::h2::Reason),
    /// The program inside broke off.
    Inside,
    /// It may not go on.
    Denied(Reason),
}

impl Exchange<'_> {
    /// Carries both ways; an answer may be complete before the request is.
    async fn run(
        &self,
        requests: SendRequest<Bytes>,
        request: Request<()>,
        mut body: RecvStream,
        respond: &mut SendResponse<Bytes>,
    ) -> Result<(), Fault> {
        let mut requests = requests.ready().await.map_err(|_| Fault::NotTaken)?;
        let bodyless = body.is_end_stream();
        let (answer, mut send) = requests
            .send_request(request, bodyless)
            .map_err(|_| Fault::NotTaken)?;
        // Held, it would keep the connection open.
        drop(requests);
        let up = async {
            if bodyless {
                return Ok(());
            }
            let mut pass = Upward { flow: self.flow };
            match carry(&mut body, &mut send, &mut pass).await {
                // The answer says what the outside thinks of it.
                Ok(()) | Err(Stop::To) => Ok(()),
                Err(Stop::From(why)) => {
                    let why = why.reason().unwrap_or(::h2::Reason::CANCEL);
                    send.send_reset(why);
                    Err(Fault::Inside)
                }
                Err(Stop::Denied(reason)) => {
                    send.send_reset(::h2::Reason::CANCEL);
                    Err(Fault::Denied(reason))
                }
            }
        };
        tokio::try_join!(up, self.answer(answer, respond))?;
        Ok(())
    }

    /// Carries the answer.
    async fn answer(
        &self,
        answer: ResponseFuture,
        respond: &mut SendResponse<Bytes>,
    ) -> Result<(), Fault> {
        let (mut head, mut body) = head(answer, respond).await?.into_parts();
        fields::incoming(&mut head.headers);
        if let Some(scrub) = &self.scrub {
            scrub.headers(&mut head.headers);
        }
        self.flow
            .down(fields::size(&head.headers))
            .map_err(Fault::Denied)?;
        let mut pass = Downward {
            flow: self.flow,
            body: self.scrub.as_ref().map(Scrub::body),
            scrub: self.scrub.as_ref(),
        };
        let mut response = Response::new(());
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        let bodyless = body.is_end_stream();
        let mut send = respond
            .send_response(response, bodyless)
            .map_err(|_| Fault::Inside)?;
        if bodyless {
            return Ok(());
        }
        carry(&mut body, &mut send, &mut pass)
            .await
            .map_err(|stop| match stop {
                Stop::From(why) => Fault::Outside(code(&why)),
                Stop::To => Fault::Inside,
                Stop::Denied(reason) => Fault::Denied(reason),
            })
    }
}

/// Waits for the head of the answer. Of what comes before it only that the body is wanted goes on: it
/// says nothing else.
async fn head(
    mut answer: ResponseFuture,
    respond: &mut SendResponse<Bytes>,
) -> Result<Response<RecvStream>, Fault> {
    let mut wanted = false;
    let mut last = false;
    poll_fn(|cx| {
        if respond.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Fault::Inside));
        }
        while !last {
            match answer.poll_informational(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(early))) => {
                    if early.status() == StatusCode::CONTINUE && !wanted {
                        wanted = true;
                        let mut proceed = Response::new(());
                        *proceed.status_mut() = StatusCode::CONTINUE;
                        // Whoever has gone away is noticed above.
                        let _ = respond.send_informational(proceed);
                    }
                }
                Poll::Ready(_) => last = true,
            }
        }
        Pin::new(&mut answer)
            .poll(cx)
            .map_err(|why| Fault::Outside(code(&why)))
    })
    .await
}

fn code(why: &::h2::Error) -> ::h2::Reason {
    why.reason().unwrap_or(::h2::Reason::CANCEL)
}

impl Fault {
    /// Tells the program inside, and says what it means for the connection and the books.
    fn tell(self, flow: &Flow, respond: &mut SendResponse<Bytes>) -> (After, Option<Reason>) {
        match self {
            Self::NotTaken => {
                respond.send_reset(::h2::Reason::REFUSED_STREAM);
                (After::Leave, Some(Reason::UpstreamBroken))
            }
            Self::Inside => (After::Stay, None),
            // It asks to be asked again, or over another protocol.
            Self::Outside(
                why @ (::h2::Reason::REFUSED_STREAM | ::h2::Reason::HTTP_1_1_REQUIRED),
            ) => {
                respond.send_reset(why);
                (After::Stay, Some(Reason::UpstreamBroken))
            }
            Self::Outside(why) => {
                refuse(flow, Reason::UpstreamBroken, why, respond);
                (After::Stay, Some(Reason::UpstreamBroken))
            }
            Self::Denied(reason) => {
                refuse(flow, reason, ::h2::Reason::CANCEL, respond);
                (After::Stay, Some(reason))
            }
        }
    }
}

/// Answers with a denial; where the answer has begun already, breaks it off with `code`.
fn refuse(flow: &Flow, reason: Reason, code: ::h2::Reason, respond: &mut SendResponse<Bytes>) {
    if !deny::stream(&flow.denial(reason), respond) {
        respond.send_reset(code);
    }
}

/// A request's body.
struct Upward<'a> {
    flow: &'a Flow,
}

impl Pass for Upward<'_> {
    fn count(&mut self, bytes: u64) -> Result<(), Reason> {
        self.flow.up(bytes)
    }

    fn piece(&mut self, piece: Bytes) -> Bytes {
        piece
    }

    fn rest(&mut self) -> Bytes {
        Bytes::new()
    }

    async fn trailers(&mut self, trailers: &mut HeaderMap) -> Result<(), Reason> {
        fields::trailers(trailers);
        // No secret goes into trailers, so no stand-in belongs there.
        self.flow.regime.broker.outgoing(None, trailers).await?;
        Ok(())
    }
}

/// An answer's body.
struct Downward<'a> {
    flow: &'a Flow,
    scrub: Option<&'a Scrub>,
    body: Option<ScrubBody>,
}

impl Pass for Downward<'_> {
    fn count(&mut self, bytes: u64) -> Result<(), Reason> {
        self.flow.down(bytes)
    }

    fn piece(&mut self, piece: Bytes) -> Bytes {
        let Some(scrub) = &mut self.body else {
            return piece;
        };
        let mut clean = Vec::with_capacity(piece.len());
        scrub.feed(&piece, &mut clean);
        clean.into()
    }

    fn rest(&mut self) -> Bytes {
        let mut rest = Vec::new();
        if let Some(scrub) = &mut self.body {
            scrub.finish(&mut rest);
        }
        rest.into()
    }

    async fn trailers(&mut self, trailers: &mut HeaderMap) -> Result<(), Reason> {
        fields::trailers(trailers);
        if let Some(scrub) = self.scrub {
            scrub.headers(trailers);
        }
        Ok(())
    }
}
