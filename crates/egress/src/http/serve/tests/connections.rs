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

/// A scene under other rules for the host; `PORT` in them is its port.
async fn under(rules: &str) -> Scene {
    let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = outside.local_addr().unwrap().port();
    let rules = policy(&rules.replace("PORT", &port.to_string()));
    let lookup = crate::place::testing::outside(Table::loopback(&[HOST]));
    let place = crate::place::testing::place_with(&rules, lookup).await;
    served(outside, port, place, Origin::Proxy).await
}

#[tokio::test]
async fn a_connection_into_a_private_range_is_not_shared_with_a_rule_that_does_not_open_it() {
    let mut scene = under(
        r#"{"kind": "static", "rules": [
            {"host": "api.example.com", "ports": [PORT], "scheme": "http", "paths": ["/in/"], "inward": ["127.0.0.1/32"]},
            {"host": "api.example.com", "ports": [PORT], "scheme": "http", "paths": ["/open/"]}]}"#,
    )
    .await;
    let ask = |path: &str| {
        format!("GET http://api.example.com:PORT{path} HTTP/1.1\r\nHost: x.test\r\n\r\n")
    };
    scene.send(&ask("/in/")).await;
    let mut server = scene.accept().await;
    server.head().await;
    server.ok().await;
    scene.told("ok").await;
    scene.send(&ask("/open/")).await;
    let text = scene.told("}\n").await;
    assert!(text.contains("x-egress-reason: address_private"), "{text}");
    // For those who may lead there it is still there.
    scene.send(&ask("/in/2")).await;
    assert!(server.head().await.starts_with("GET /in/2 "));
    assert_nothing_came(&scene.outside);
}

#[tokio::test]
async fn a_refused_head_has_no_body_that_would_be_taken_for_the_next_answer() {
    let mut scene = under(
        r#"{"kind": "static",
            "rules": [
                {"host": "api.example.com", "ports": [PORT], "scheme": "http", "inward": ["127.0.0.1/32"]},
                {"host": "git.example.com", "credential": "git"}],
            "credentials": {"git": {"mode": "sentinel", "source": "a-secret-of-the-host", "env": "GIT"}}}"#,
    )
    .await;
    let standin = scene.place.regime.load().broker.env()["GIT"].clone();
    scene
        .send(&format!(
            "HEAD http://api.example.com:PORT/ HTTP/1.1\r\nHost: x.test\r\nX-A: {standin}\r\n\r\n"
        ))
        .await;
    scene.get("Connection: close\r\n").await;
    let mut server = scene.accept().await;
    server.head().await;
    server.ok().await;
    let text = scene.rest().await;
    let (refused, answer) = text.split_once("\r\n\r\n").unwrap();
    assert!(refused.contains("credential_misuse"), "{text}");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{text}");
}
