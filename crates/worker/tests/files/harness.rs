//! A worker on a private stream, and the calls tests make.

use std::os::unix::net::UnixStream as Pair;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::UnixStream;

/// A running worker, ended with the value.
pub(crate) struct Worker {
    child: Arc<Mutex<Child>>,
    calls: SendRequest<Full<Bytes>>,
    pub(crate) socket: PathBuf,
    keep: tempfile::TempDir,
}

/// The token of the reachable listener.
pub(crate) const TOKEN: &str = "the-token";

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {:?}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

impl Worker {
    /// Without roots: every path is open.
    pub(crate) async fn open() -> Self {
        Self::start(&[], &[]).await
    }

    /// Confined to a workspace, and one more root for reading.
    pub(crate) async fn confined(workspace: &Path, read_root: &Path) -> Self {
        let args = [
            "--workspace",
            text(workspace),
            "--read-root",
            text(read_root),
        ];
        Self::start(&args, &[]).await
    }

    #[expect(clippy::disallowed_methods, reason = "the worker under test")]
    pub(crate) async fn start(args: &[&str], env: &[(&str, &str)]) -> Self {
        let keep = tempfile::tempdir().unwrap();
        let socket = keep.path().join("socket");
        let (ours, theirs) = Pair::pair().unwrap();
        let output: Pair = theirs.try_clone().unwrap();
        let child = std::process::Command::new(env!("CARGO_BIN_EXE_namzu-worker"))
            .args([
                "--listen",
                "stdio",
                "--listen",
                &format!("unix:{}", socket.display()),
            ])
            .args(args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", keep.path())
            .env("NAMZU_SANDBOX_TOKEN", TOKEN)
            .envs(env.iter().copied())
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .stdout(Stdio::from(std::os::fd::OwnedFd::from(output)))
            .spawn()
            .unwrap();
        ours.set_nonblocking(true).unwrap();
        let io = TokioIo::new(UnixStream::from_std(ours).unwrap());
        let (calls, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
            .await
            .unwrap();
        tokio::spawn(connection);
        let worker = Self {
            child: Arc::new(Mutex::new(child)),
            calls,
            socket,
            keep,
        };
        // The other listener is bound before this one answers.
        assert_eq!(worker.get("/health").await.status, StatusCode::NO_CONTENT);
        worker
    }

    /// A directory that lives as long as the worker.
    pub(crate) fn home(&self) -> &Path {
        self.keep.path()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> http::Response<Incoming> {
        let mut calls = self.calls.clone();
        calls.ready().await.unwrap();
        calls.send_request(request).await.unwrap()
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://worker{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        read(
            self.send(request.body(Full::new(body.into())).unwrap())
                .await,
        )
        .await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, &[], "").await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.call(Method::GET, path, headers, "").await
    }

    /// Uploads one file as the body.
    pub(crate) async fn put(&self, file: &str, body: impl Into<Bytes>) -> Answer {
        let kind = [("content-type", "application/octet-stream")];
        self.call(
            Method::POST,
            &format!("/files?path={}", quote(file.as_bytes())),
            &kind,
            body,
        )
        .await
    }

    /// A unary call of the filesystem service.
    pub(crate) async fn rpc(&self, method: &str, message: Value) -> Answer {
        let path = format!("/filesystem.Filesystem/{method}");
        let kind = [
            ("content-type", "application/json"),
            ("connect-protocol-version", "1"),
        ];
        self.call(Method::POST, &path, &kind, message.to_string())
            .await
    }

    /// The same, which must fail with a code.
    pub(crate) async fn refused(&self, method: &str, message: Value, code: &str) -> String {
        let answer = self.rpc(method, message).await;
        assert_ne!(answer.status, StatusCode::OK);
        assert_eq!(answer.json()["code"], code, "{:?}", answer.body);
        answer.json()["message"].as_str().unwrap().to_owned()
    }

    /// A server stream of the filesystem service.
    pub(crate) async fn stream(&self, method: &str, message: Value) -> Messages {
        let message = message.to_string();
        let length = u32::try_from(message.len()).unwrap();
        let body = [&[0][..], &length.to_be_bytes(), message.as_bytes()].concat();
        let request = Request::post(format!("http://worker/filesystem.Filesystem/{method}"))
            .header("content-type", "application/connect+json")
            .body(Full::new(body.into()))
            .unwrap();
        Messages {
            body: self.send(request).await.into_body(),
            read: BytesMut::new(),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The messages of a server stream.
pub(crate) struct Messages {
    body: Incoming,
    read: BytesMut,
}

impl Messages {
    /// The flag and JSON of the next frame.
    pub(crate) async fn next(&mut self) -> (u8, Value) {
        loop {
            if let Some(length) = self.read.get(1..5) {
                let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
                if self.read.len() >= 5 + length {
                    let frame = self.read.split_to(5 + length);
                    return (frame[0], serde_json::from_slice(&frame[5..]).unwrap());
                }
            }
            let frame = self
                .body
                .frame()
                .await
                .expect("the stream goes on")
                .unwrap();
            self.read
                .extend_from_slice(&frame.into_data().unwrap_or_default());
        }
    }

    /// The next change, as its name and kind.
    pub(crate) async fn change(&mut self) -> (String, String) {
        loop {
            let (_, message) = self.next().await;
            if let Some(event) = message.get("filesystem") {
                return change(event);
            }
        }
    }
}

pub(crate) fn change(event: &Value) -> (String, String) {
    let text = |field: &str| event[field].as_str().unwrap().to_owned();
    (text("name"), text("type").replace("EVENT_TYPE_", ""))
}

pub(crate) async fn read(response: http::Response<Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer {
        status: head.status,
        headers: head.headers,
        body,
    }
}

/// Percent-encodes every byte but the plainest.
pub(crate) fn quote(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                char::from(*byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(crate) fn at(path: &Path) -> Value {
    json!({"path": text(path)})
}
