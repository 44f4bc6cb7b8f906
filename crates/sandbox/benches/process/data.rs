//! How fast bytes move, and how little memory moving them takes.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use namzu_sandbox::client::Event;
use namzu_sandbox::types::ExecRequest;
use namzu_sandbox::{Sandbox, SandboxProvider};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::measure::{Row, human, median};
use crate::memory;
use crate::{Result, spec};

const GIB: u64 = 1 << 30;
const ROUNDS: usize = 5;
/// What a careful reader of a pipe or socket uses.
const CHUNK: usize = 256 * 1024;

pub(crate) async fn rows(provider: &SandboxProvider) -> Result<Vec<Row>> {
    let sandbox = provider.create(spec()).await?;
    let rows = vec![
        stdout(&sandbox).await?,
        upload(&sandbox).await?,
        download(&sandbox).await?,
    ];
    sandbox.destroy().await?;
    Ok(rows)
}

fn row(figure: &'static str, ours: Duration, peer: Duration, what: &str, grew: (u64, u64)) -> Row {
    let ratio = peer.as_secs_f64() / ours.as_secs_f64();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let flat = grew.0 <= 16 << 20 && grew.1 <= 16 << 20;
    Row {
        figure,
        ours: format!(
            "{}; host +{:.1} MiB, worker +{:.1} MiB",
            human(ours),
            mib(grew.0),
            mib(grew.1)
        ),
        peer: format!("{} {what}", human(peer)),
        ratio: format!("{ratio:.2} × its rate"),
        bound: "≥ 0.5 ×, each ≤ +16 MiB",
        met: ratio >= 0.5 && flat,
    }
}

/// Peak growth of this process and of the worker while something runs.
struct Growth {
    host: u64,
    worker: u64,
    pid: u32,
    peak: (u64, u64),
}

impl Growth {
    fn start() -> Self {
        let pid = memory::workers().first().copied().unwrap_or(0);
        Self {
            host: memory::rss(std::process::id()),
            worker: memory::rss(pid),
            pid,
            peak: (0, 0),
        }
    }

    fn sample(&mut self) {
        self.peak.0 = self
            .peak
            .0
            .max(memory::rss(std::process::id()).saturating_sub(self.host));
        self.peak.1 = self
            .peak
            .1
            .max(memory::rss(self.pid).saturating_sub(self.worker));
    }
}

async fn stdout(sandbox: &Sandbox) -> Result<Row> {
    let (mut ours, mut theirs, mut growth) = (Vec::new(), Vec::new(), Growth::start());
    for _ in 0..ROUNDS {
        theirs.push(plain_pipe()?);
        let began = Instant::now();
        let mut process = sandbox
            .spawn(ExecRequest::new(["head", "-c", "1073741824", "/dev/zero"]))
            .await?;
        let (mut seen, mut sampled) = (0, 0);
        while let Some(event) = process.next().await? {
            if let Event::Stdout(bytes) = event {
                seen += bytes.len() as u64;
                if seen - sampled >= GIB / 8 {
                    sampled = seen;
                    growth.sample();
                }
            }
        }
        if seen != GIB {
            return Err(format!("{seen} bytes came").into());
        }
        ours.push(began.elapsed());
        growth.sample();
    }
    Ok(row(
        "1 GiB of stdout to the caller",
        median(&mut ours),
        median(&mut theirs),
        "through a plain pipe",
        growth.peak,
    ))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the peer is a plain child of this process"
)]
fn plain_pipe() -> Result<Duration> {
    let began = Instant::now();
    let mut child = Command::new("head")
        .args(["-c", "1073741824", "/dev/zero"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut pipe = child.stdout.take().ok_or("no pipe")?;
    let mut chunk = vec![0; CHUNK];
    while pipe.read(&mut chunk)? > 0 {}
    child.wait()?;
    Ok(began.elapsed())
}

async fn upload(sandbox: &Sandbox) -> Result<Row> {
    let (mut ours, mut theirs, mut growth) = (Vec::new(), Vec::new(), Growth::start());
    for _ in 0..ROUNDS {
        theirs.push(bare_socket().await?);
        let began = Instant::now();
        sandbox
            .files()
            .write_from("/tmp/up", tokio::io::repeat(0x5a).take(GIB))
            .await?;
        ours.push(began.elapsed());
        growth.sample();
        sandbox.files().remove("/tmp/up").await?;
    }
    Ok(row(
        "1 GiB file up",
        median(&mut ours),
        median(&mut theirs),
        "over a bare unix socket to a file",
        growth.peak,
    ))
}

async fn download(sandbox: &Sandbox) -> Result<Row> {
    let made = sandbox
        .exec(ExecRequest::new(["head", "-c", "1073741824", "/dev/zero"]))
        .await?;
    drop(made);
    sandbox
        .files()
        .write_from("/tmp/down", tokio::io::repeat(0x5a).take(GIB))
        .await?;
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let (mut ours, mut theirs, mut growth) = (Vec::new(), Vec::new(), Growth::start());
    for _ in 0..ROUNDS {
        theirs.push(bare_socket().await?);
        let began = Instant::now();
        let mut reader = sandbox.files().reader("/tmp/down").await?;
        let mut file = tokio::fs::File::create(folder.path().join("down")).await?;
        file.set_max_buf_size(CHUNK);
        let mut chunk = vec![0; CHUNK];
        let mut seen = 0;
        loop {
            let read = reader.read(&mut chunk).await?;
            if read == 0 {
                break;
            }
            file.write_all(&chunk[..read]).await?;
            seen += read as u64;
        }
        file.flush().await?;
        if seen != GIB {
            return Err(format!("{seen} bytes came").into());
        }
        ours.push(began.elapsed());
        growth.sample();
    }
    sandbox.files().remove("/tmp/down").await?;
    Ok(row(
        "1 GiB file down",
        median(&mut ours),
        median(&mut theirs),
        "over a bare unix socket to a file",
        growth.peak,
    ))
}

/// The same bytes from one task to another over a unix socket, written to a file on the same
/// kind of file system as the sandbox's own `/tmp`.
async fn bare_socket() -> Result<Duration> {
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket)?;
    let began = Instant::now();
    let sender = async {
        let mut stream = UnixStream::connect(&socket).await?;
        let chunk = vec![0x5a; CHUNK];
        for _ in 0..GIB / CHUNK as u64 {
            stream.write_all(&chunk).await?;
        }
        Ok::<_, std::io::Error>(())
    };
    let receiver = async {
        let (mut stream, _) = listener.accept().await?;
        let mut file = tokio::fs::File::create(folder.path().join("file")).await?;
        file.set_max_buf_size(CHUNK);
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = stream.read(&mut chunk).await?;
            if read == 0 {
                break;
            }
            file.write_all(&chunk[..read]).await?;
        }
        file.flush().await?;
        Ok::<_, std::io::Error>(())
    };
    let (sent, received) = tokio::join!(sender, receiver);
    sent?;
    received?;
    Ok(began.elapsed())
}
