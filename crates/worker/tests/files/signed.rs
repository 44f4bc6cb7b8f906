//! Signed `/files` on a listener that others can reach.

use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use namzu_protocol::query::FilesQuery;
use namzu_protocol::signature::{Operation, sign};
use tokio::net::UnixStream;

use crate::harness::{Answer, TOKEN, Worker, read};

/// One request on the reachable listener, without the token.
async fn knock(worker: &Worker, method: Method, uri: &str, body: &'static str) -> Answer {
    let io = TokioIo::new(UnixStream::connect(&worker.socket).await.unwrap());
    let (mut calls, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("host", "worker")
        .header("content-type", "application/octet-stream")
        .body(Full::new(bytes::Bytes::from_static(body.as_bytes())))
        .unwrap();
    read(calls.send_request(request).await.unwrap()).await
}

fn signed(path: &str, operation: Operation, expiration: Option<u64>) -> FilesQuery {
    FilesQuery {
        path: Some(path.into()),
        username: None,
        signature: Some(sign(path, operation, "", TOKEN, expiration)),
        signature_expiration: expiration,
    }
}

#[tokio::test]
async fn a_signature_opens_exactly_what_it_signs() {
    let worker = Worker::open().await;
    std::fs::write(worker.home().join("file"), "hello").unwrap();
    std::fs::write(worker.home().join("other"), "secret").unwrap();
    let get = async |query: &FilesQuery| {
        knock(
            &worker,
            Method::GET,
            &format!("/files?{}", query.build()),
            "",
        )
        .await
    };

    for expiration in [None, Some(u64::MAX), Some(4_000_000_000)] {
        let answer = get(&signed("file", Operation::Read, expiration)).await;
        assert_eq!(
            (answer.status, &answer.body[..]),
            (StatusCode::OK, &b"hello"[..]),
            "{expiration:?}"
        );
    }
    let good = signed("file", Operation::Read, Some(4_000_000_000));
    let tampered = [
        FilesQuery {
            path: Some("other".into()),
            ..good.clone()
        },
        FilesQuery {
            path: None,
            ..good.clone()
        },
        FilesQuery {
            username: Some("root".into()),
            ..good.clone()
        },
        FilesQuery {
            signature_expiration: None,
            ..good.clone()
        },
        FilesQuery {
            signature_expiration: Some(4_000_000_001),
            ..good.clone()
        },
        FilesQuery {
            signature: Some("v1_".into()),
            ..good.clone()
        },
        FilesQuery {
            signature: None,
            ..good.clone()
        },
        signed("file", Operation::Write, Some(4_000_000_000)),
        signed("file", Operation::Read, Some(0)),
        signed("file", Operation::Read, Some(1_000_000_000)),
    ];
    for query in tampered {
        let answer = get(&query).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{query:?}");
        assert_eq!(answer.json()["code"], 401);
    }
    // Read is not write, and a second path is not smuggled in.
    let write = format!("/files?{}", good.build());
    assert_eq!(
        knock(&worker, Method::POST, &write, "x").await.status,
        StatusCode::UNAUTHORIZED
    );
    let smuggled = format!("/files?{}&path=other", good.build());
    let answer = knock(&worker, Method::GET, &smuggled, "").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        std::fs::read_to_string(worker.home().join("file")).unwrap(),
        "hello"
    );
}

#[tokio::test]
async fn a_signature_for_writing_writes() {
    let worker = Worker::open().await;
    let uri = format!("/files?{}", signed("new", Operation::Write, None).build());
    let answer = knock(&worker, Method::POST, &uri, "content").await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    assert_eq!(
        std::fs::read_to_string(worker.home().join("new")).unwrap(),
        "content"
    );
}

#[tokio::test]
async fn a_signature_opens_nothing_but_files() {
    let worker = Worker::open().await;
    let query = signed("/etc", Operation::Read, None).build();
    for uri in [
        "/ext/v1/tar",
        "/filesystem.Filesystem/Stat",
        "/read-file",
        "/execute",
    ] {
        for method in [Method::GET, Method::POST] {
            let answer = knock(&worker, method, &format!("{uri}?{query}"), "{}").await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{uri}");
        }
    }
}
