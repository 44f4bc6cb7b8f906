//! `GET /files`.

use std::io::Read as _;

use http::{Method, StatusCode};

use crate::harness::{Worker, quote};

#[tokio::test]
async fn a_file_is_sent_whole_with_its_name() {
    let worker = Worker::open().await;
    let big: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(worker.home().join("big"), &big).unwrap();
    let answer = worker.get("/files?path=big").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body == big);
    assert_eq!(answer.header("content-length"), big.len().to_string());
    assert_eq!(answer.header("content-disposition"), "inline; filename=big");

    let name = "a \"b\" 日\n";
    std::fs::write(worker.home().join(name), "x").unwrap();
    let answer = worker
        .get(&format!("/files?path={}", quote(name.as_bytes())))
        .await;
    assert_eq!(answer.body, "x");
    let expected = "inline; filename*=utf-8''a%20%22b%22%20%E6%97%A5%0A";
    assert_eq!(answer.header("content-disposition"), expected);

    std::fs::write(worker.home().join("empty"), "").unwrap();
    let answer = worker.get("/files?path=empty").await;
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (StatusCode::OK, "0")
    );
}

#[tokio::test]
async fn head_sends_everything_but_the_file() {
    let worker = Worker::open().await;
    std::fs::write(worker.home().join("file"), "hello").unwrap();
    let answer = worker.call(Method::HEAD, "/files?path=file", &[], "").await;
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (StatusCode::OK, "5")
    );
    assert!(answer.body.is_empty());
}

#[tokio::test]
async fn ranges_are_cut_to_the_file() {
    let worker = Worker::open().await;
    std::fs::write(worker.home().join("file"), "0123456789").unwrap();
    for (range, body, content_range) in [
        ("bytes=0-3", "0123", "bytes 0-3/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=-99", "0123456789", "bytes 0-9/10"),
        ("bytes=9-18446744073709551615", "9", "bytes 9-9/10"),
        ("bytes=9-99999999999999999999999", "9", "bytes 9-9/10"),
    ] {
        let answer = worker
            .get_with("/files?path=file", &[("range", range)])
            .await;
        assert_eq!(answer.status, StatusCode::PARTIAL_CONTENT, "{range}");
        assert_eq!(
            (&answer.body[..], answer.header("content-range")),
            (body.as_bytes(), content_range)
        );
        assert_eq!(answer.header("content-length"), body.len().to_string());
    }
    for range in [
        "bytes=10-",
        "bytes=10-20",
        "bytes=-0",
        "bytes=18446744073709551615-",
        "bytes=99999999999999999999-",
    ] {
        let answer = worker
            .get_with("/files?path=file", &[("range", range)])
            .await;
        assert_eq!(answer.status, StatusCode::RANGE_NOT_SATISFIABLE, "{range}");
        assert_eq!(answer.header("content-range"), "bytes */10");
    }
    for range in [
        "bytes=5-2",
        "bytes=-",
        "bytes=a-b",
        "lines=0-1",
        "bytes=0-1,3-4",
        "bytes=+1-2",
        "",
    ] {
        let answer = worker
            .get_with("/files?path=file", &[("range", range)])
            .await;
        assert_eq!(
            (answer.status, &answer.body[..]),
            (StatusCode::OK, &b"0123456789"[..]),
            "{range}"
        );
    }
}

#[tokio::test]
async fn conditions_are_weighed() {
    let worker = Worker::open().await;
    std::fs::write(worker.home().join("file"), "0123456789").unwrap();
    let first = worker.get("/files?path=file").await;
    let (etag, modified) = (
        first.header("etag").to_owned(),
        first.header("last-modified").to_owned(),
    );
    let old = "Thu, 01 Jan 1998 00:00:00 GMT";
    for (headers, status) in [
        (vec![("if-none-match", etag.as_str())], 304),
        (vec![("if-none-match", "\"other\", *")], 304),
        (vec![("if-none-match", "\"other\"")], 200),
        (vec![("if-modified-since", modified.as_str())], 304),
        (vec![("if-modified-since", old)], 200),
        (
            vec![
                ("if-modified-since", modified.as_str()),
                ("if-none-match", "\"other\""),
            ],
            200,
        ),
        (vec![("if-match", "\"other\"")], 412),
        (vec![("if-match", etag.as_str())], 200),
        (vec![("if-unmodified-since", old)], 412),
        (
            vec![("range", "bytes=0-0"), ("if-range", etag.as_str())],
            206,
        ),
        (
            vec![("range", "bytes=0-0"), ("if-range", modified.as_str())],
            206,
        ),
        (vec![("range", "bytes=0-0"), ("if-range", "\"other\"")], 200),
        (vec![("range", "bytes=0-0"), ("if-range", old)], 200),
    ] {
        let answer = worker.get_with("/files?path=file", &headers).await;
        assert_eq!(answer.status.as_u16(), status, "{headers:?}");
        assert!(status != 304 || answer.body.is_empty());
    }
    std::fs::write(worker.home().join("file"), "0123456789").unwrap();
    let again = worker.get("/files?path=file").await;
    assert_ne!(again.header("etag"), etag);
}

#[tokio::test]
async fn gzip_is_sent_to_who_takes_it() {
    let worker = Worker::open().await;
    let content = "hello ".repeat(200_000);
    std::fs::write(worker.home().join("file"), &content).unwrap();
    let answer = worker
        .get_with("/files?path=file", &[("accept-encoding", "br, gzip")])
        .await;
    assert_eq!(answer.header("content-encoding"), "gzip");
    assert!(answer.body.len() < content.len() / 10);
    let mut plain = String::new();
    flate2::read::GzDecoder::new(&answer.body[..])
        .read_to_string(&mut plain)
        .unwrap();
    assert!(plain == content);
    for accepted in ["identity", "gzip;q=0", "br", "*"] {
        let answer = worker
            .get_with("/files?path=file", &[("accept-encoding", accepted)])
            .await;
        assert_eq!(
            (answer.status, answer.header("content-encoding")),
            (StatusCode::OK, ""),
            "{accepted}"
        );
    }
    let answer = worker
        .get_with(
            "/files?path=file",
            &[("accept-encoding", "identity;q=0, br")],
        )
        .await;
    assert_eq!(answer.status, StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn what_is_no_file_is_told_apart() {
    let worker = Worker::open().await;
    let fifo = worker.home().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    for (query, status) in [
        ("path=/", 400),
        ("path=fifo", 400),
        ("path=/dev/zero", 400),
        ("path=none", 404),
        ("", 400),
        ("path=", 400),
        ("path=a&path=b", 400),
        ("path=%zz", 400),
        ("path=a%00b", 400),
        ("path=/proc/self/root/etc/passwd", 403),
    ] {
        let answer = worker.get(&format!("/files?{query}")).await;
        assert_eq!(answer.status.as_u16(), status, "{query}");
        assert_eq!(answer.json()["code"], status, "{query}");
    }
    let answer = worker.call(Method::DELETE, "/files?path=x", &[], "").await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn files_of_the_kernel_are_read_though_they_say_they_are_empty() {
    let worker = Worker::open().await;
    let answer = worker
        .get(&format!("/files?path=/proc/{}/status", worker.pid()))
        .await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.starts_with(b"Name:"));
    let answer = worker.get("/files?path=/proc/meminfo").await;
    assert!(answer.body.starts_with(b"MemTotal"));
}
