//! The real worker on this host, reached in each way a backend may offer.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use namzu_client::{Sandbox, SandboxProvider};
use namzu_core::egress::Wiring;
use namzu_core::types::{Capabilities, Controls, EgressPolicy, SandboxSpec, Secret, Tier};
use namzu_core::{
    Backend, Channel, DuplexChannel, Error, ErrorCode, HttpChannel, Launched, Result, Teardown,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tempfile::TempDir;
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};

/// How the worker is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// A socket pair, and descriptors beside it.
    Lane,
    /// A socket pair.
    Pair,
    /// A unix socket that others could open.
    Unix,
    /// HTTP/1.1 to a port.
    Http,
    /// Standard input and output.
    Stdio,
}

const TOKEN: &str = "a-token-nobody-guesses";

/// The worker as a file, written once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_dir, path) = PROGRAM.get_or_init(|| {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("namzu-worker");
        std::fs::write(&path, namzu_worker_image::WORKER).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (dir, path)
    });
    path
}

/// Runs the worker without any wall, in a workspace of its own.
#[derive(Debug)]
pub(crate) struct Real(pub(crate) Carrier);

impl Real {
    pub(crate) async fn sandbox(carrier: Carrier) -> Sandbox {
        let provider = SandboxProvider::new(Arc::new(Self(carrier)), SandboxSpec::default());
        let spec = SandboxSpec {
            egress: Some(EgressPolicy::AllowAll),
            ..SandboxSpec::default()
        };
        match provider.create(spec).await {
            Ok(sandbox) => sandbox,
            Err(err) => panic!("over {carrier:?}: {}", namzu_core::Chain(&err)),
        }
    }
}

#[derive(Debug)]
struct Killed {
    child: Child,
    _workspace: TempDir,
}

#[async_trait]
impl Teardown for Killed {
    async fn destroy(&mut self) -> Result<()> {
        self.child
            .kill()
            .await
            .map_err(|err| Error::new(ErrorCode::BackendFailed, "kill the worker").with_source(err))
    }

    fn kill(&mut self) {
        let _ = self.child.start_kill();
    }
}

fn failed(err: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorCode::BackendFailed, "start the worker").with_source(err)
}

/// The worker with its private stream as descriptor 3, its lane as 4.
fn with_descriptors() -> Command {
    let mut command = namzu_core::spawn::command("/bin/sh");
    command
        .arg("-c")
        .arg(r#"exec "$@" 3<&0 4<&1 0</dev/null 1>/dev/null"#)
        .arg("sh")
        .arg(program());
    command
}

/// Tries until the worker listens.
async fn dial<T, Fut>(dial: impl Fn() -> Fut) -> Result<T>
where
    Fut: Future<Output = std::io::Result<T>>,
{
    loop {
        match dial().await {
            Ok(connection) => return Ok(connection),
            Err(err)
                if matches!(
                    err.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused
                ) =>
            {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Err(err) => return Err(failed(err)),
        }
    }
}

fn pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).map_err(failed)
}

/// A stream socket, as tokio has it.
fn stream(fd: OwnedFd) -> Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(fd);
    socket.set_nonblocking(true).map_err(failed)?;
    UnixStream::from_std(socket).map_err(failed)
}

#[async_trait]
impl Backend for Real {
    fn tier(&self) -> Tier {
        Tier::Passthrough
    }

    fn name(&self) -> &str {
        "real"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::NONE;
        capabilities.egress.allow_all = true;
        capabilities
    }

    async fn plan(&self, _: &SandboxSpec) -> Result<Controls> {
        Ok(Controls::default())
    }

    async fn launch(&self, spec: &SandboxSpec, _: &Wiring) -> Result<Launched> {
        let workspace = tempfile::tempdir().map_err(failed)?;
        let mut command = match self.0 {
            Carrier::Lane | Carrier::Pair => with_descriptors(),
            Carrier::Unix | Carrier::Http | Carrier::Stdio => namzu_core::spawn::command(program()),
        };
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .arg("--workspace")
            .arg(workspace.path())
            .arg("--cwd")
            .arg(workspace.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let token = || Some(Secret::new(TOKEN));
        let (child, channel) = match self.0 {
            Carrier::Lane => {
                let (ours, theirs) = pair(SocketType::STREAM)?;
                let (lane, their_lane) = pair(SocketType::SEQPACKET)?;
                command.args(["--listen", "fd:3", "--lane", "4"]);
                command.stdin(theirs).stdout(their_lane);
                let mut duplex = DuplexChannel::private(stream(ours)?);
                duplex.lane = Some(lane);
                (command.spawn().map_err(failed)?, Channel::Duplex(duplex))
            }
            Carrier::Pair => {
                let (ours, theirs) = pair(SocketType::STREAM)?;
                command.args(["--listen", "fd:3"]).stdin(theirs);
                let duplex = DuplexChannel::private(stream(ours)?);
                (command.spawn().map_err(failed)?, Channel::Duplex(duplex))
            }
            Carrier::Unix => {
                let path = workspace.path().join(".socket");
                let mut spec = std::ffi::OsString::from("unix:");
                spec.push(&path);
                command.arg("--listen").arg(spec);
                command.env("NAMZU_SANDBOX_TOKEN", TOKEN);
                let child = command.spawn().map_err(failed)?;
                let mut duplex = DuplexChannel::private(dial(|| UnixStream::connect(&path)).await?);
                duplex.token = token();
                (child, Channel::Duplex(duplex))
            }
            Carrier::Http => {
                // Given back at once; nothing else asks for ports here in between.
                let port = std::net::TcpListener::bind("127.0.0.1:0")
                    .and_then(|listener| listener.local_addr())
                    .map_err(failed)?
                    .port();
                command.args(["--listen", &format!("tcp:127.0.0.1:{port}")]);
                command.env("NAMZU_SANDBOX_TOKEN", TOKEN);
                let child = command.spawn().map_err(failed)?;
                drop(dial(|| TcpStream::connect(("127.0.0.1", port))).await?);
                let channel = HttpChannel {
                    base_url: format!("http://127.0.0.1:{port}"),
                    headers: vec![("x-route".into(), Secret::new("here"))],
                    token: token(),
                };
                (child, Channel::Http(channel))
            }
            Carrier::Stdio => {
                command.args(["--listen", "stdio"]);
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut child = command.spawn().map_err(failed)?;
                let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
                let io = tokio::io::join(stdout.unwrap(), stdin.unwrap());
                (child, Channel::Duplex(DuplexChannel::private(io)))
            }
        };
        Ok(Launched {
            gate: None,
            id: spec.id.clone().unwrap(),
            channel,
            workspace: workspace.path().to_str().unwrap().to_owned(),
            teardown: Box::new(Killed {
                child,
                _workspace: workspace,
            }),
            controls: Controls::default(),
            egress: None,
            labels: std::collections::BTreeMap::new(),
        })
    }
}
