//! Tunnels: into the sandbox, and out of it.

use http::{Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::private;

#[tokio::test]
async fn expose_carries_both_ways_and_keeps_half_closes() {
    let worker = private(&[]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let inside = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        // Everything first, the answer after the end: only a half-close gets through this.
        let mut read = Vec::new();
        connection.read_to_end(&mut read).await.unwrap();
        connection.write_all(&read).await.unwrap();
    });
    let (_, mut tunnel) = worker
        .client
        .tunnel(&format!("/ext/v1/expose?port={port}"))
        .await
        .unwrap();
    let sent: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    tunnel.write_all(&sent).await.unwrap();
    tunnel.shutdown().await.unwrap();
    let mut received = Vec::new();
    tunnel.read_to_end(&mut received).await.unwrap();
    assert!(received == sent);
    inside.await.unwrap();
}

#[tokio::test]
async fn a_port_that_nothing_listens_on_is_a_bad_gateway() {
    let worker = private(&[]).await;
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let refused = |path: String| {
        let client = worker.client.clone();
        async move { client.tunnel(&path).await.unwrap_err() }
    };
    assert_eq!(
        refused(format!("/ext/v1/expose?port={port}")).await,
        StatusCode::BAD_GATEWAY
    );
    assert_eq!(
        refused(format!("/ext/v1/accept?port={port}")).await,
        StatusCode::NOT_FOUND
    );
    for query in ["", "?port=0", "?port=65536", "?port=x"] {
        assert_eq!(
            refused(format!("/ext/v1/expose{query}")).await,
            StatusCode::BAD_REQUEST,
            "{query}"
        );
    }
    let plain = worker
        .client
        .http(Method::GET, &format!("/ext/v1/expose?port={port}"), "")
        .await;
    assert_eq!(plain.0, StatusCode::UPGRADE_REQUIRED);
}

#[tokio::test]
async fn reach_hands_connections_from_inside_to_parked_accepts() {
    let worker = private(&[]).await;
    let client = &worker.client;
    let (status, body) = client
        .http(Method::POST, "/ext/v1/reach", r#"{"port":0}"#)
        .await;
    assert_eq!(status, StatusCode::OK);
    let reached: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let port = u16::try_from(reached["port"].as_u64().unwrap()).unwrap();
    let path = format!("/ext/v1/accept?port={port}");

    // One gives up before anybody connects, and takes no connection with it.
    let given_up =
        tokio::time::timeout(std::time::Duration::from_millis(50), client.tunnel(&path)).await;
    assert!(given_up.is_err());
    // That it gave up is known inside once a later call was answered.
    client.http(Method::GET, "/health", "").await;
    let (tunnel, inside) = tokio::join!(
        client.tunnel(&path),
        TcpStream::connect(("127.0.0.1", port))
    );
    let ((_, mut tunnel), mut inside) = (tunnel.unwrap(), inside.unwrap());
    inside.write_all(b"out").await.unwrap();
    let mut three = [0; 3];
    tunnel.read_exact(&mut three).await.unwrap();
    assert_eq!(&three, b"out");
    tunnel.write_all(b"in!").await.unwrap();
    inside.read_exact(&mut three).await.unwrap();
    assert_eq!(&three, b"in!");

    let (status, again) = client
        .http(
            Method::POST,
            "/ext/v1/reach",
            format!(r#"{{"port":{port}}}"#),
        )
        .await;
    assert_eq!(
        (status, again),
        (StatusCode::OK, body),
        "asking twice is harmless"
    );
}

#[tokio::test]
async fn http_1_opens_a_tunnel_by_upgrading() {
    let (host, inside) = std::os::unix::net::UnixStream::pair().unwrap();
    let inside = std::os::fd::OwnedFd::from(inside);
    let mut command = crate::support::worker();
    command.args([
        "--listen",
        &format!("fd:{}", std::os::fd::AsRawFd::as_raw_fd(&inside)),
    ]);
    let _running = crate::support::start_with(&mut command, &[&inside]);
    drop(inside);
    host.set_nonblocking(true).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut stream = tokio::net::UnixStream::from_std(host).unwrap();
    let head = format!(
        "GET /ext/v1/expose?port={port} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: namzu\r\n\r\nearly"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut connection, _) = listener.accept().await.unwrap();
    let mut early = [0; 5];
    connection.read_exact(&mut early).await.unwrap();
    assert_eq!(&early, b"early");
    connection.write_all(b"late").await.unwrap();
    drop(connection);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 101") && answer.ends_with("\r\n\r\nlate"),
        "{answer}"
    );
}
