//! A response that takes its time, in no time.

use std::time::Duration;

use super::*;

/// Lets two hours pass, and whoever waited for some of them notice.
async fn two_hours() {
    tokio::time::pause();
    for _ in 0..120 {
        tokio::time::advance(Duration::from_secs(60)).await;
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
    tokio::time::resume();
}

#[tokio::test]
async fn a_response_may_be_two_hours_in_coming_and_idle_for_two_more() {
    let mut scene = scene().await;
    scene.get("").await;
    let mut server = scene.accept().await;
    server.head().await;
    two_hours().await;
    server
        .say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        .await;
    scene.told("first\r\n").await;
    two_hours().await;
    server.say("6\r\nsecond\r\n0\r\n\r\n").await;
    let rest = scene.told("0\r\n\r\n").await;
    assert!(rest.contains("second"), "{rest}");
}
