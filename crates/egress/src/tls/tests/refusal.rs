//! Hosts that do not prove who they are, and programs that ask for another.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::ground::{Ground, HOST};
use crate::tls::{H2, HTTP1};

async fn never(_: TlsStream<TcpStream>) {
    panic!("nothing may get this far");
}

async fn read_all(mut stream: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn a_host_with_a_certificate_for_another_name_is_refused_inside_tls() {
    let ground = Ground::with("other.test", &[HTTP1], "", never).await;
    for alpn in [&[][..], &[HTTP1], &[H2, HTTP1]] {
        let mut program = ground.connect(alpn).await;
        let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
        program.write_all(request.as_bytes()).await.unwrap();
        let answer = read_all(program).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(
            answer.contains("\r\nx-egress-reason: upstream_tls\r\n"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_program_that_speaks_only_http2_is_told_in_http2() {
    let ground = Ground::with("other.test", &[H2], "", never).await;
    let program = ground.connect(&[H2]).await;
    let (mut requests, connection) = ::h2::client::handshake(program).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(format!("https://{HOST}/"))
        .body(())
        .unwrap();
    let (answer, _) = requests.send_request(request, true).unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(answer.status(), 502);
    assert_eq!(answer.headers()["x-egress-reason"], "upstream_tls");
    let body = answer.into_body().data().await.unwrap().unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["error"]["reason"], "upstream_tls");
}

#[tokio::test]
async fn a_host_that_does_not_speak_what_the_program_insists_on_is_refused() {
    let ground = Ground::new(&[HTTP1], never).await;
    let program = ground.connect(&[H2]).await;
    assert_eq!(program.get_ref().1.alpn_protocol(), Some(H2));
    let (mut requests, connection) = ::h2::client::handshake(program).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(format!("https://{HOST}/"))
        .body(())
        .unwrap();
    let (answer, _) = requests.send_request(request, true).unwrap();
    assert_eq!(answer.await.unwrap().status(), 502);
}

#[tokio::test]
async fn a_server_name_other_than_the_host_of_the_flow_gets_no_handshake() {
    let ground = Ground::new(&[HTTP1], never).await;
    assert!(ground.connect_as("evil.test", &[HTTP1]).await.is_err());
    // No server name at all.
    assert!(ground.connect_as("127.0.0.1", &[HTTP1]).await.is_err());
}

#[tokio::test]
async fn a_program_that_offers_only_what_is_not_carried_gets_no_handshake() {
    let ground = Ground::new(&[HTTP1], never).await;
    assert!(ground.connect_as(HOST, &[b"mqtt"]).await.is_err());
}

#[tokio::test]
async fn a_program_that_does_not_trust_the_boundary_is_recorded_as_that() {
    let ground = Ground::new(&[HTTP1], async |_| ()).await;
    let nobody = rustls::RootCertStore::empty();
    let refused = ground.connect_trusting(nobody, HOST, &[HTTP1]).await;
    assert!(refused.is_err());
    ground.ended_for("program_tls").await;
}
