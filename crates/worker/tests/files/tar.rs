//! `/ext/v1/tar`.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;

use http::{Method, StatusCode};

use crate::harness::{Worker, text};

#[tokio::test]
async fn a_tree_goes_out_and_comes_back() {
    let worker = Worker::open().await;
    let from = worker.home().join("from");
    std::fs::create_dir_all(from.join("sub")).unwrap();
    std::fs::write(from.join("sub/file"), vec![1; 2_000_000]).unwrap();
    symlink("sub/file", from.join("link")).unwrap();
    for packed in [false, true] {
        let to = worker.home().join(format!("to-{packed}"));
        let accept = [("accept-encoding", if packed { "gzip" } else { "identity" })];
        let out = worker.get_with("/ext/v1/tar?path=from", &accept).await;
        assert_eq!(out.status, StatusCode::OK);
        assert_eq!(
            out.header("content-encoding"),
            if packed { "gzip" } else { "" }
        );
        assert_eq!(out.header("content-type"), "application/x-tar");
        let encoding = [("content-encoding", if packed { "gzip" } else { "identity" })];
        let uri = format!("/ext/v1/tar?path={}", text(&to));
        let back = worker.call(Method::POST, &uri, &encoding, out.body).await;
        assert_eq!(back.status, StatusCode::OK, "{:?}", back.body);
        assert!(std::fs::read(to.join("link")).unwrap() == vec![1; 2_000_000]);
    }
    let one = worker
        .get_with(
            "/ext/v1/tar?path=from/sub/file",
            &[("accept-encoding", "identity")],
        )
        .await;
    assert!(one.body.starts_with(b"file\0"));
    assert_eq!(
        worker.get("/ext/v1/tar?path=none").await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        worker.get("/ext/v1/tar").await.status,
        StatusCode::BAD_REQUEST
    );
}

/// A header by hand, as an attacker writes it.
fn entry(name: &str, kind: u8, link: &str, content: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..107].copy_from_slice(b"0000644");
    block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    block[136..147].copy_from_slice(b"00000000000");
    block[148..156].fill(b' ');
    block[156] = kind;
    block[157..157 + link.len()].copy_from_slice(link.as_bytes());
    block[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block.extend_from_slice(content);
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

#[tokio::test]
async fn slips_leave_nothing_outside() {
    let keep = tempfile::tempdir().unwrap();
    let top = keep.path().canonicalize().unwrap();
    for dir in ["ws/in", "ro", "out"] {
        std::fs::create_dir_all(top.join(dir)).unwrap();
    }
    let worker = Worker::confined(&top.join("ws"), &top.join("ro")).await;
    let out = text(&top).to_owned() + "/out";
    let victim = out.clone() + "/victim";
    for stream in [
        entry("../victim", b'0', "", b"x"),
        entry("../../out/victim", b'0', "", b"x"),
        entry(&victim, b'0', "", b"x"),
        [
            entry("l", b'2', &out, b""),
            entry("l/victim", b'0', "", b"x"),
        ]
        .concat(),
        [
            entry("l", b'2', "../../out", b""),
            entry("l/victim", b'0', "", b"x"),
        ]
        .concat(),
        [
            entry("l", b'2', "../../out/victim", b""),
            entry("l", b'1', "l", b""),
            entry("l/", b'5', "", b""),
        ]
        .concat(),
        entry("h", b'1', "../../out/secret", b""),
        entry("dev", b'3', "", b""),
    ] {
        let answer = worker
            .call(
                Method::POST,
                &format!("/ext/v1/tar?path={}/ws/in", text(&top)),
                &[],
                stream,
            )
            .await;
        assert!(answer.status.is_client_error(), "{answer:?}");
        assert_eq!(top.join("out").read_dir().unwrap().count(), 0);
        assert!(!top.join("ws/victim").exists());
    }
    let file = entry("x", b'0', "", b"x");
    for path in ["ro", "out", "ws/../out"] {
        let uri = format!("/ext/v1/tar?path={}/{path}", text(&top));
        let answer = worker.call(Method::POST, &uri, &[], file.clone()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn a_bomb_in_gzip_does_not_grow_the_worker() {
    let worker = Worker::open().await;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // A name of 8 GiB: refused by its header, however much of it follows.
    let mut long = entry("././@LongLink", b'L', "", b"");
    long[124..135].copy_from_slice(b"77777777777");
    long[148..156].fill(b' ');
    let sum: u32 = long.iter().map(|byte| u32::from(*byte)).sum();
    long[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    encoder.write_all(&long).unwrap();
    encoder.write_all(&vec![b'a'; 8 << 20]).unwrap();
    let body = encoder.finish().unwrap();
    let answer = worker
        .call(
            Method::POST,
            "/ext/v1/tar?path=to",
            &[("content-encoding", "gzip")],
            body,
        )
        .await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    let mut text = String::new();
    flate2::read::GzDecoder::new(
        &worker
            .get_with("/ext/v1/tar?path=to", &[("accept-encoding", "gzip")])
            .await
            .body[..],
    )
    .read_to_string(&mut text)
    .unwrap();
    assert!(text.bytes().all(|byte| byte == 0), "nothing was unpacked");
}
