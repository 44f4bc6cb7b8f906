//! The socket at which the keeper of a sandbox is asked: one line of JSON, one line back.
//!
//! Only processes of the same user are heard. A sandbox cannot reach it: it has no such path inside.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use namzu_sandbox::core::runtime_dir::{make_private, place};
use namzu_sandbox::egress::Explanation;
use namzu_sandbox::types::SandboxId;
use namzu_sandbox::{
    Error, ErrorCode, Phase, Sandbox, SerializedSandboxError, serialize_sandbox_error,
};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::context::Context;
use crate::failure::{Failure, local};
use crate::settings;

/// No id of a sandbox begins with a dot, so this is no sandbox's.
const DIRECTORY: &str = ".keepers";

/// The longest line, either way: that of a configuration file and some.
const LINE: u64 = 2 << 20;

/// How long one question may take: a program that gives a secret has 10 s.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many are heard at once.
const AT_ONCE: usize = 16;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Question {
    /// What the policy says to `host[:port]`.
    Explain(String),
    /// To put this policy in force.
    Set(Value),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Reply {
    Explained(Answer),
    Changed(Change),
    Failed(Box<SerializedSandboxError>),
}

/// What a policy says to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) reason: String,
    pub(crate) text: String,
    pub(crate) rule: Option<String>,
    pub(crate) generation: u64,
}

impl From<Explanation> for Answer {
    fn from(said: Explanation) -> Self {
        Self {
            allowed: said.allowed,
            reason: said.reason.to_owned(),
            text: said.text.to_owned(),
            rule: said.rule,
            generation: said.generation,
        }
    }
}

/// What a change of policy did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Change {
    pub(crate) generation: u64,
    pub(crate) kept: usize,
    pub(crate) cut: usize,
}

impl From<namzu_sandbox::egress::Change> for Change {
    fn from(change: namzu_sandbox::egress::Change) -> Self {
        Self {
            generation: change.generation,
            kept: change.kept,
            cut: change.cut,
        }
    }
}

/// The socket. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode: another may have the name by now.
    identity: (u64, u64),
}

fn directory() -> io::Result<PathBuf> {
    let base = place();
    make_private(&base)?;
    let directory = base.join(DIRECTORY);
    make_private(&directory)?;
    Ok(directory)
}

impl Control {
    pub(crate) fn bind(id: &SandboxId) -> Result<Self, Failure> {
        let bind = || {
            let directory = directory()?;
            let path = directory.join(id.as_str());
            // That of a keeper which was killed: the sandbox of this name is ours.
            match fs::remove_file(&path) {
                Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
                _ => {}
            }
            // By descriptor: a path may be longer than an address has room for.
            let held = File::open(&directory)?;
            let address = format!("/proc/self/fd/{}/{id}", held.as_raw_fd());
            let listener = StdListener::bind(address)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            let found = fs::symlink_metadata(&path)?;
            Ok(Self {
                listener: UnixListener::from_std(listener)?,
                path,
                identity: (found.dev(), found.ino()),
            })
        };
        bind().map_err(|err| {
            local("opening the control socket of the sandbox", err)
                .during(Phase::Create)
                .into()
        })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| self.identity == (found.dev(), found.ino()));
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Answers until the sandbox has ended, or a signal asks to stop.
pub(crate) async fn serve(
    cx: &mut Context,
    sandbox: Sandbox,
    control: Control,
) -> Result<u8, Failure> {
    let sandbox = Arc::new(sandbox);
    let mut heard = JoinSet::new();
    let ended = sandbox.ended();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            _ = &mut ended => break,
            signal = cx.signals.next() => {
                drop(control);
                return Err(Failure::Interrupted(signal));
            }
            Some(_) = heard.join_next() => {}
            accepted = control.listener.accept(), if heard.len() < AT_ONCE => match accepted {
                Ok((stream, _)) => {
                    let sandbox = Arc::clone(&sandbox);
                    heard.spawn(async move {
                        // Whoever asked is told, or has gone.
                        let _ = tokio::time::timeout(PATIENCE, hear(stream, &sandbox)).await;
                    });
                }
                // Of descriptors there are none left: some will be given back.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
    Ok(0)
}

async fn hear(stream: UnixStream, sandbox: &Sandbox) -> io::Result<()> {
    // The directory keeps others out already.
    if stream.peer_cred()?.uid() != geteuid().as_raw() {
        return Ok(());
    }
    let (from, mut to) = stream.into_split();
    let mut line = String::new();
    let mut from = BufReader::new(from.take(LINE));
    from.read_line(&mut line).await?;
    let reply = match answer(&line, sandbox).await {
        Ok(reply) => reply,
        Err(err) => Reply::Failed(Box::new(serialize_sandbox_error(&err))),
    };
    let mut text = serde_json::to_vec(&reply)?;
    text.push(b'\n');
    to.write_all(&text).await
}

async fn answer(line: &str, sandbox: &Sandbox) -> Result<Reply, Error> {
    let question = serde_json::from_str(line).map_err(|err| {
        Error::new(ErrorCode::InvalidArgument, "the keeper was asked nonsense").with_source(err)
    })?;
    match question {
        Question::Explain(host) => Ok(Reply::Explained(sandbox.explain(&host).await?.into())),
        Question::Set(document) => {
            let policy = settings::parse_policy(&document).map_err(|reasons| {
                Error::new(ErrorCode::ConfigInvalid, "invalid egress policy").with_reasons(reasons)
            })?;
            let change = sandbox.set_network_policy(policy).await?;
            Ok(Reply::Changed(change.into()))
        }
    }
}

/// Asks the keeper of the sandbox `id`; `None` where it has none.
///
/// # Errors
///
/// `sandbox_lost` for a keeper that was killed; what the keeper says.
async fn reply(id: &SandboxId, question: &Question) -> Result<Option<Reply>, Error> {
    let failed = |err: io::Error| local(format!("asking the keeper of sandbox `{id}`"), err);
    let held = match directory().and_then(File::open) {
        Ok(held) => held,
        Err(err) => return Err(failed(err)),
    };
    let address = format!("/proc/self/fd/{}/{id}", held.as_raw_fd());
    let stream = match UnixStream::connect(address).await {
        Ok(stream) => stream,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) if err.kind() == io::ErrorKind::ConnectionRefused => return Err(killed(id)),
        Err(err) => return Err(failed(err)),
    };
    let talk = async {
        let (from, mut to) = stream.into_split();
        let mut line = serde_json::to_vec(question)?;
        line.push(b'\n');
        to.write_all(&line).await?;
        let mut text = String::new();
        BufReader::new(from.take(LINE)).read_line(&mut text).await?;
        Ok(serde_json::from_str(&text)?)
    };
    let talked = tokio::time::timeout(PATIENCE, talk)
        .await
        .map_err(|_| failed(io::ErrorKind::TimedOut.into()))?;
    talked.map(Some).map_err(failed)
}

/// Asks the keeper of the sandbox `id`; `None` where it has none.
///
/// # Errors
///
/// As what was asked for fails; `sandbox_lost` for a keeper that was killed.
pub(crate) async fn ask<T: FromReply>(
    id: &SandboxId,
    question: &Question,
) -> Result<Option<T>, Error> {
    match reply(id, question).await? {
        None => Ok(None),
        Some(Reply::Failed(err)) => Err(rebuilt(*err)),
        Some(reply) => T::from_reply(reply).map(Some).ok_or_else(|| {
            Error::new(
                ErrorCode::ProtocolViolation,
                "the keeper answered another question",
            )
        }),
    }
}

/// What an answer holds.
pub(crate) trait FromReply: Sized {
    fn from_reply(reply: Reply) -> Option<Self>;
}

impl FromReply for Answer {
    fn from_reply(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Explained(answer) => Some(answer),
            _ => None,
        }
    }
}

impl FromReply for Change {
    fn from_reply(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Changed(change) => Some(change),
            _ => None,
        }
    }
}

/// Removes the socket of a keeper that was killed, in passing.
pub(crate) async fn forget(id: &SandboxId) {
    let Ok(path) = directory().map(|directory| directory.join(id.as_str())) else {
        return;
    };
    let Ok(held) = File::open(path.parent().unwrap_or(&path)) else {
        return;
    };
    let address = format!("/proc/self/fd/{}/{id}", held.as_raw_fd());
    let connected = UnixStream::connect(address).await;
    if connected.is_err_and(|err| err.kind() == io::ErrorKind::ConnectionRefused) {
        let _ = fs::remove_file(path);
    }
}

fn killed(id: &SandboxId) -> Error {
    Error::new(
        ErrorCode::SandboxLost,
        format!("the keeper of sandbox `{id}` was killed: nothing leaves it any more"),
    )
    .with_hint(format!(
        "nobody else can open its network again: `namzu-sandbox rm {id}`, and make another"
    ))
}

/// An error as it was on the other side.
fn rebuilt(told: SerializedSandboxError) -> Error {
    let code = ErrorCode::ALL
        .iter()
        .copied()
        .find(|code| told.code.as_deref() == Some(code.as_str()))
        .unwrap_or(ErrorCode::Internal);
    // The message holds the reasons.
    let mut err = Error::new(code, told.message);
    if let Some(hint) = told.hint {
        err = err.with_hint(hint);
    }
    if let Some(backend) = told.backend {
        err = err.on(&backend);
    }
    match told.cause {
        Some(cause) => err.with_source(rebuilt(*cause)),
        None => err,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_across_whole() {
        let err = Error::new(ErrorCode::ConfigInvalid, "no policy")
            .with_reasons(vec!["a".to_owned(), "b".to_owned()])
            .with_hint("mend it")
            .with_source(Error::new(ErrorCode::Internal, "why"));
        let back = rebuilt(serialize_sandbox_error(&err));
        assert_eq!(back.code(), ErrorCode::ConfigInvalid);
        assert_eq!(back.to_string(), "no policy: a; b");
        assert_eq!(back.hint(), Some("mend it"));
        let cause = std::error::Error::source(&back).unwrap();
        assert_eq!(cause.to_string(), "why");
    }

    #[test]
    fn a_question_with_more_than_one_thing_is_none() {
        let parse = serde_json::from_str::<Question>;
        assert!(parse(r#"{"explain": "a.test"}"#).is_ok());
        for text in [
            "",
            "{}",
            r#"{"explain": "a", "set": {}}"#,
            r#"{"run": "sh"}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
