//! From a request to whoever answers it.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use namzu_protocol::connect::{Code, ContentType};
use namzu_protocol::query::FilesQuery;
use namzu_protocol::{Codec, WireMessage, ext, filesystem, process as wire};

use crate::fake::files;
use crate::fake::machine::Machine;
use crate::fake::reply::{Body, Refusal, respond, stream};
use crate::fake::rpc;

/// Bytes of one request: this is for tests, not for storage.
const BODY_CAP: usize = 256 << 20;

pub(crate) async fn answer(machine: Arc<Machine>, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if path == wire::STREAM_INPUT {
        return match rpc::stream_input(&machine, body).await {
            Ok(frames) => stream("application/connect+proto", frames),
            Err(refusal) => refusal.unary(),
        };
    }
    let body = match Limited::new(body, BODY_CAP).collect().await {
        Ok(body) => body.to_bytes(),
        Err(err) => return Refusal::new(Code::InvalidArgument, err.to_string()).unary(),
    };
    match (&head.method, path) {
        (&Method::GET, ext::INFO) => info(&machine),
        (&Method::GET, "/health") => respond(204, "text/plain", Bytes::new()),
        (&Method::POST, ext::KILL) => match rpc::kill(&machine, &body) {
            Ok(answer) => respond(200, "application/json", ext::to_json(&answer)),
            Err(refusal) => refusal.unary(),
        },
        (&Method::POST, ext::PROBE) => match ext::from_json::<ext::ProbeRequest>(&body) {
            Ok(asked) => {
                let open = machine.is_open();
                let outcomes = machine.network().probe(&asked.tries, open).await;
                let answer = ext::ProbeResponse { outcomes };
                respond(200, "application/json", ext::to_json(&answer))
            }
            Err(err) => Refusal::new(Code::InvalidArgument, err.to_string()).unary(),
        },
        (method, "/files") => {
            let query = FilesQuery::parse(head.uri.query().unwrap_or_default());
            let Some(path) = query.ok().and_then(|query| query.path) else {
                return Refusal::new(Code::InvalidArgument, "no path").file();
            };
            match *method {
                Method::GET => files::get(&machine, &path, &head.headers),
                Method::POST => files::post(&machine, &path, body.to_vec()),
                _ => Refusal::new(Code::Unimplemented, "no such method").file(),
            }
        }
        (&Method::POST, path) => call(&machine, path, &head.headers, body),
        _ => Refusal::new(Code::Unimplemented, format!("nothing is at {path}")).unary(),
    }
}

fn info(machine: &Machine) -> Response<Body> {
    let info = ext::Info {
        version: "fake".to_owned(),
        pid: 1,
        pid1: true,
        uid: 1000,
        workspace: crate::fake::machine::WORKSPACE.to_owned(),
        features: vec![machine.id.to_string()],
    };
    respond(200, "application/json", ext::to_json(&info))
}

fn call(machine: &Arc<Machine>, path: &str, headers: &HeaderMap, body: Bytes) -> Response<Body> {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(ContentType::parse);
    let Some(kind) = kind else {
        return Refusal::new(Code::InvalidArgument, "no content type that is known").unary();
    };
    let codec = kind.codec();
    macro_rules! unary {
        ($answer:path) => {
            unary(machine, codec, kind, body, $answer)
        };
    }
    match path {
        wire::START => streamed(machine, kind, body, rpc::start),
        wire::CONNECT => streamed(machine, kind, body, rpc::connect),
        wire::LIST => unary!(rpc::list),
        wire::SEND_INPUT => unary!(rpc::send_input),
        wire::CLOSE_STDIN => unary!(rpc::close_stdin),
        wire::SEND_SIGNAL => unary!(rpc::send_signal),
        filesystem::STAT => unary!(rpc::stat),
        filesystem::LIST_DIR => unary!(rpc::list_dir),
        filesystem::MAKE_DIR => unary!(rpc::make_dir),
        filesystem::MOVE => unary!(rpc::rename),
        filesystem::REMOVE => unary!(rpc::remove),
        _ => Refusal::new(Code::Unimplemented, format!("nothing is at {path}")).unary(),
    }
}

fn unary<Q: WireMessage, A: WireMessage>(
    machine: &Arc<Machine>,
    codec: Codec,
    kind: ContentType,
    body: Bytes,
    answer: fn(&Arc<Machine>, Q) -> Result<A, Refusal>,
) -> Response<Body> {
    let result = codec
        .decode(body)
        .map_err(|err| Refusal::new(Code::InvalidArgument, err.to_string()))
        .and_then(|question| answer(machine, question));
    match result {
        Ok(message) => respond(200, kind.as_str(), codec.encode(&message)),
        Err(refusal) => refusal.unary(),
    }
}

fn streamed<Q: WireMessage>(
    machine: &Arc<Machine>,
    kind: ContentType,
    body: Bytes,
    answer: fn(&Arc<Machine>, Codec, Q) -> rpc::Frames,
) -> Response<Body> {
    let codec = kind.codec();
    match rpc::only_message(codec, body) {
        Ok(question) => stream(kind.as_str(), answer(machine, codec, question)),
        Err(refusal) => refusal.unary(),
    }
}
