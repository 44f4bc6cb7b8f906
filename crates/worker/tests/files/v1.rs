//! The v1 wires: HTTP and frames.

use std::path::Path;

use http::{Method, StatusCode};
use namzu_protocol::v1::{Event, ExecuteResult, FrameDecoder, encode_frame};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::harness::{Answer, Worker, text};

struct Scene {
    worker: Worker,
    top: tempfile::TempDir,
}

async fn scene() -> Scene {
    let top = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(top.path().join("ws")).unwrap();
    std::fs::create_dir_all(top.path().join("ro")).unwrap();
    std::fs::write(top.path().join("ro/file"), "readable").unwrap();
    std::fs::write(top.path().join("secret"), "secret").unwrap();
    let (ws, ro) = (top.path().join("ws"), top.path().join("ro"));
    let env = [
        ("NAMZU_SANDBOX_WORKSPACE", text(&ws)),
        ("NAMZU_SANDBOX_READ_ROOTS", text(&ro)),
        ("NAMZU_SANDBOX_MAX_TIMEOUT_MS", "60000"),
        ("NAMZU_SANDBOX_MAX_BODY_BYTES", "100000"),
        ("INHERITED", "yes"),
    ];
    let worker = Worker::start(&[], &env).await;
    Scene { worker, top }
}

impl Scene {
    async fn post(&self, path: &str, body: impl ToString) -> Answer {
        let kind = [("content-type", "application/json")];
        self.worker
            .call(Method::POST, path, &kind, body.to_string())
            .await
    }

    /// Standard output, standard error and the last event.
    async fn run(&self, request: Value) -> (String, String, Event) {
        let answer = self.post("/execute", request).await;
        assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
        assert_eq!(answer.header("content-type"), "application/x-ndjson");
        let (mut out, mut err, mut last) = (String::new(), String::new(), None);
        for line in answer
            .body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            assert!(last.is_none(), "something follows the last event");
            match Event::from_json(line).unwrap() {
                Event::StdoutDelta { data } => out += &data,
                Event::StderrDelta { data } => err += &data,
                end => last = Some(end),
            }
        }
        (out, err, last.unwrap())
    }

    fn ws(&self) -> std::path::PathBuf {
        self.top.path().join("ws")
    }
}

fn shell(script: &str) -> Value {
    json!({"command": "sh", "args": ["-c", script]})
}

fn result(event: &Event) -> ExecuteResult {
    match event {
        Event::Result(result) => result.clone(),
        other => panic!("no result: {other:?}"),
    }
}

#[tokio::test]
async fn a_command_tells_what_it_writes_and_how_it_ends() {
    let scene = scene().await;
    assert_eq!(
        scene.worker.get("/healthz").await.json(),
        json!({"ok": true})
    );
    let mut request = shell("cat; echo err >&2; echo $INHERITED $OWN; pwd; exit 3");
    request["stdin"] = json!("input\n");
    request["env"] = json!({"OWN": "own"});
    request["cwd"] = json!("made/here");
    let (out, err, end) = scene.run(request).await;
    let cwd = scene.ws().canonicalize().unwrap().join("made/here");
    assert_eq!(out, format!("input\nyes own\n{}\n", text(&cwd)));
    assert_eq!(err, "err\n");
    let end = result(&end);
    assert_eq!((end.exit_code, end.timed_out, end.signal), (3, false, None));
    assert!(!end.stdout_truncated && !end.stderr_truncated);
}

#[tokio::test]
async fn the_workers_own_variables_reach_no_command() {
    let scene = scene().await;
    let (out, ..) = scene.run(json!({"command": "env"})).await;
    assert!(!out.contains("NAMZU_SANDBOX_"), "{out}");
    let request = json!({"command": "env", "env": {"NAMZU_SANDBOX_MINE": "1"}});
    assert!(scene.run(request).await.0.contains("NAMZU_SANDBOX_MINE=1"));
}

#[tokio::test]
async fn a_split_character_is_not_mangled() {
    let scene = scene().await;
    // The euro sign byte by byte, each in a write of its own with other things done in between.
    let script =
        r"for byte in 342 202 254; do printf \\$byte; read -r _ < fifo-$byte; done; printf '\377'";
    let fifos = ["342", "202", "254"].map(|byte| scene.ws().join(format!("fifo-{byte}")));
    for fifo in &fifos {
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    let feed = tokio::task::spawn_blocking(move || {
        for fifo in fifos {
            std::fs::write(fifo, "go\n").unwrap();
        }
    });
    let (out, ..) = scene.run(shell(script)).await;
    feed.await.unwrap();
    assert_eq!(out, "€\u{fffd}");
}

#[tokio::test]
async fn a_signal_is_told() {
    let scene = scene().await;
    let (.., end) = scene.run(shell("kill -USR1 $$")).await;
    assert_eq!(
        (result(&end).exit_code, result(&end).signal),
        (128 + 10, Some(10))
    );
}

#[tokio::test]
async fn a_deadline_kills_the_whole_tree_even_when_sigterm_is_ignored() {
    let scene = scene().await;
    let mut request =
        shell("trap '' TERM; (trap '' TERM; echo $$ ; exec sleep 1000) & echo $!; sleep 1000");
    request["timeoutMs"] = json!(200);
    let (out, _, end) = scene.run(request).await;
    assert!(result(&end).timed_out);
    assert_eq!(result(&end).signal, Some(9));
    assert!(result(&end).duration_ms >= 2000);
    for pid in out.split_whitespace() {
        assert!(is_gone(pid), "{pid} lives");
    }
}

/// Not there, or a zombie that only waits to be reaped.
fn is_gone(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    status.is_err() || status.is_ok_and(|text| text.contains("State:\tZ"))
}

#[tokio::test]
async fn a_background_child_does_not_hold_the_request() {
    let scene = scene().await;
    let (out, _, end) = scene.run(shell("sleep 1000 & echo $!")).await;
    assert_eq!(result(&end).exit_code, 0);
    let pid = rustix::process::Pid::from_raw(out.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn output_is_cut_at_the_cap_and_the_command_runs_on() {
    let scene = scene().await;
    let mut request = shell("head -c 1000000 /dev/zero; echo 12345 >&2; touch done");
    request["maxOutputBytes"] = json!(5);
    let (out, err, end) = scene.run(request).await;
    assert_eq!((out.len(), err.as_str()), (5, "12345"));
    assert!(result(&end).stdout_truncated && result(&end).stderr_truncated);
    assert!(scene.ws().join("done").exists());
}

#[tokio::test]
async fn bad_requests_are_refused_before_anything_starts() {
    let scene = scene().await;
    std::os::unix::fs::symlink(scene.top.path(), scene.ws().join("out")).unwrap();
    std::fs::write(scene.ws().join("file"), "").unwrap();
    let command = |more: Value| {
        let mut request = json!({"command": "touch", "args": ["started"]});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        request.to_string()
    };
    for (body, error) in [
        ("not json".to_owned(), "invalid_body"),
        ("3".to_owned(), "invalid_body"),
        ("{}".to_owned(), "missing_command"),
        (command(json!({"command": ""})), "missing_command"),
        (command(json!({"cwd": "../"})), "invalid_cwd"),
        (command(json!({"cwd": "/"})), "invalid_cwd"),
        (command(json!({"cwd": "out"})), "invalid_cwd"),
        (command(json!({"cwd": "out/made"})), "invalid_cwd"),
        (command(json!({"cwd": "file"})), "invalid_cwd"),
        (command(json!({"timeoutMs": 0})), "invalid_timeout"),
        (command(json!({"timeoutMs": -5})), "invalid_timeout"),
        (command(json!({"timeoutMs": 60001})), "invalid_timeout"),
        (command(json!({"env": {"A=B": "x"}})), "invalid_body"),
        (command(json!({"env": {"A": "x\u{0}"}})), "invalid_body"),
        (command(json!({"args": ["a\u{0}"]})), "invalid_body"),
    ] {
        let answer = scene.post("/execute", &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        assert_eq!(answer.json()["error"], error, "{body}");
        assert!(answer.json()["message"].is_string());
    }
    let long = scene
        .post("/execute", command(json!({"stdin": "x".repeat(100_001)})))
        .await;
    assert_eq!(
        (long.status, &long.json()["error"]),
        (StatusCode::PAYLOAD_TOO_LARGE, &json!("invalid_body"))
    );
    assert!(!scene.ws().join("started").exists() && !scene.top.path().join("made").exists());
    let (.., end) = scene.run(json!({"command": "no-such-program"})).await;
    assert!(matches!(end, Event::Error { .. }), "{end:?}");
}

#[tokio::test]
async fn files_are_read_and_written_within_the_roots() {
    let scene = scene().await;
    let wrote = scene
        .post("/write-file", json!({"path": "a/b", "content": "héllo"}))
        .await;
    assert_eq!(wrote.json(), json!({"ok": true, "bytesWritten": 6}));
    let read = scene.post("/read-file", json!({"path": "a/b"})).await;
    assert_eq!(
        read.json(),
        json!({"ok": true, "content": "héllo", "sizeBytes": 6, "encoding": "utf8"})
    );
    scene
        .post(
            "/write-file",
            json!({"path": "bin", "content": "AP8=", "encoding": "base64"}),
        )
        .await;
    assert_eq!(std::fs::read(scene.ws().join("bin")).unwrap(), [0, 255]);
    let read = scene
        .post("/read-file", json!({"path": "bin", "encoding": "base64"}))
        .await;
    assert_eq!(
        (&read.json()["content"], &read.json()["encoding"]),
        (&json!("AP8="), &json!("base64"))
    );
    let read = scene
        .post(
            "/read-file",
            json!({"path": text(&scene.top.path().join("ro/file"))}),
        )
        .await;
    assert_eq!(read.json()["content"], "readable");

    std::os::unix::fs::symlink("../secret", scene.ws().join("link")).unwrap();
    std::os::unix::fs::symlink("..", scene.ws().join("up")).unwrap();
    for path in [
        "link",
        "up/secret",
        "../secret",
        "/etc/passwd",
        "none",
        "a",
        "",
        "/proc/self/environ",
    ] {
        let answer = scene.post("/read-file", json!({"path": path})).await;
        assert_eq!(
            (answer.status, &answer.json()["ok"]),
            (StatusCode::BAD_REQUEST, &json!(false)),
            "{path}"
        );
        assert!(answer.json()["error"].is_string());
    }
    let ro = scene.top.path().join("ro/file");
    for path in ["link", "up/new", "../new", "a", text(&ro)] {
        let answer = scene
            .post("/write-file", json!({"path": path, "content": "x"}))
            .await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
    }
    let bad = scene
        .post(
            "/write-file",
            json!({"path": "x", "content": "%", "encoding": "base64"}),
        )
        .await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        std::fs::read_to_string(scene.top.path().join("secret")).unwrap(),
        "secret"
    );
    assert_eq!(std::fs::read_to_string(&ro).unwrap(), "readable");
}

#[tokio::test]
async fn the_workspace_stays_the_directory_it_was() {
    let scene = scene().await;
    let outside = scene.top.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "secret").unwrap();
    std::fs::rename(scene.ws(), scene.top.path().join("moved")).unwrap();
    std::os::unix::fs::symlink(&outside, scene.ws()).unwrap();
    let read = scene.post("/read-file", json!({"path": "file"})).await;
    assert_eq!(read.json()["ok"], false);
    scene
        .post("/write-file", json!({"path": "file", "content": "x"}))
        .await;
    assert_eq!(
        std::fs::read_to_string(outside.join("file")).unwrap(),
        "secret"
    );
}

/// Sends one request over frames and gives every payload of the answer.
async fn frames(stream: &mut UnixStream, request: &[u8]) -> Vec<bytes::Bytes> {
    stream.write_all(request).await.unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    let mut chunk = bytes::Bytes::from(read);
    let mut decoder = FrameDecoder::new(1 << 20);
    let mut payloads = Vec::new();
    while let Some(payload) = decoder.decode(&mut chunk).unwrap() {
        payloads.push(payload);
    }
    decoder.finish().unwrap();
    payloads
}

fn frame(request: &Value) -> bytes::Bytes {
    encode_frame(request.to_string().as_bytes()).unwrap()
}

/// A worker that speaks on one private stream.
#[expect(clippy::disallowed_methods, reason = "the worker under test")]
fn private(workspace: &Path) -> (std::process::Child, UnixStream) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let output = theirs.try_clone().unwrap();
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_namzu-worker"))
        .args(["--listen", "stdio", "--workspace", text(workspace)])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(std::os::fd::OwnedFd::from(theirs))
        .stdout(std::os::fd::OwnedFd::from(output))
        .spawn()
        .unwrap();
    ours.set_nonblocking(true).unwrap();
    (child, UnixStream::from_std(ours).unwrap())
}

#[tokio::test]
async fn frames_answer_every_operation() {
    let top = tempfile::tempdir().unwrap();
    let cases = [
        (json!({"op": "healthz"}), vec![json!({"ok": true})]),
        (
            json!({"op": "healthz", "body": {}}),
            vec![json!({"ok": true})],
        ),
        (
            json!({"op": "write-file", "body": {"path": "f", "content": "aGk=", "encoding": "base64"}}),
            vec![json!({"ok": true, "bytesWritten": 2})],
        ),
        (
            json!({"op": "read-file", "body": {"path": "f", "encoding": "base64"}}),
            vec![json!({"ok": true, "content": "aGk=", "sizeBytes": 2, "encoding": "base64"})],
        ),
        (
            json!({"op": "nonsense", "body": {}}),
            vec![json!({"ok": false, "error": "unknown_op: nonsense"})],
        ),
    ];
    for (request, answers) in cases {
        let (mut child, mut stream) = private(top.path());
        let got = frames(&mut stream, &frame(&request)).await;
        let got: Vec<Value> = got
            .iter()
            .map(|payload| serde_json::from_slice(payload).unwrap())
            .collect();
        assert_eq!(got, answers, "{request}");
        child.wait().unwrap();
    }
    let (mut child, mut stream) = private(top.path());
    let request = frame(&json!({"op": "execute", "body": {"command": "echo", "args": ["hi"]}}));
    let got = frames(&mut stream, &request).await;
    assert_eq!(
        Event::from_json(&got[0]).unwrap(),
        Event::StdoutDelta {
            data: "hi\n".into()
        }
    );
    assert_eq!(result(&Event::from_json(&got[1]).unwrap()).exit_code, 0);
    assert_eq!((got.len(), got[2].len()), (3, 0));
    child.wait().unwrap();

    let (mut child, mut stream) = private(top.path());
    let got = frames(
        &mut stream,
        &frame(&json!({"op": "execute", "body": {"command": "x", "cwd": ".."}})),
    )
    .await;
    let Event::Error { error } = Event::from_json(&got[0]).unwrap() else {
        panic!("{got:?}")
    };
    assert!(error.starts_with("invalid_cwd"), "{error}");
    assert_eq!((got.len(), got[1].len()), (2, 0));
    child.wait().unwrap();
}

#[tokio::test]
async fn what_is_no_frame_is_dropped_without_an_answer() {
    let top = tempfile::tempdir().unwrap();
    for request in [
        &b"00000004\n{{{{"[..],
        b"00000002\n[]",
        b"00000000\n",
        b"ffffffff\n{",
        b"00000003\n\"\xff\"",
    ] {
        let (mut child, mut stream) = private(top.path());
        assert!(frames(&mut stream, request).await.is_empty(), "{request:?}");
        child.wait().unwrap();
    }
}

#[tokio::test]
async fn a_caller_that_leaves_kills_the_tree() {
    let top = tempfile::tempdir().unwrap();
    let (mut child, mut stream) = private(top.path());
    let script = "sleep 1000 & echo $!; echo $$; sleep 1000";
    stream
        .write_all(&frame(&json!({"op": "execute", "body": shell(script)})))
        .await
        .unwrap();
    let (mut decoder, mut read, mut pids) = (
        FrameDecoder::new(1 << 20),
        bytes::BytesMut::new(),
        String::new(),
    );
    while pids.lines().count() < 2 {
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
        let mut chunk = read.split().freeze();
        while let Some(payload) = decoder.decode(&mut chunk).unwrap() {
            if let Event::StdoutDelta { data } = Event::from_json(&payload).unwrap() {
                pids += &data;
            }
        }
    }
    drop(stream);
    // The private stream's end is the worker's, and it leaves nothing behind.
    tokio::task::spawn_blocking(move || child.wait().unwrap())
        .await
        .unwrap();
    for pid in pids.lines() {
        assert!(is_gone(pid), "{pid} lives");
    }
}

#[tokio::test]
async fn an_http_caller_that_leaves_kills_the_tree() {
    let scene = scene().await;
    let body = shell("echo $$; sleep 1000").to_string();
    let request = http::Request::post("http://worker/execute")
        .body(http_body_util::Full::new(bytes::Bytes::from(body)))
        .unwrap();
    let mut body = scene.worker.send(request).await.into_body();
    let line = http_body_util::BodyExt::frame(&mut body)
        .await
        .unwrap()
        .unwrap()
        .into_data()
        .unwrap();
    let Event::StdoutDelta { data } = Event::from_json(&line).unwrap() else {
        panic!("{line:?}")
    };
    drop(body);
    while !is_gone(data.trim()) {
        // Each call lets the worker's one thread go round.
        scene.worker.get("/health").await;
    }
}
