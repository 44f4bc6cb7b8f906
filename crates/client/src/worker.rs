//! The client of one worker: its connection, its lane, its deadlines, and what it owes to kill.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderName, Method, StatusCode};
use namzu_core::{Channel, Error, ErrorCode, Phase, Result};
use namzu_protocol::connect::{self, ContentType, ErrorBody};
use namzu_protocol::ext;
use namzu_protocol::httperror::HttpError;
use namzu_protocol::{Bytes, Codec, JsonBody, WireMessage};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::conn::{Call, Conn, Failure, Payload, Response};
use crate::detail::with_details;
use crate::fault;
use crate::lane::Lane;

/// Bytes of one message, and of one answer that is not a file.
pub(crate) const MESSAGE_CAP: usize = 8 << 20;

/// Bytes of the body of a refusal.
const REFUSAL_CAP: usize = 64 << 10;

/// How often, and how long in all, the backend is asked why a sandbox ended: its line closes a
/// little before the host has reaped it.
const INQUEST: (u32, Duration) = (20, Duration::from_millis(10));

/// Asks how the sandbox ended.
pub(crate) type Obituary =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Option<Error>> + Send>> + Send + Sync>;

/// A worker, shared by everything that talks to it.
#[derive(Clone)]
pub(crate) struct Worker(Arc<Shared>);

struct Shared {
    conn: Conn,
    lane: Option<Lane>,
    /// Deadline of one call.
    request: Duration,
    /// How long a command may run that does not say.
    pub(crate) command: Option<Duration>,
    obituary: Obituary,
    runtime: Handle,
    /// What is still to be killed; ends with this.
    chores: Mutex<JoinSet<()>>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("conn", &self.0.conn)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// Connects and hears who answers.
    pub(crate) async fn connect(
        mut channel: Channel,
        connect: Duration,
        request: Duration,
        command: Option<Duration>,
        obituary: Obituary,
    ) -> Result<Self> {
        let lane = match &mut channel {
            Channel::Duplex(duplex) => duplex.lane.take().map(Lane::new),
            _ => None,
        };
        let late = || {
            Error::new(
                ErrorCode::ConnectTimeout,
                format!("the worker did not answer within {connect:?}"),
            )
        };
        let hello = async {
            let worker = Self(Arc::new(Shared {
                conn: Conn::open(channel).await?,
                lane: None,
                request: connect,
                command,
                obituary,
                runtime: Handle::current(),
                chores: Mutex::default(),
            }));
            let what = "greet the worker";
            let call = Call::new(Method::GET, ext::INFO);
            let response = worker
                .send(Phase::Connect, what, call, Payload::Empty)
                .await?;
            let info: ext::Info = worker.read_json(Phase::Connect, what, response).await?;
            Ok((worker, info))
        };
        let (Self(shared), info) = tokio::time::timeout(connect, hello)
            .await
            .map_err(|_| late())?
            .map_err(|err: Error| {
                if err.code() == ErrorCode::RequestTimeout {
                    late()
                } else {
                    err
                }
            })?;
        let mut shared = Arc::into_inner(shared)
            .ok_or_else(|| Error::new(ErrorCode::Internal, "the new connection is shared"))?;
        shared.request = request;
        // One that was started without its end of the lane would refuse every command.
        shared.lane = lane.filter(|_| info.features.iter().any(|name| name == ext::LANE_FEATURE));
        Ok(Self(Arc::new(shared)))
    }

    pub(crate) fn lane(&self) -> Option<&Lane> {
        self.0.lane.as_ref()
    }

    pub(crate) fn conn(&self) -> &Conn {
        &self.0.conn
    }

    /// Deadline of one call.
    pub(crate) fn request(&self) -> Duration {
        self.0.request
    }

    /// How long a command may run that does not say.
    pub(crate) fn command(&self) -> Option<Duration> {
        self.0.command
    }

    /// Ends the connection; what is under way fails with `sandbox_lost`.
    pub(crate) fn close(&self) {
        self.0.conn.close();
    }

    /// Runs `work` against the deadline of a call.
    pub(crate) async fn timed<T>(
        &self,
        phase: Phase,
        what: &str,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T> {
        match tokio::time::timeout(self.0.request, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(failure)) => Err(self.failed(phase, what, failure).await),
            Err(_) => Err(self.late(phase, what)),
        }
    }

    pub(crate) fn late(&self, phase: Phase, what: &str) -> Error {
        let limit = self.0.request;
        Error::new(
            ErrorCode::RequestTimeout,
            format!("{what}: no answer within {limit:?}"),
        )
        .during(phase)
    }

    /// An error for a failed connection; how the sandbox ended, where that is known.
    pub(crate) async fn failed(&self, phase: Phase, what: &str, failure: Failure) -> Error {
        if matches!(failure, Failure::Lost(_) | Failure::Connect(_)) {
            for attempt in 0..INQUEST.0 {
                if let Some(obituary) = (self.0.obituary)().await {
                    return obituary.during(phase);
                }
                if attempt + 1 < INQUEST.0 {
                    tokio::time::sleep(INQUEST.1).await;
                }
            }
        }
        fault::failed(what, failure).during(phase)
    }

    /// Sends a request whose answer's head must come within the deadline of a call.
    pub(crate) async fn send(
        &self,
        phase: Phase,
        what: &str,
        call: Call,
        payload: Payload<'_>,
    ) -> Result<Response> {
        self.timed(phase, what, self.0.conn.send(call, payload))
            .await
    }

    /// The body of a small answer.
    pub(crate) async fn collect(
        &self,
        phase: Phase,
        what: &str,
        response: Response,
        cap: usize,
    ) -> Result<Bytes> {
        self.timed(phase, what, response.body.collect(cap)).await
    }

    async fn read_json<A: JsonBody>(
        &self,
        phase: Phase,
        what: &str,
        response: Response,
    ) -> Result<A> {
        if response.status != StatusCode::OK {
            return Err(self.refusal_json(phase, what, response).await);
        }
        let body = self.collect(phase, what, response, MESSAGE_CAP).await?;
        ext::from_json(&body).map_err(|err| fault::violation(what, err).during(phase))
    }

    /// An error for an answer that is no success. Its code may be a word or a number.
    pub(crate) async fn refusal_json(&self, phase: Phase, what: &str, response: Response) -> Error {
        let status = response.status.as_u16();
        match self.collect(phase, what, response, REFUSAL_CAP).await {
            Err(err) => err,
            Ok(body) => match ext::from_json::<ErrorBody>(&body) {
                Ok(error) if error.code != connect::Code::Unknown => {
                    fault::refused(phase, what, error.code, &error.message)
                }
                _ => {
                    let error = HttpError::from_response(status, &body);
                    fault::refused_http(phase, what, status, &error.message)
                }
            },
        }
    }

    /// One call of ext/v1.
    pub(crate) async fn ext<Q: JsonBody, A: JsonBody>(
        &self,
        phase: Phase,
        what: &str,
        path: &str,
        request: &Q,
    ) -> Result<A> {
        let call = Call::new(Method::POST, path).header(CONTENT_TYPE, "application/json");
        let body = Payload::Full(ext::to_json(request).into());
        let response = self.send(phase, what, call, body).await?;
        self.read_json(phase, what, response).await
    }

    /// One unary RPC.
    pub(crate) async fn unary<Q: WireMessage, A: WireMessage>(
        &self,
        phase: Phase,
        what: &str,
        path: &str,
        request: &Q,
    ) -> Result<A> {
        self.unary_up_to(phase, what, path, request, MESSAGE_CAP)
            .await
    }

    /// As [`Self::unary`], with a cap of its own for the answer.
    pub(crate) async fn unary_up_to<Q: WireMessage, A: WireMessage>(
        &self,
        phase: Phase,
        what: &str,
        path: &str,
        request: &Q,
        cap: usize,
    ) -> Result<A> {
        let call = rpc(path, ContentType::Unary(Codec::Proto));
        let body = Payload::Full(Codec::Proto.encode(request));
        let response = self.send(phase, what, call, body).await?;
        self.read_unary(phase, what, response, cap).await
    }

    /// As [`Self::unary`], but the answer may take as long as it takes.
    pub(crate) async fn unary_patient<Q: WireMessage, A: WireMessage>(
        &self,
        phase: Phase,
        what: &str,
        path: &str,
        request: &Q,
    ) -> Result<A> {
        let call = rpc(path, ContentType::Unary(Codec::Proto));
        let body = Payload::Full(Codec::Proto.encode(request));
        match self.0.conn.send(call, body).await {
            Ok(response) => self.read_unary(phase, what, response, MESSAGE_CAP).await,
            Err(failure) => Err(self.failed(phase, what, failure).await),
        }
    }

    async fn read_unary<A: WireMessage>(
        &self,
        phase: Phase,
        what: &str,
        response: Response,
        cap: usize,
    ) -> Result<A> {
        if response.status != StatusCode::OK {
            return Err(self.refusal_rpc(phase, what, response).await);
        }
        self.expect_type(phase, what, &response, ContentType::Unary(Codec::Proto))?;
        let body = self.collect(phase, what, response, cap).await?;
        Codec::Proto
            .decode(body)
            .map_err(|err| fault::violation(what, err).during(phase))
    }

    /// An error for an RPC's answer that is no success.
    pub(crate) async fn refusal_rpc(&self, phase: Phase, what: &str, response: Response) -> Error {
        let status = response.status.as_u16();
        let headers = response.headers.clone();
        match self.collect(phase, what, response, REFUSAL_CAP).await {
            Err(err) => err,
            Ok(body) => {
                let error = ErrorBody::from_response(status, &body);
                let err = fault::refused(phase, what, error.code, &error.message);
                with_details(err, |name| headers.get(name)?.to_str().ok())
            }
        }
    }

    /// Refuses an answer of another kind than was asked for.
    pub(crate) fn expect_type(
        &self,
        phase: Phase,
        what: &str,
        response: &Response,
        expected: ContentType,
    ) -> Result<()> {
        let found = response
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .and_then(ContentType::parse);
        if found == Some(expected) {
            return Ok(());
        }
        let cause = format!("the answer is not of type {}", expected.as_str());
        Err(fault::violation(what, cause).during(phase))
    }

    /// Does something in the background. It has the deadline of a call, and ends with the worker.
    pub(crate) fn chore(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut chores = self.0.chores.lock().unwrap_or_else(PoisonError::into_inner);
        while chores.try_join_next().is_some() {}
        let limit = self.0.request;
        let work = async move {
            let _ = tokio::time::timeout(limit, work).await;
        };
        chores.spawn_on(work, &self.0.runtime);
    }

    /// Kills a command's tree in the background, when its handle is gone.
    pub(crate) fn kill_later(&self, pid: u32) {
        // Only the connection: a chore that held the worker would keep it alive.
        let conn = self.0.conn.clone();
        let request = ext::KillRequest {
            pid: Some(pid),
            tag: None,
            signal: 9,
            tree: true,
        };
        self.chore(async move {
            let call = Call::new(Method::POST, ext::KILL).header(CONTENT_TYPE, "application/json");
            let body = Payload::Full(ext::to_json(&request).into());
            // It may have ended on its own: nobody is left to hear of a failure.
            let _ = conn.send(call, body).await;
        });
    }
}

/// The head of a Connect call.
pub(crate) fn rpc(path: &str, kind: ContentType) -> Call {
    Call::new(Method::POST, path)
        .header(CONTENT_TYPE, kind.as_str())
        .header(
            HeaderName::from_static(connect::PROTOCOL_VERSION_HEADER),
            connect::PROTOCOL_VERSION,
        )
}
