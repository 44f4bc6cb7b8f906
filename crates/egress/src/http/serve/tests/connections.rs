//! Many requests on one connection, and one connection for many requests.

use super::*;

#[tokio::test]
async fn row_73_pipelined_requests_are_judged_one_by_one() {
    let mut scene = scene().await;
    scene
        .send(
            "GET http://api.example.com:PORT/1 HTTP/1.1\r\nHost: x.test\r\n\r\n\
             GET http://evil.example.com:PORT/2 HTTP/1.1\r\nHost: x.test\r\n\r\n\
             GET http://api.example.com:PORT/3 HTTP/1.1\r\nHost: x.test\r\nConnection: close\r\n\r\n",
        )
        .await;
    let mut server = scene.accept().await;
    assert!(server.head().await.starts_with("GET /1 "));
    server.ok().await;
    assert!(server.head().await.starts_with("GET /3 "));
    server.ok().await;
    let text = scene.rest().await;
    let statuses: Vec<_> = text
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| &answer[..3])
        .collect();
    assert_eq!(statuses, ["200", "403", "200"], "{text}");
}

#[tokio::test]
async fn a_connection_that_closed_meanwhile_is_made_anew() {
    let mut scene = scene().await;
    scene.get("").await;
    let mut server = scene.accept().await;
    server.head().await;
    server.ok().await;
    scene.told("ok").await;
    scene.get("").await;
    // It has taken the request and closes without a word, as if the two had crossed.
    server.head().await;
    drop(server);
    let mut server = scene.accept().await;
    server.head().await;
    server.ok().await;
    assert!(scene.told("ok").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_request_that_cannot_be_repeated_is_not() {
    let mut scene = scene().await;
    scene.get("").await;
    let mut server = scene.accept().await;
    server.head().await;
    server.ok().await;
    scene.told("ok").await;
    scene.send("POST http://api.example.com:PORT/ HTTP/1.1\r\nHost: x.test\r\nConnection: close\r\n\r\n").await;
    server.head().await;
    drop(server);
    let text = scene.rest().await;
    assert!(text.starts_with("HTTP/1.1 502 "), "{text}");
    assert_nothing_came(&scene.outside);
}

#[tokio::test]
async fn a_denied_request_leaves_the_connection_where_nothing_is_still_to_come() {
    let mut scene = scene().await;
    scene
        .send("GET http://evil.example.com:PORT/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
        .await;
    let text = scene.told("}\n").await;
    assert!(
        text.starts_with("HTTP/1.1 403 ") && !text.contains("connection: close"),
        "{text}"
    );
    scene.send("POST http://evil.example.com:PORT/ HTTP/1.1\r\nHost: x.test\r\nContent-Length: 4\r\n\r\nbody").await;
    let text = scene.rest().await;
    assert!(
        text.starts_with("HTTP/1.1 403 ") && text.contains("connection: close"),
        "{text}"
    );
}

#[tokio::test]
async fn a_host_that_does_not_answer_is_told_from_one_that_is_denied() {
    let mut scene = scene().await;
    scene.outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    scene.get("Connection: close\r\n").await;
    let text = scene.rest().await;
    assert!(
        text.starts_with("HTTP/1.1 502 ") && text.contains("dial_failed"),
        "{text}"
    );
}

#[tokio::test]
async fn row_101_a_websocket_is_a_tunnel_after_its_answer() {
    let mut scene = scene().await;
    scene
        .get("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n")
        .await;
    let mut server = scene.accept().await;
    let head = server.head().await;
    assert!(
        head.contains("sec-websocket-key: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"),
        "{head}"
    );
    server.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst").await;
    let text = scene.told("first").await;
    assert!(
        text.contains("connection: upgrade\r\nupgrade: websocket\r\n\r\nfirst"),
        "{text}"
    );
    scene.send("GET / anything").await;
    assert_eq!(server.until("anything").await, "GET / anything");
    server.say("HTTP/1.1 whatever").await;
    scene.told("HTTP/1.1 whatever").await;
    drop(server);
    assert_eq!(scene.rest().await, "");
}

#[tokio::test]
async fn a_websocket_that_is_refused_is_a_response_like_others() {
    let mut scene = scene().await;
    scene
        .get("Connection: Upgrade\r\nUpgrade: websocket\r\n")
        .await;
    let mut server = scene.accept().await;
    server.head().await;
    server.ok().await;
    scene.told("ok").await;
    scene.get("").await;
    assert!(server.head().await.starts_with("GET / "));
}

#[tokio::test]
async fn a_client_that_breaks_off_ends_the_wait_for_its_response() {
    let mut scene = scene().await;
    scene.get("").await;
    let mut server = scene.accept().await;
    server.head().await;
    scene.program.set_zero_linger().unwrap();
    drop(scene.program);
    let why = server.0.read_u8().await.unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset);
    scene.served.await.unwrap();
}

#[tokio::test]
async fn interim_responses_are_passed_on_before_the_response() {
    let mut scene = scene().await;
    scene.get("Connection: close\r\n").await;
    let mut server = scene.accept().await;
    server.head().await;
    server
        .say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        .await;
    server.ok().await;
    let text = scene.rest().await;
    assert!(
        text.starts_with("HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n"),
        "{text}"
    );
}
