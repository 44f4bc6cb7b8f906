//! One request to a server and its response, both ways at once.

use std::pin::pin;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, WriteHalf};
use tokio::net::TcpStream;

use super::body::Body;
use super::client::{Client, ROOM};
use super::fields::Framing;
use super::pump::{Pump, Stop, Way};
use super::response::ResponseHead;
use super::scan::{Kind, Scan};
use super::server::Server;
use super::write::{self, Connection};
use crate::broker::Scrub;
use crate::place::Flow;
use crate::stream::Line;
use crate::{Reason, relay};

/// The most responses before the response.
const INTERIM_MAX: usize = 16;

/// A request as it goes to the outside.
pub(super) struct Outgoing {
    pub(super) method: Method,
    /// Path and query, or `*`.
    pub(super) target: String,
    /// What `Host` says.
    pub(super) host: String,
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    pub(super) websocket: bool,
    /// The client understands HTTP/1.1.
    pub(super) modern: bool,
    /// The client may send another request.
    pub(super) keep_alive: bool,
    pub(super) expects: bool,
    pub(super) scrub: Option<Scrub>,
}

/// How far an exchange got, for whoever must tell the client that it failed.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The server said something.
    pub(super) heard: bool,
    /// The client was given a part of the response.
    pub(super) answered: bool,
    /// All of the request was read from the client.
    pub(super) read: bool,
}

/// Why an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The client is gone.
    Client,
    /// The client's body is not framed as its head said.
    Request,
    /// The server is gone, or makes no sense.
    Server,
    /// It had to end.
    Over(Reason),
}

/// What can be used again after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) client: bool,
    pub(super) server: bool,
}

impl Outgoing {
    /// Whether it may be sent a second time when it is not known what became of the first.
    pub(super) fn repeatable(&self) -> bool {
        self.bodiless() && self.method.is_idempotent()
    }

    pub(super) const fn bodiless(&self) -> bool {
        matches!(self.framing, Framing::None | Framing::Length(0))
    }
}

/// Sends a request and brings back the response.
pub(super) async fn exchange<S: Line>(
    client: &mut Client<S>,
    server: &mut Server,
    request: &Outgoing,
    flow: &Flow,
    told: &mut Told,
) -> Result<Kept, Failure> {
    server.out.clear();
    write::request(
        &mut server.out,
        (&request.method, &request.target, &request.host),
        &request.headers,
        request.framing,
        request.websocket,
    );
    let chunked = request.framing == Framing::Chunked;
    let mut upload = Pump::new(flow, Way::Up, Body::new(request.framing), chunked);
    let whole = request.bodiless()
        || upload
            .gather(&mut client.buffer, &mut server.out)
            .map_err(of_upload)?;
    if whole {
        told.read = true;
        upload
            .flush(&mut server.io, &mut server.out)
            .await
            .map_err(of_upload)?;
        server.io.flush().await.map_err(|_| Failure::Server)?;
        let (io, buffer) = (&mut server.io, &mut server.buffer);
        let ended = respond(
            io,
            buffer,
            &mut client.io,
            &mut client.out,
            request,
            flow,
            told,
        )
        .await?;
        return match ended {
            Ended::Response(kept) => Ok(kept),
            Ended::Upgraded => upgraded(client, server, flow).await,
        };
    }
    if request.expects && client.buffer.is_empty() {
        client
            .out
            .extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        if !client.flush().await {
            return Err(Failure::Client);
        }
    }
    concurrently(client, server, request, &mut upload, told).await
}

/// Sends the rest of a body while the response may come already.
async fn concurrently<S: Line>(
    client: &mut Client<S>,
    server: &mut Server,
    request: &Outgoing,
    upload: &mut Pump<'_>,
    told: &mut Told,
) -> Result<Kept, Failure> {
    let flow = upload.flow;
    let (mut client_read, mut client_write) = tokio::io::split(&mut client.io);
    let (mut server_read, mut server_write) = tokio::io::split(&mut server.io);
    let (buffer, out) = (&mut server.buffer, &mut client.out);
    let mut sent = pin!(upload.run(
        &mut client_read,
        &mut client.buffer,
        &mut server_write,
        &mut server.out
    ));
    let mut answer = pin!(respond(
        &mut server_read,
        buffer,
        &mut client_write,
        out,
        request,
        flow,
        told
    ));
    let mut whole = false;
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut sent, if !whole => match ended {
                Ok(()) => whole = true,
                // It may have said why before it stopped to listen.
                Err(Stop::To) => break (&mut answer).await,
                Err(stop) => break Err(of_upload(stop)),
            },
            ended = &mut answer => break ended,
        }
    };
    match ended? {
        Ended::Response(kept) => Ok(Kept {
            client: kept.client && whole,
            server: kept.server && whole,
        }),
        // Refused with the head: a request with a body asks for no upgrade.
        Ended::Upgraded => Err(Failure::Server),
    }
}

/// How an exchange ended.
enum Ended {
    /// With the response.
    Response(Kept),
    /// In another protocol.
    Upgraded,
}

/// Reads the response and passes it on.
async fn respond(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    to: &mut impl Sink,
    out: &mut BytesMut,
    request: &Outgoing,
    flow: &Flow,
    told: &mut Told,
) -> Result<Ended, Failure> {
    let mut interim = 0;
    let mut head = loop {
        let bytes = response_head(from, buffer, to.socket(), told).await?;
        let head = ResponseHead::parse(&bytes, &request.method).map_err(|_| Failure::Server)?;
        if !head.status.is_informational() || head.status == StatusCode::SWITCHING_PROTOCOLS {
            break head;
        }
        interim += 1;
        if interim > INTERIM_MAX {
            return Err(Failure::Server);
        }
        // Whether the body is wanted was answered here.
        if head.status != StatusCode::CONTINUE && request.modern {
            interim_response(head, to, out, request, flow, told).await?;
        }
    };
    if let Some(scrub) = &request.scrub {
        scrub.headers(&mut head.headers);
    }
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        if !request.websocket || !head.websocket {
            return Err(Failure::Server);
        }
        write::response(out, &head, Framing::None, Connection::Upgrades);
        told.answered = true;
        return Ok(Ended::Upgraded);
    }
    let framing = match head.framing {
        Framing::Chunked | Framing::UntilClose if request.modern => Framing::Chunked,
        Framing::Chunked | Framing::UntilClose => Framing::UntilClose,
        framing => framing,
    };
    let connection = match (request.keep_alive, request.modern) {
        (false, _) => Connection::Closes,
        (true, true) => Connection::Stays,
        (true, false) if framing == Framing::UntilClose => Connection::Closes,
        (true, false) => Connection::StaysOld,
    };
    write::response(out, &head, framing, connection);
    told.answered = true;
    let mut pump = Pump::new(
        flow,
        Way::Down,
        Body::new(head.framing),
        framing == Framing::Chunked,
    );
    pump.scrub = request.scrub.as_ref().map(Scrub::body);
    if pump.gather(buffer, out).map_err(of_download)? {
        pump.flush(to, out).await.map_err(of_download)?;
        to.flush().await.map_err(|_| Failure::Client)?;
    } else {
        pump.run(from, buffer, to, out).await.map_err(of_download)?;
    }
    Ok(Ended::Response(Kept {
        client: connection != Connection::Closes,
        // What comes unasked behind a response is nobody's.
        server: head.keep_alive && buffer.is_empty(),
    }))
}

async fn interim_response(
    mut head: ResponseHead,
    to: &mut (impl AsyncWrite + Unpin),
    out: &mut BytesMut,
    request: &Outgoing,
    flow: &Flow,
    told: &mut Told,
) -> Result<(), Failure> {
    if let Some(scrub) = &request.scrub {
        scrub.headers(&mut head.headers);
    }
    write::response(out, &head, Framing::None, Connection::Stays);
    told.answered = true;
    let pump = Pump::new(flow, Way::Down, Body::new(Framing::None), false);
    pump.flush(to, out).await.map_err(of_download)?;
    to.flush().await.map_err(|_| Failure::Client)
}

/// Reads the head of a response. There is no deadline: a model may think for an hour. A client that breaks
/// off meanwhile ends the wait.
async fn response_head(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    client: Option<&TcpStream>,
    told: &mut Told,
) -> Result<Bytes, Failure> {
    let mut scan = Scan::new(Kind::Response);
    loop {
        if !buffer.is_empty() {
            told.heard = true;
            if let Some(end) = scan.end(buffer).map_err(|_| Failure::Server)? {
                let head = Bytes::copy_from_slice(&buffer[..end]);
                buffer.advance(end);
                return Ok(head);
            }
        }
        buffer.reserve(ROOM);
        let gone = async {
            match client {
                Some(socket) => relay::broken(socket).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            read = from.read_buf(buffer) => match read {
                Ok(read) if read > 0 => {}
                _ => return Err(Failure::Server),
            },
            () = gone => return Err(Failure::Client),
        }
    }
}

/// Carries what follows an upgrade, whatever it is.
async fn upgraded<S: Line>(
    client: &mut Client<S>,
    server: &mut Server,
    flow: &Flow,
) -> Result<Kept, Failure> {
    client.out.extend_from_slice(&server.buffer);
    server.buffer = BytesMut::new();
    let bytes = u64::try_from(client.out.len()).unwrap_or(u64::MAX);
    flow.down(bytes).map_err(Failure::Over)?;
    if !client.flush().await {
        return Err(Failure::Client);
    }
    client.out = BytesMut::new();
    server.out = BytesMut::new();
    let early = std::mem::take(&mut client.buffer);
    match relay::both(flow, &mut client.io, &mut server.io, early).await {
        None => Ok(Kept {
            client: false,
            server: false,
        }),
        Some(why) => Err(Failure::Over(why)),
    }
}

/// Where a response goes.
trait Sink: AsyncWrite + Unpin {
    /// The socket whose reset can be waited for; a half of a stream has none.
    fn socket(&self) -> Option<&TcpStream> {
        None
    }
}

impl<S: Line> Sink for S {
    fn socket(&self) -> Option<&TcpStream> {
        self.tcp()
    }
}

impl<S: Line> Sink for WriteHalf<&mut S> {}

const fn of_upload(stop: Stop) -> Failure {
    match stop {
        Stop::From => Failure::Client,
        Stop::Malformed => Failure::Request,
        Stop::To => Failure::Server,
        Stop::Over(why) => Failure::Over(why),
    }
}

const fn of_download(stop: Stop) -> Failure {
    match stop {
        Stop::From | Stop::Malformed => Failure::Server,
        Stop::To => Failure::Client,
        Stop::Over(why) => Failure::Over(why),
    }
}
