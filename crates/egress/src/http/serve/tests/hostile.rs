//! What a program must not get through, and how it is told.

use super::*;

#[tokio::test]
async fn row_79_and_81_the_host_field_is_written_from_the_target() {
    let mut scene = scene().await;
    scene
        .send(&format!(
            "GET http://{HOST}:PORT/a?b HTTP/1.1\r\nHost: evil.test:22\r\n\r\n"
        ))
        .await;
    let mut server = scene.accept().await;
    let head = server.head().await;
    assert_eq!(
        head,
        format!("GET /a?b HTTP/1.1\r\nhost: {HOST}:{}\r\n\r\n", scene.port)
    );
}

#[tokio::test]
async fn row_80_the_target_is_what_is_judged() {
    let mut scene = scene().await;
    scene.send(&format!("GET http://evil.example.com:PORT/ HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n")).await;
    let text = scene.rest().await;
    assert!(text.starts_with("HTTP/1.1 403 "), "{text}");
    assert_nothing_came(&scene.outside);
}

#[tokio::test]
async fn row_82_a_request_to_a_server_is_not_for_a_proxy() {
    let request = "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    scene()
        .await
        .refused(request, 400, Reason::RequestMalformed)
        .await;
}

#[tokio::test]
async fn a_request_to_a_proxy_is_not_for_a_server() {
    let request = "GET http://api.example.com:PORT/ HTTP/1.1\r\nHost: api.example.com:PORT\r\n\r\n";
    let scene = scene().await.fixed().await;
    scene.refused(request, 400, Reason::RequestMalformed).await;
}

#[tokio::test]
async fn row_86_a_request_for_another_host_than_the_connection_is_misdirected() {
    for host in ["evil.example.com:PORT", "api.example.com:1"] {
        let scene = scene().await.fixed().await;
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        scene.refused(&request, 421, Reason::HostMismatch).await;
    }
}

#[tokio::test]
async fn row_89_and_connect_within_are_refused() {
    for line in [
        "TRACE http://api.example.com:PORT/",
        "CONNECT api.example.com:PORT",
    ] {
        let request = format!("{line} HTTP/1.1\r\nHost: api.example.com:PORT\r\n\r\n");
        scene()
            .await
            .refused(&request, 405, Reason::TraceRefused)
            .await;
    }
}

#[tokio::test]
async fn row_58_what_follows_an_ambiguous_request_is_never_taken_for_one() {
    let request = "POST http://api.example.com:PORT/ HTTP/1.1\r\nHost: x.test\r\nContent-Length: 5\r\n\
                   Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://api.example.com:PORT/ HTTP/1.1\r\n\r\n";
    scene()
        .await
        .refused(request, 400, Reason::RequestMalformed)
        .await;
}

#[tokio::test]
async fn row_66_bare_line_feeds_are_answered_at_once() {
    let request = "GET http://api.example.com:PORT/ HTTP/1.1\nHost: x.test\n\n";
    scene()
        .await
        .refused(request, 400, Reason::RequestMalformed)
        .await;
}

#[tokio::test]
async fn row_75_http_2_is_not_spoken_in_the_clear() {
    let request = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    scene()
        .await
        .refused(request, 400, Reason::RequestMalformed)
        .await;
}

#[tokio::test]
async fn row_104_a_head_of_100_kilobytes_is_told_that_it_is_too_large() {
    let request = format!(
        "GET http://api.example.com:PORT/ HTTP/1.1\r\nHost: x.test\r\na: {}\r\n\r\n",
        "a".repeat(100_000)
    );
    scene()
        .await
        .refused(&request, 431, Reason::RequestTooLarge)
        .await;
}

#[tokio::test(start_paused = true)]
async fn row_103_a_head_that_does_not_come_is_given_up() {
    let request = "GET http://api.example.com:PORT/ HTTP/1.1\r\nHost: x.te";
    scene().await.refused(request, 408, Reason::Deadline).await;
}

#[tokio::test]
async fn one_empty_line_before_a_request_is_forgiven_and_no_more() {
    let mut one = scene().await;
    one.send("\r\n").await;
    one.get("").await;
    one.accept().await.head().await;
    let request = "\r\n\r\nGET http://api.example.com:PORT/ HTTP/1.1\r\nHost: x.test\r\n\r\n";
    scene()
        .await
        .refused(request, 400, Reason::RequestMalformed)
        .await;
}

#[tokio::test]
async fn row_98_and_101_nothing_that_concerns_one_hop_reaches_the_server() {
    let mut scene = scene().await;
    scene
        .get("Proxy-Authorization: x\r\nConnection: Upgrade, HTTP2-Settings, X-A\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nX-A: 1\r\nTE: trailers\r\n")
        .await;
    let head = scene.accept().await.head().await;
    assert_eq!(
        head,
        format!("GET / HTTP/1.1\r\nhost: {HOST}:{}\r\n\r\n", scene.port)
    );
}

#[tokio::test]
async fn an_ambiguous_response_is_not_passed_on() {
    for response in [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\nx: y\n\n",
        "HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n",
    ] {
        let mut scene = scene().await;
        scene.get("Connection: close\r\n").await;
        let mut server = scene.accept().await;
        server.head().await;
        server.say(response).await;
        let text = scene.rest().await;
        assert!(text.starts_with("HTTP/1.1 502 "), "{response}: {text}");
        assert!(text.contains("upstream_broken"));
    }
}

#[tokio::test]
async fn what_a_server_says_behind_its_response_is_nobodys() {
    let mut scene = scene().await;
    scene.get("").await;
    let mut server = scene.accept().await;
    server.head().await;
    server.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").await;
    assert!(scene.told("ok").await.ends_with("\r\n\r\nok"));
    scene.get("").await;
    let mut server = scene.accept().await;
    server.head().await;
    server.ok().await;
    assert!(scene.told("ok").await.ends_with("\r\n\r\nok"));
}

#[tokio::test]
async fn a_flow_that_is_cut_breaks_off_on_both_sides() {
    let mut scene = scene().await;
    scene.get("").await;
    let mut server = scene.accept().await;
    server.head().await;
    server
        .say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok")
        .await;
    scene.told("ok").await;
    scene.place.close();
    let inside = scene.program.read_u8().await.unwrap_err();
    assert_eq!(inside.kind(), std::io::ErrorKind::ConnectionReset);
    let outside = server.0.read_u8().await.unwrap_err();
    assert_eq!(outside.kind(), std::io::ErrorKind::ConnectionReset);
    scene.served.await.unwrap();
}
