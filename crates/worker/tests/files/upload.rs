//! `POST /files`.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::json;

use crate::harness::{Answer, Worker, at, text};

const OCTETS: (&str, &str) = ("content-type", "application/octet-stream");

#[tokio::test]
async fn a_body_becomes_a_file_with_parents_and_mode() {
    let worker = Worker::open().await;
    let big: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let path = worker.home().join("a/b/big");
    let answer = worker.put("a/b/big", big.clone()).await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    assert_eq!(
        answer.json(),
        json!([{"name": "big", "path": text(&path), "type": "file"}])
    );
    assert!(std::fs::read(&path).unwrap() == big);
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o644);
    // Shorter content leaves nothing of the longer one, in the same file.
    let inode = path.metadata().unwrap().ino();
    worker.put("a/b/big", "short").await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "short");
    assert_eq!(path.metadata().unwrap().ino(), inode);
    worker.put("a/b/big", "").await;
    assert_eq!(path.metadata().unwrap().len(), 0);
}

#[tokio::test]
async fn any_byte_can_be_in_a_name() {
    let worker = Worker::open().await;
    let uri = "/files?path=odd%ff%0A%09%20%C3%28";
    let answer = worker.call(Method::POST, uri, &[OCTETS], "x").await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    let name = OsStr::from_bytes(b"odd\xff\n\t \xc3(");
    assert_eq!(std::fs::read(worker.home().join(name)).unwrap(), b"x");
    assert_eq!(worker.get(uri).await.body, "x");
    // As the answer names it, it is found again.
    let path = answer.json()[0]["path"].clone();
    assert_eq!(
        worker.rpc("Stat", json!({"path": path})).await.status,
        StatusCode::OK
    );
}

fn form(files: &[(&str, &str)]) -> Bytes {
    let mut body = String::new();
    for (name, content) in files {
        body += &format!(
            "--B\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             content-type: text/plain\r\n\r\n{content}\r\n"
        );
    }
    (body + "--B--\r\n").into()
}

async fn send_form(worker: &Worker, uri: &str, body: impl Into<Bytes>) -> Answer {
    worker
        .call(
            Method::POST,
            uri,
            &[("content-type", "multipart/form-data; boundary=B")],
            body,
        )
        .await
}

#[tokio::test]
async fn a_form_becomes_files() {
    let worker = Worker::open().await;
    let other = worker.home().join("sub/two");
    let answer = send_form(
        &worker,
        "/files",
        form(&[("one", "1"), (text(&other), "2\r\n--")]),
    )
    .await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    assert_eq!(answer.json().as_array().unwrap().len(), 2);
    assert_eq!(
        std::fs::read_to_string(worker.home().join("one")).unwrap(),
        "1"
    );
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "2\r\n--");

    let answer = send_form(&worker, "/files?path=renamed", form(&[("ignored", "x")])).await;
    assert_eq!(answer.json()[0]["name"], "renamed");
    let unnamed = "--B\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\ny\r\n--B--";
    assert_eq!(
        send_form(&worker, "/files?path=renamed", unnamed)
            .await
            .status,
        StatusCode::OK
    );
    assert_eq!(
        std::fs::read_to_string(worker.home().join("renamed")).unwrap(),
        "y"
    );
    assert!(!worker.home().join("ignored").exists());
}

#[tokio::test]
async fn malformed_forms_are_refused() {
    let worker = Worker::open().await;
    let unnamed = "--B\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\ny\r\n--B--";
    for (uri, body) in [
        ("/files?path=a", form(&[("x", "1"), ("y", "2")])),
        ("/files", form(&[("same", "1"), ("same", "2")])),
        ("/files", unnamed.into()),
        (
            "/files",
            "--B\r\ncontent-disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\nno end"
                .into(),
        ),
        ("/files", "no form at all".into()),
        ("/files", "".into()),
        ("/files", form(&[("a\0b", "x")])),
        ("/files", form(&[("/", "x")])),
    ] {
        let answer = send_form(&worker, uri, body.clone()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body:?}");
    }
    for kind in ["multipart/form-data", "text/plain", ""] {
        let answer = worker
            .call(
                Method::POST,
                "/files?path=x",
                &[("content-type", kind)],
                "x",
            )
            .await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{kind}");
    }
    let answer = worker.call(Method::POST, "/files", &[OCTETS], "x").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn compressed_bodies_are_unpacked_and_torn_ones_refused() {
    let worker = Worker::open().await;
    let content = "hello ".repeat(500_000);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let headers = [OCTETS, ("content-encoding", "gzip")];
    let uri = "/files?path=file";
    let answer = worker
        .call(Method::POST, uri, &headers, packed.clone())
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    assert!(std::fs::read_to_string(worker.home().join("file")).unwrap() == content);
    let torn = worker
        .call(
            Method::POST,
            uri,
            &headers,
            packed[..packed.len() - 9].to_vec(),
        )
        .await;
    assert_eq!(torn.status, StatusCode::BAD_REQUEST);
    let wrong = worker.call(Method::POST, uri, &headers, "not gzip").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    let unknown = worker
        .call(
            Method::POST,
            uri,
            &[OCTETS, ("content-encoding", "br")],
            "x",
        )
        .await;
    assert_eq!(unknown.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_gzip_bomb_passes_through_a_small_buffer() {
    let worker = Worker::start(&[], &[]).await;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    for _ in 0..256 {
        encoder.write_all(&zeros).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    let before = peak(&worker);
    let headers = [OCTETS, ("content-encoding", "gzip")];
    let answer = worker
        .call(Method::POST, "/files?path=bomb", &headers, bomb)
        .await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(
        worker.home().join("bomb").metadata().unwrap().len(),
        256 << 20
    );
    let grown = peak(&worker) - before;
    assert!(grown < 16 << 10, "the worker grew by {grown} KiB");
}

/// The most memory the worker ever held, in KiB.
fn peak(worker: &Worker) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn directories_are_not_overwritten_and_links_are_followed() {
    let worker = Worker::open().await;
    std::fs::create_dir(worker.home().join("dir")).unwrap();
    assert_eq!(worker.put("dir", "x").await.status, StatusCode::BAD_REQUEST);
    std::fs::write(worker.home().join("file"), "old").unwrap();
    symlink("file", worker.home().join("link")).unwrap();
    assert_eq!(worker.put("link", "new").await.status, StatusCode::OK);
    assert_eq!(
        std::fs::read_to_string(worker.home().join("file")).unwrap(),
        "new"
    );
    assert!(worker.home().join("link").is_symlink());
    assert_eq!(
        worker.put("file/below", "x").await.status,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test]
async fn metadata_is_stored_told_and_replaced() {
    let worker = Worker::open().await;
    let path = worker.home().join("file");
    let headers = [
        OCTETS,
        ("x-metadata-author", "me"),
        ("x-metadata-kind", "test"),
    ];
    let answer = worker
        .call(Method::POST, "/files?path=file", &headers, "x")
        .await;
    if answer.status != StatusCode::OK {
        panic!("this file system stores no attributes: {:?}", answer.body);
    }
    let both = json!({"author": "me", "kind": "test"});
    assert_eq!(answer.json()[0]["metadata"], both);
    assert_eq!(
        worker.rpc("Stat", at(&path)).await.json()["entry"]["metadata"],
        both
    );
    let headers = [OCTETS, ("x-metadata-kind", "other")];
    worker
        .call(Method::POST, "/files?path=file", &headers, "x")
        .await;
    let entry = worker.rpc("Stat", at(&path)).await.json()["entry"].clone();
    assert_eq!(entry["metadata"], json!({"kind": "other"}));
    let many: Vec<(String, String)> = (0..65)
        .map(|n| (format!("x-metadata-{n}"), "v".into()))
        .collect();
    let mut headers: Vec<(&str, &str)> =
        many.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    headers.push(OCTETS);
    let answer = worker
        .call(Method::POST, "/files?path=file", &headers, "x")
        .await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}
