//! A base URL: what is sent with each request, what is tried again, what a bad server can do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use namzu_client::{ExecRequest, SandboxProvider};
use namzu_core::egress::Wiring;
use namzu_core::types::{Capabilities, Controls, SandboxSpec, Secret, Tier};
use namzu_core::{Backend, Channel, Error, ErrorCode, HttpChannel, Launched, Result, Teardown};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Leads to an address, whatever is there.
#[derive(Debug)]
struct Address(HttpChannel);

#[derive(Debug)]
struct Nothing;

#[async_trait]
impl Teardown for Nothing {
    async fn destroy(&mut self) -> Result<()> {
        Ok(())
    }

    fn kill(&mut self) {}
}

#[async_trait]
impl Backend for Address {
    fn tier(&self) -> Tier {
        Tier::Passthrough
    }

    fn name(&self) -> &str {
        "address"
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
        Ok(Launched {
            gate: None,
            id: spec.id.clone().unwrap(),
            channel: Channel::Http(self.0.clone()),
            teardown: Box::new(Nothing),
            controls: Controls::default(),
            workspace: "/workspace".into(),
            egress: None,
            labels: std::collections::BTreeMap::new(),
        })
    }
}

fn channel(base_url: impl Into<String>) -> HttpChannel {
    HttpChannel {
        base_url: base_url.into(),
        headers: vec![("x-route".into(), Secret::new("there"))],
        token: Some(Secret::new("hush")),
    }
}

async fn create(channel: HttpChannel) -> Result<namzu_client::Sandbox> {
    SandboxProvider::new(Arc::new(Address(channel)), SandboxSpec::default())
        .create(SandboxSpec::default())
        .await
}

async fn refused(channel: HttpChannel) -> Error {
    create(channel).await.unwrap_err()
}

/// A server on a port of its own. `serve` gets each connection with its number.
async fn server<F, Fut>(serve: F) -> (HttpChannel, JoinSet<()>)
where
    F: Fn(usize, TcpStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        for number in 0.. {
            let (io, _) = listener.accept().await.unwrap();
            connections.spawn(serve(number, io));
        }
    });
    (channel(format!("http://{address}")), tasks)
}

/// The head of the next request.
async fn request(io: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match io.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return String::new(),
        }
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

const INFO: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::test]
async fn an_address_that_is_none_is_refused_with_its_reason() {
    for base_url in [
        "",
        "here",
        "127.0.0.1:80",
        "ftp://host",
        "http://host/path",
        "http://user:hunter2@host",
    ] {
        let err = refused(channel(base_url)).await;
        assert_eq!(err.code(), ErrorCode::ConfigInvalid, "{base_url}");
        assert!(!err.to_string().contains("hunter2"), "{err}");
    }
}

#[tokio::test]
async fn a_secret_that_fits_no_header_is_not_shown() {
    let mut channel = channel("http://127.0.0.1:1");
    channel.token = Some(Secret::new("hun\nter2"));
    let err = refused(channel).await;
    assert_eq!(err.code(), ErrorCode::ConfigInvalid);
    assert!(!format!("{err:?}").contains("ter2"), "{err:?}");
}

#[tokio::test]
async fn every_request_carries_token_and_routing() {
    let (channel, _server) = server(|_, mut io| async move {
        loop {
            let head = request(&mut io).await;
            if head.is_empty() {
                return;
            }
            assert!(head.contains("authorization: bearer hush\r\n"), "{head}");
            assert!(head.contains("x-route: there\r\n"), "{head}");
            io.write_all(INFO).await.unwrap();
        }
    })
    .await;
    let sandbox = create(channel).await.unwrap();
    let read = sandbox.files().read("/x", 10).await.unwrap();
    assert_eq!(read, b"{}");
}

#[tokio::test]
async fn nobody_at_the_address_is_a_lost_sandbox() {
    let (channel, server) = server(|_, _| async {}).await;
    drop(server);
    let err = refused(channel).await;
    assert_eq!(err.code(), ErrorCode::SandboxLost);
    assert!(err.is_retryable());
}

#[tokio::test]
async fn a_command_that_was_delivered_is_not_sent_again() {
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let (channel, _server) = server(move |_, mut io| {
        let count = Arc::clone(&count);
        async move {
            loop {
                let head = request(&mut io).await;
                if head.starts_with("get") {
                    io.write_all(INFO).await.unwrap();
                    continue;
                }
                // Hangs up with the request in its hands.
                count.fetch_add(usize::from(!head.is_empty()), Ordering::SeqCst);
                return;
            }
        }
    })
    .await;
    let sandbox = create(channel).await.unwrap();
    let err = sandbox.exec(ExecRequest::new(["x"])).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::SandboxLost);
    assert_eq!(started.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_not_taken_for_a_whole() {
    let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
    let (channel, _server) = server(move |_, mut io| {
        let tx = tx.clone();
        async move {
            let mut head = request(&mut io).await;
            while head.starts_with("get") {
                io.write_all(INFO).await.unwrap();
                head = request(&mut io).await;
            }
            let mut body = Vec::new();
            while !body.ends_with(b"half\r\n") {
                body.push(io.read_u8().await.unwrap());
            }
            tx.send(Vec::new()).unwrap();
            let mut rest = Vec::new();
            let _ = io.read_to_end(&mut rest).await;
            tx.send(rest).unwrap();
        }
    })
    .await;
    let sandbox = create(channel).await.unwrap();
    let (mut write, read) = tokio::io::duplex(64);
    write.write_all(b"half").await.unwrap();
    let files = sandbox.files();
    let mut upload = Box::pin(files.write_from("/x", read));
    tokio::select! {
        _ = &mut upload => panic!("the source goes on"),
        arrived = rx.recv() => assert!(arrived.is_some()),
    }
    drop(upload);
    // The chunk of length nought would make it a whole.
    assert_eq!(rx.recv().await.unwrap(), b"");
}

#[tokio::test]
async fn endless_headers_are_a_violation() {
    let (channel, _server) = server(|_, mut io| async move {
        request(&mut io).await;
        let _ = io.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while io.write_all(b"x-more: and more\r\n").await.is_ok() {}
    })
    .await;
    assert_eq!(refused(channel).await.code(), ErrorCode::ProtocolViolation);
}

#[tokio::test]
async fn what_is_no_http_is_a_violation() {
    let (channel, _server) = server(|_, mut io| async move {
        request(&mut io).await;
        let _ = io.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await;
        let _ = io.read_to_end(&mut Vec::new()).await;
    })
    .await;
    assert_eq!(refused(channel).await.code(), ErrorCode::ProtocolViolation);
}

#[tokio::test]
async fn a_page_of_a_proxy_is_an_error_with_a_code() {
    for (status, code) in [
        ("401 Unauthorized", ErrorCode::Unauthenticated),
        ("502 Bad Gateway", ErrorCode::SandboxLost),
        ("404 Not Found", ErrorCode::NotFound),
    ] {
        let (channel, _server) = server(move |_, mut io| async move {
            request(&mut io).await;
            let page = format!("HTTP/1.1 {status}\r\ncontent-length: 6\r\n\r\n<html>");
            let _ = io.write_all(page.as_bytes()).await;
            let _ = io.read_to_end(&mut Vec::new()).await;
        })
        .await;
        assert_eq!(refused(channel).await.code(), code);
    }
}
