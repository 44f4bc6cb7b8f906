//! Bodies, both ways.

use super::*;
use crate::http::body::{Body, Next};

/// `POST` to the host, with these lines.
async fn post(scene: &mut Scene, lines: &str) {
    scene
        .send(&format!(
            "POST http://{HOST}:PORT/ HTTP/1.1\r\nHost: x.test\r\n{lines}"
        ))
        .await;
}

#[tokio::test]
async fn row_70_and_76_a_chunked_body_is_framed_anew_without_extensions_and_trailers() {
    let mut scene = scene().await;
    post(&mut scene, "Transfer-Encoding: chunked\r\nTrailer: x\r\n\r\n005;a=b\r\nhello\r\n0\r\nAuthorization: x\r\n\r\n").await;
    let mut server = scene.accept().await;
    let text = server.until("0\r\n\r\n").await;
    let framed = "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(
        text,
        format!("POST / HTTP/1.1\r\nhost: {HOST}:{}\r\n{framed}", scene.port)
    );
}

#[tokio::test]
async fn row_77_a_body_is_asked_for_only_after_the_policy_was() {
    let mut allowed = scene().await;
    post(
        &mut allowed,
        "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n",
    )
    .await;
    assert_eq!(
        allowed.told("\r\n\r\n").await,
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    let mut server = allowed.accept().await;
    assert!(!server.head().await.contains("expect"));
    allowed.send("body").await;
    server.until("body").await;
    server.ok().await;
    allowed.told("ok").await;

    let denied = "POST http://evil.example.com:PORT/ HTTP/1.1\r\nHost: x.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    scene().await.refused(denied, 403, Reason::NotListed).await;
}

#[tokio::test]
async fn a_body_goes_both_ways_at_once_and_arrives_whole() {
    const LENGTH: usize = 8 * 1024 * 1024;
    let mut scene = scene().await;
    let mut head = format!(
        "POST http://{HOST}:{}/ HTTP/1.1\r\nHost: x.test\r\n",
        scene.port
    );
    head.push_str(&format!(
        "Content-Length: {LENGTH}\r\nConnection: close\r\n\r\n"
    ));
    let Scene {
        outside,
        program,
        served,
        ..
    } = &mut scene;
    let body: Vec<u8> = (0..LENGTH)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect();
    let (mut read, mut write) = program.split();
    let sent = async {
        write.write_all(head.as_bytes()).await.unwrap();
        write.write_all(&body).await.unwrap();
    };
    let echoed = async {
        let mut server = Accepted(outside.accept().await.unwrap().0);
        server.head().await;
        server
            .say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            .await;
        let mut left = LENGTH;
        let mut buffer = vec![0; 100_000];
        while left > 0 {
            let got = server.0.read(&mut buffer).await.unwrap();
            server.say(&format!("{got:x}\r\n")).await;
            server.0.write_all(&buffer[..got]).await.unwrap();
            server.say("\r\n").await;
            left -= got;
        }
        server.say("0\r\n\r\n").await;
    };
    let mut answer = Vec::new();
    let (_, (), ()) = tokio::join!(read.read_to_end(&mut answer), sent, echoed);
    served.await.unwrap();
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap()
        + 4;
    let mut decoder = Body::new(Framing::Chunked);
    let mut rest = BytesMut::from(&answer[end..]);
    let mut whole = Vec::new();
    let last = loop {
        match decoder.next(&mut rest).unwrap() {
            Next::Data(length) => whole.extend_from_slice(&rest.split_to(length)),
            last => break last,
        }
    };
    assert!(whole == body && matches!(last, Next::End));
}

#[tokio::test]
async fn a_server_that_answers_before_the_body_has_come_is_heard() {
    let mut scene = scene().await;
    post(&mut scene, "Content-Length: 1000000\r\n\r\nbeginning").await;
    let mut server = scene.accept().await;
    server.until("beginning").await;
    server
        .say("HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        .await;
    assert!(scene.rest().await.ends_with("\r\n\r\nno"));
}

#[tokio::test]
async fn a_body_that_makes_no_sense_is_refused_and_never_looks_whole() {
    let mut scene = scene().await;
    post(
        &mut scene,
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    )
    .await;
    let mut server = scene.accept().await;
    server.until("5\r\nhello\r\n").await;
    scene.send("nonsense\r\n").await;
    let text = scene.rest().await;
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    let why = server.0.read_u8().await.unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_response_that_breaks_off_never_looks_whole() {
    for head in ["content-length: 9", "transfer-encoding: chunked"] {
        let mut scene = scene().await;
        scene.get("").await;
        let mut server = scene.accept().await;
        server.head().await;
        server
            .say(&format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n"))
            .await;
        scene.told("\r\n\r\n").await;
        drop(server);
        let why = scene.program.read_u8().await.unwrap_err();
        assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset, "{head}");
    }
}

#[tokio::test]
async fn a_body_that_ends_with_its_connection_is_framed_for_who_understands_it() {
    for (version, body) in [("1.1", "2\r\nok\r\n0\r\n\r\n"), ("1.0", "ok")] {
        let mut scene = scene().await;
        scene.send(&format!("GET http://{HOST}:PORT/ HTTP/{version}\r\nHost: x.test\r\nConnection: close\r\n\r\n")).await;
        let mut server = scene.accept().await;
        server.head().await;
        server.say("HTTP/1.1 200 OK\r\n\r\nok").await;
        drop(server);
        let text = scene.rest().await;
        assert_eq!(text.split_once("\r\n\r\n").unwrap().1, body, "{text}");
    }
}

#[tokio::test]
async fn an_answer_to_head_has_a_length_and_no_body() {
    let mut scene = scene().await;
    scene
        .send(&format!(
            "HEAD http://{HOST}:PORT/ HTTP/1.1\r\nHost: x.test\r\n\r\n"
        ))
        .await;
    let mut server = scene.accept().await;
    server.head().await;
    server
        .say("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        .await;
    let text = scene.told("\r\n\r\n").await;
    assert!(text.contains("content-length: 1000\r\n"), "{text}");
    scene.get("").await;
    assert!(server.head().await.starts_with("GET / "));
}
