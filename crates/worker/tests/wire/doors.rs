//! Listeners: who gets in, over which carrier.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::Stdio;

use http::{Method, StatusCode};
use namzu_protocol::connect::Code;
use namzu_protocol::process::{self as wire, ListRequest, ListResponse};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::{TcpStream, UnixStream};

use crate::support::{Client, Running, private, start_with, worker};

/// A worker that others can reach; returns when it accepts.
fn reachable(arguments: &[&str], environment: &[(&str, &str)]) -> Running {
    let (ready, inside) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&inside).to_string();
    let mut command = worker();
    command
        .env("NAMZU_SANDBOX_TOKEN", "secret")
        .envs(environment.iter().copied());
    command.args(arguments).args(["--ready", &number]);
    let running = start_with(&mut command, &[&inside]);
    drop(inside);
    let mut byte = Vec::new();
    std::fs::File::from(ready).read_to_end(&mut byte).unwrap();
    assert_eq!(byte.len(), 1, "it says that it is ready, once");
    running
}

#[tokio::test]
async fn a_worker_whose_maker_is_gone_before_it_is_ready_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (ready, inside) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    drop(ready);
    let number = std::os::fd::AsRawFd::as_raw_fd(&inside).to_string();
    let socket = format!("unix:{}", dir.path().join("socket").display());
    let mut command = worker();
    command
        .env("NAMZU_SANDBOX_TOKEN", "secret")
        .args(["--listen", &socket, "--ready", &number]);
    let ended = start_with(&mut command, &[&inside]).wait();
    let status = tokio::time::timeout(std::time::Duration::from_secs(60), ended).await;
    assert!(status.expect("it ends").success());
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

#[tokio::test]
async fn without_a_token_a_reachable_listener_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let mut command = worker();
    let output = command
        .args(["--listen", &format!("unix:{}", path.display())])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("NAMZU_SANDBOX_TOKEN"));
    assert!(!path.exists());
}

#[tokio::test]
async fn the_token_opens_every_door_and_nothing_else_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let address = format!("127.0.0.1:{}", free_port());
    let _worker = reachable(
        &[
            "--listen",
            &format!("unix:{}", path.display()),
            "--listen",
            &format!("tcp:{address}"),
        ],
        &[],
    );
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let clients = [
        Client::new(UnixStream::connect(&path).await.unwrap()).await,
        Client::new(TcpStream::connect(&address).await.unwrap()).await,
    ];
    for client in clients {
        for stranger in [
            client.clone(),
            client.with_header("x-access-token", "secre"),
            client.with_header("authorization", "Bearer wrong"),
            client.with_header("x-access-token", ""),
        ] {
            for path in [
                "/ext/v1/info",
                "/metrics",
                "/files?path=/etc/passwd",
                "/execute",
                "/nothing",
                "/envs",
            ] {
                let (status, _) = stranger.http(Method::GET, path, "").await;
                assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
            }
            let error = stranger
                .unary::<_, ListResponse>(wire::LIST, &ListRequest { ended: true })
                .await
                .unwrap_err();
            assert_eq!(error.code, Code::Unauthenticated);
            assert_eq!(
                stranger.http(Method::GET, "/health", "").await.0,
                StatusCode::NO_CONTENT
            );
            assert_eq!(
                stranger.http(Method::GET, "/healthz", "").await.0,
                StatusCode::OK
            );
        }
        for known in [
            client.with_header("x-access-token", "secret"),
            client.with_header("authorization", "Bearer secret"),
        ] {
            assert_eq!(known.sh("echo in").await.text(), "in");
        }
    }
}

#[tokio::test]
async fn frames_carry_no_token_so_strangers_speak_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let _worker = reachable(&["--listen", &format!("unix:{}", path.display())], &[]);
    let answer =
        tokio::task::spawn_blocking(move || frame_health(StdUnixStream::connect(&path).unwrap()));
    assert_eq!(answer.await.unwrap(), "");
}

#[tokio::test]
async fn frames_are_spoken_on_a_private_stream() {
    let (host, inside) = StdUnixStream::pair().unwrap();
    let inside = OwnedFd::from(inside);
    let mut command = worker();
    command.args([
        "--listen",
        &format!("fd:{}", std::os::fd::AsRawFd::as_raw_fd(&inside)),
    ]);
    let _running = start_with(&mut command, &[&inside]);
    drop(inside);
    let answer = tokio::task::spawn_blocking(move || frame_health(host))
        .await
        .unwrap();
    assert_eq!(answer, "0000000b\n{\"ok\":true}");
}

fn frame_health(mut stream: StdUnixStream) -> String {
    stream.write_all(b"00000010\n{\"op\":\"healthz\"}").unwrap();
    let mut answer = String::new();
    // Whoever refuses may do so before all was read.
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[tokio::test]
async fn http_1_is_spoken_too() {
    let address = format!("127.0.0.1:{}", free_port());
    let _worker = reachable(&["--listen", &format!("tcp:{address}")], &[]);
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream
            .write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    assert!(answer.await.unwrap().starts_with("HTTP/1.1 204"));
}

#[tokio::test]
async fn standard_streams_carry_a_worker() {
    let (input, into) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let (from, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let mut command = worker();
    command
        .args(["--listen", "stdio"])
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output));
    let running = start_with(&mut command, &[]);
    drop(command);
    let into = tokio::net::unix::pipe::Sender::from_owned_fd(into).unwrap();
    let from = tokio::net::unix::pipe::Receiver::from_owned_fd(from).unwrap();
    let client = Client::new(tokio::io::join(from, into)).await;
    assert_eq!(
        client
            .sh("echo through; readlink /proc/self/fd/0")
            .await
            .text(),
        "through\n/dev/null"
    );
    drop(client);
    assert!(running.wait().await.success(), "it ends with its stream");
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let spec = format!("unix:{}", path.display());
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let _worker = reachable(&["--listen", &spec], &[]);
    assert!(Path::new(&path).exists());
    let second = worker()
        .env("NAMZU_SANDBOX_TOKEN", "t")
        .args(["--listen", &spec])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let client = Client::new(UnixStream::connect(&path).await.unwrap()).await;
    assert_eq!(
        client.http(Method::GET, "/health", "").await.0,
        StatusCode::NO_CONTENT
    );
}

#[tokio::test]
async fn an_idle_worker_ends_though_its_health_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let running = reachable(
        &["--listen", &format!("unix:{}", path.display())],
        &[("NAMZU_SANDBOX_IDLE_TIMEOUT_MS", "500")],
    );
    let client = Client::new(UnixStream::connect(&path).await.unwrap()).await;
    let known = client.with_header("x-access-token", "secret");
    // Work that takes longer than the timeout is work.
    assert_eq!(known.sh("sleep 1; echo done").await.text(), "done");
    assert_eq!(
        client.http(Method::GET, "/health", "").await.0,
        StatusCode::NO_CONTENT
    );
    assert!(running.wait().await.success());
}

#[tokio::test]
async fn another_user_is_nobody_here() {
    let worker = private(&["--user", "me"]).await;
    // "me:" and "you:".
    for (basic, known) in [("bWU6", true), ("eW91Og==", false)] {
        let client = worker
            .client
            .with_header("authorization", format!("Basic {basic}"));
        let answer = client
            .unary::<_, ListResponse>(wire::LIST, &ListRequest { ended: true })
            .await;
        match answer {
            Ok(_) => assert!(known),
            Err(error) => {
                assert!(!known);
                assert_eq!(
                    (error.code, error.message.as_str()),
                    (Code::Unauthenticated, "invalid username: 'you'")
                );
            }
        }
    }
}

#[tokio::test]
async fn metrics_and_envs_are_told() {
    let mut command = worker();
    command.env("NAMZU_SANDBOX_ENVS", r#"{"A":"1"}"#);
    let worker = crate::support::private_with(&mut command, &[]).await;
    let (_, envs) = worker.client.http(Method::GET, "/envs", "").await;
    assert_eq!(&envs[..], br#"{"A":"1"}"#);
    let (status, metrics) = worker.client.http(Method::GET, "/metrics", "").await;
    assert_eq!(status, StatusCode::OK);
    let metrics: serde_json::Value = serde_json::from_slice(&metrics).unwrap();
    for field in ["cpu_count", "mem_total", "mem_used", "disk_total"] {
        assert!(metrics[field].as_u64().unwrap() > 0, "{field}");
    }
}

#[test]
fn a_descriptor_that_is_not_open_is_refused() {
    for arguments in [
        &["--listen", "fd:1000"][..],
        &["--listen", "listener:1000"],
        &["--listen", "stdio", "--ready", "1000"],
        &["--listen", "stdio", "--memory-events", "1000"],
        &["--listen", "stdio", "--lane", "1000"],
    ] {
        let refused = worker()
            .args(arguments)
            .env("NAMZU_SANDBOX_TOKEN", "t")
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
    }
}

#[tokio::test]
async fn strangers_do_not_keep_out_who_has_the_token() {
    const STRANGERS: usize = 1100;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        ..limit
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let _worker = reachable(&["--listen", &format!("unix:{}", path.display())], &[]);
    let known = Client::new(UnixStream::connect(&path).await.unwrap()).await;
    let known = known.with_header("x-access-token", "secret");
    assert_eq!(known.sh("echo here").await.text(), "here");
    // A connect that blocks while the backlog is full.
    let connect = move |count| {
        let path = path.clone();
        let connected = move || -> Vec<_> {
            let connections = std::iter::repeat_with(|| StdUnixStream::connect(&path).unwrap());
            connections.take(count).collect()
        };
        tokio::task::spawn_blocking(connected)
    };
    let strangers = connect(STRANGERS).await.unwrap();
    let late = connect(1).await.unwrap().remove(0);
    late.set_nonblocking(true).unwrap();
    let late = Client::new(UnixStream::from_std(late).unwrap()).await;
    let late = late.with_header("x-access-token", "secret");
    assert_eq!(late.sh("echo here too").await.text(), "here too");
    assert_eq!(known.sh("echo still here").await.text(), "still here");
    drop(strangers);
}

#[tokio::test]
async fn headers_have_an_end() {
    let worker = private(&[]).await;
    let client = worker.client.with_header("x-much", "x".repeat(100 * 1024));
    let request = client.request(
        Method::GET,
        "/health",
        "text/plain",
        crate::support::full(""),
    );
    let answer = client.send(request).await;
    assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert_eq!(worker.client.sh("echo on").await.text(), "on");
}

#[test]
fn a_peer_that_opens_and_resets_without_end_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let _worker = reachable(&["--listen", &format!("unix:{}", path.display())], &[]);
    let mut peer = StdUnixStream::connect(&path).unwrap();
    peer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    // The worker says why and closes; until then it takes what is sent.
    let mut stream = 1_u32;
    let cut = loop {
        let mut frames = Vec::new();
        for _ in 0..100 {
            let number = stream.to_be_bytes();
            // GET http://x/ in header codes, then the reset.
            frames.extend_from_slice(b"\0\0\x06\x01\x05");
            frames.extend_from_slice(&number);
            frames.extend_from_slice(b"\x82\x84\x86\x41\x01x\0\0\x04\x03\0");
            frames.extend_from_slice(&number);
            frames.extend_from_slice(b"\0\0\0\x08");
            stream += 2;
        }
        if peer.write_all(&frames).is_err() {
            break true;
        }
        if stream > 2_000_000 {
            break false;
        }
    };
    assert!(cut, "a million streams were opened and reset");
    let mut healthy = StdUnixStream::connect(&path).unwrap();
    healthy
        .write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    healthy.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
}

#[tokio::test]
async fn a_connection_is_kept_though_the_end_of_a_request_comes_late() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let _worker = reachable(&["--listen", &format!("unix:{}", path.display())], &[]);
    let mut stream = UnixStream::connect(&path).await.unwrap();
    let message = r#"{"process":{"cmd":"true"},"stdin":false}"#;
    let length = u32::try_from(message.len()).unwrap();
    let mut request =
        b"POST /process.Process/Start HTTP/1.1\r\nhost: x\r\nx-access-token: secret\r\n\
        content-type: application/connect+json\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    request.extend_from_slice(format!("{:x}\r\n\0", length + 5).as_bytes());
    request.extend_from_slice(&length.to_be_bytes());
    request.extend_from_slice(message.as_bytes());
    request.extend_from_slice(b"\r\n");
    for _ in 0..3 {
        stream.write_all(&request).await.unwrap();
        // Long enough for the command to have ended, were it started already.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n0\r\n\r\n") {
            let read = stream.read_buf(&mut answer).await.unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&answer));
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"));
    }
}
