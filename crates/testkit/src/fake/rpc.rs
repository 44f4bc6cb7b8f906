//! The calls of the envd wire that need no kernel.
#![expect(
    clippy::needless_pass_by_value,
    reason = "every call takes its decoded request, and some keep parts of it"
)]

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use namzu_protocol::connect::{Code, EndStream, Envelope, EnvelopeDecoder, Frame};
use namzu_protocol::filesystem as fs;
use namzu_protocol::process as wire;
use namzu_protocol::process::process_selector::Selector;
use namzu_protocol::{Codec, WireMessage, ext};

use crate::fake::Fault;
use crate::fake::files::place;
use crate::fake::machine::Machine;
use crate::fake::process::{Process, Subscription};
use crate::fake::reply::{Refusal, frame};
use crate::fake::shell;
use crate::fake::tree::Node;

/// Envelopes of a stream, one a piece.
pub(crate) type Frames = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

const MESSAGE_CAP: usize = 16 << 20;

fn invalid(why: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidArgument, why)
}

/// The message of a request that has one.
pub(crate) fn only_message<Q: WireMessage>(codec: Codec, mut body: Bytes) -> Result<Q, Refusal> {
    match EnvelopeDecoder::new(MESSAGE_CAP).decode(&mut body) {
        Ok(Some(Frame::Message(bytes))) => {
            codec.decode(bytes).map_err(|err| invalid(err.to_string()))
        }
        Ok(_) => Err(invalid("no message")),
        Err(err) => Err(invalid(err.to_string())),
    }
}

fn find(
    machine: &Machine,
    selector: Option<wire::ProcessSelector>,
) -> Result<Arc<Process>, Refusal> {
    let processes = machine.processes();
    let found = match selector.and_then(|selector| selector.selector) {
        Some(Selector::Pid(pid)) => processes.get(&pid),
        Some(Selector::Tag(tag)) => processes
            .values()
            .rev()
            .find(|process| process.tag.as_deref() == Some(&tag)),
        None => return Err(invalid("no selector")),
    };
    found
        .cloned()
        .ok_or_else(|| Refusal::new(Code::NotFound, "no such process"))
}

fn refused(refusal: Refusal) -> Frames {
    Box::pin(stream::iter([refusal.last()]))
}

fn events(codec: Codec, subscription: Subscription) -> Frames {
    Box::pin(stream::unfold(
        (codec, subscription),
        |(codec, mut subscription)| async move {
            let event = subscription.next().await?;
            // Start and Connect answer in the same shape.
            let message = wire::StartResponse { event: Some(event) };
            let mut bytes = frame(Envelope::encode(codec, &message)).to_vec();
            if subscription.is_over() {
                bytes.extend(frame(Envelope::end(&EndStream::success())));
            }
            Some((Bytes::from(bytes), (codec, subscription)))
        },
    ))
}

pub(crate) fn start(machine: &Arc<Machine>, codec: Codec, request: wire::StartRequest) -> Frames {
    if request.pty.is_some() {
        return refused(Refusal::new(Code::Unimplemented, "no terminals in memory"));
    }
    match shell::start(machine, request) {
        Ok((process, dies_with_it)) => {
            events(codec, Subscription::new(&process, [0, 0], dies_with_it))
        }
        Err(refusal) => refused(refusal),
    }
}

pub(crate) fn connect(
    machine: &Arc<Machine>,
    codec: Codec,
    request: wire::ConnectRequest,
) -> Frames {
    let process = match find(machine, request.process) {
        Ok(process) => process,
        Err(refusal) => return refused(refusal),
    };
    let cursor = request.cursor.unwrap_or_default();
    let mut from = [cursor.stdout, cursor.stderr];
    if machine.has(Fault::ReplaysFromTheStart) {
        from = process.oldest();
    }
    let oldest = process.oldest();
    if from[0] < oldest[0] || from[1] < oldest[1] {
        if !machine.has(Fault::HidesLostOutput) {
            let mut refusal = Refusal::new(Code::OutOfRange, "those bytes are gone");
            let detail = format!("stdout={},stderr={},pty=0", oldest[0], oldest[1]);
            refusal.detail = Some((ext::OLDEST_HEADER, detail));
            return refused(refusal);
        }
        from = oldest;
    }
    events(codec, Subscription::new(&process, from, false))
}

pub(crate) fn list(
    machine: &Arc<Machine>,
    _: wire::ListRequest,
) -> Result<wire::ListResponse, Refusal> {
    if machine.has(Fault::HidesProcesses) {
        return Ok(wire::ListResponse::default());
    }
    let processes = machine.processes();
    Ok(wire::ListResponse {
        processes: processes.values().map(|process| process.info()).collect(),
    })
}

fn bytes_of(input: Option<wire::ProcessInput>) -> Result<Bytes, Refusal> {
    match input.and_then(|input| input.input) {
        Some(wire::process_input::Input::Stdin(bytes)) => Ok(bytes),
        Some(wire::process_input::Input::Pty(_)) => Err(invalid("it has no terminal")),
        None => Ok(Bytes::new()),
    }
}

pub(crate) fn send_input(
    machine: &Arc<Machine>,
    request: wire::SendInputRequest,
) -> Result<wire::SendInputResponse, Refusal> {
    find(machine, request.process)?.feed(&bytes_of(request.input)?)?;
    Ok(wire::SendInputResponse {})
}

pub(crate) fn close_stdin(
    machine: &Arc<Machine>,
    request: wire::CloseStdinRequest,
) -> Result<wire::CloseStdinResponse, Refusal> {
    find(machine, request.process)?.close_input();
    Ok(wire::CloseStdinResponse {})
}

/// Input as it comes; the answer follows its end.
pub(crate) async fn stream_input(
    machine: &Arc<Machine>,
    mut body: Incoming,
) -> Result<Frames, Refusal> {
    use wire::stream_input_request::Event;
    let mut decoder = EnvelopeDecoder::new(MESSAGE_CAP);
    let mut process = None;
    while let Some(piece) = body.frame().await {
        let piece = piece.map_err(|err| invalid(err.to_string()))?;
        let Ok(mut chunk) = piece.into_data() else {
            continue;
        };
        while let Some(frame) = decoder
            .decode(&mut chunk)
            .map_err(|err| invalid(err.to_string()))?
        {
            let Frame::Message(bytes) = frame else { break };
            let message: wire::StreamInputRequest = Codec::Proto
                .decode(bytes)
                .map_err(|err| invalid(err.to_string()))?;
            match (message.event, &process) {
                (Some(Event::Start(start)), _) => process = Some(find(machine, start.process)?),
                (Some(Event::Data(data)), Some(process)) => {
                    Process::feed(process, &bytes_of(data.input)?)?;
                }
                (Some(Event::Data(_)), None) => return Err(invalid("data before the start")),
                (Some(Event::Keepalive(_)) | None, _) => {}
            }
        }
    }
    let message = frame(Envelope::encode(
        Codec::Proto,
        &wire::StreamInputResponse {},
    ));
    let end = frame(Envelope::end(&EndStream::success()));
    Ok(Box::pin(stream::iter([message, end])))
}

pub(crate) fn send_signal(
    machine: &Arc<Machine>,
    request: wire::SendSignalRequest,
) -> Result<wire::SendSignalResponse, Refusal> {
    signal(machine, &*find(machine, request.process)?, request.signal)?;
    Ok(wire::SendSignalResponse {})
}

fn signal(machine: &Machine, process: &Process, number: i32) -> Result<(), Refusal> {
    if !(0..=64).contains(&number) {
        return Err(invalid(format!("{number} is no signal")));
    }
    if number > 0 {
        let one = machine.has(Fault::KnowsOneSignal);
        process.signal(if one { 9 } else { number });
    }
    Ok(())
}

/// The kill of a tree; a simulated command is its own whole tree.
pub(crate) fn kill(machine: &Machine, body: &[u8]) -> Result<ext::KillResponse, Refusal> {
    let request: ext::KillRequest = ext::from_json(body).map_err(|err| invalid(err.to_string()))?;
    let selector = match (request.pid, request.tag) {
        (Some(pid), None) => wire::ProcessSelector::pid(pid),
        (None, Some(tag)) => wire::ProcessSelector::tag(tag),
        _ => return Err(invalid("exactly one of pid and tag")),
    };
    let process = find(machine, Some(selector))?;
    if machine.has(Fault::LeavesDroppedCommands) {
        return Ok(ext::KillResponse { killed: 0 });
    }
    signal(machine, &process, request.signal)?;
    Ok(ext::KillResponse { killed: 1 })
}

fn entry(path: &str, node: &Node) -> fs::EntryInfo {
    let (kind, size, mode) = match node {
        Node::Directory => (fs::FileType::Directory, 0, 0o755),
        Node::File(bytes) => (fs::FileType::File, bytes.len(), 0o644),
    };
    fs::EntryInfo {
        name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        r#type: kind.into(),
        path: path.to_owned(),
        size: i64::try_from(size).unwrap_or(i64::MAX),
        mode,
        owner: "user".to_owned(),
        group: "user".to_owned(),
        ..fs::EntryInfo::default()
    }
}

pub(crate) fn stat(
    machine: &Arc<Machine>,
    request: fs::StatRequest,
) -> Result<fs::StatResponse, Refusal> {
    let path = place(machine, &request.path);
    let found = entry(&path, machine.files().get(&path)?);
    Ok(fs::StatResponse { entry: Some(found) })
}

pub(crate) fn list_dir(
    machine: &Arc<Machine>,
    request: fs::ListDirRequest,
) -> Result<fs::ListDirResponse, Refusal> {
    let path = place(machine, &request.path);
    let found = machine.files().list(&path, request.depth)?;
    Ok(fs::ListDirResponse {
        entries: found.iter().map(|(path, node)| entry(path, node)).collect(),
    })
}

pub(crate) fn make_dir(
    machine: &Arc<Machine>,
    request: fs::MakeDirRequest,
) -> Result<fs::MakeDirResponse, Refusal> {
    let path = place(machine, &request.path);
    if !machine.files().make_dir(&path)? {
        return Err(Refusal::new(Code::AlreadyExists, format!("exists: {path}")));
    }
    Ok(fs::MakeDirResponse {
        entry: Some(entry(&path, &Node::Directory)),
    })
}

pub(crate) fn rename(
    machine: &Arc<Machine>,
    request: fs::MoveRequest,
) -> Result<fs::MoveResponse, Refusal> {
    let (from, to) = (
        place(machine, &request.source),
        place(machine, &request.destination),
    );
    let mut files = machine.files();
    files.rename(&from, &to)?;
    Ok(fs::MoveResponse {
        entry: Some(entry(&to, files.get(&to)?)),
    })
}

pub(crate) fn remove(
    machine: &Arc<Machine>,
    request: fs::RemoveRequest,
) -> Result<fs::RemoveResponse, Refusal> {
    machine.files().remove(&place(machine, &request.path));
    Ok(fs::RemoveResponse {})
}
