//! Requests over HTTP/1.1.

use rustls::HandshakeKind;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::ground::{Ground, HOST, Program, SECRET};
use crate::tls::{H2, HTTP1};

/// Answers each request with its head; one that upgrades gets its bytes back from then on.
async fn echo(stream: TlsStream<TcpStream>) {
    let mut stream = BufReader::new(stream);
    loop {
        let head = head(&mut stream).await;
        if head.is_empty() {
            return;
        }
        if head.to_ascii_lowercase().contains("upgrade: websocket") {
            let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\
                          Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                stream.write_all(&buffer[..count]).await.unwrap();
                stream.flush().await.unwrap();
            }
            return;
        }
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{head}",
            head.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
    }
}

async fn head(stream: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> String {
    let mut head = String::new();
    while let Ok(1..) = stream.read_line(&mut head).await {
        if head.ends_with("\r\n\r\n") {
            break;
        }
    }
    head
}

/// A program on a connection that is kept alive.
struct Speaker(BufReader<Program>);

impl Speaker {
    async fn on(ground: &Ground, alpn: &[&[u8]]) -> Self {
        Self(BufReader::new(ground.connect(alpn).await))
    }

    fn protocol(&self) -> Option<&[u8]> {
        self.0.get_ref().get_ref().1.alpn_protocol()
    }

    /// Sends a request without a body; gives head and body of the answer.
    async fn ask(&mut self, request: &str) -> (String, String) {
        self.0.write_all(request.as_bytes()).await.unwrap();
        self.0.flush().await.unwrap();
        let head = head(&mut self.0).await.to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        (head, String::from_utf8(body).unwrap())
    }
}

impl Ground {
    fn get(&self, path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: {HOST}:{}\r\n\r\n", self.port)
    }
}

#[tokio::test]
async fn the_program_speaks_what_the_host_chose() {
    for (program, host, spoken) in [
        (&[H2, HTTP1][..], &[HTTP1][..], Some(HTTP1)),
        (&[H2, HTTP1], &[], Some(HTTP1)),
        (&[HTTP1], &[H2, HTTP1], Some(HTTP1)),
        (&[], &[H2, HTTP1], None),
    ] {
        let ground = Ground::new(host, echo).await;
        let mut speaker = Speaker::on(&ground, program).await;
        assert_eq!(speaker.protocol(), spoken);
        let (head, _) = speaker.ask(&ground.get("/")).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
    }
}

#[tokio::test]
async fn a_connection_carries_one_request_after_the_other() {
    let ground = Ground::new(&[HTTP1], echo).await;
    let mut speaker = Speaker::on(&ground, &[HTTP1]).await;
    for at in 0..50 {
        let (head, body) = speaker.ask(&ground.get(&format!("/{at}"))).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(
            body.starts_with(&format!("GET /{at} HTTP/1.1\r\n")),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_request_for_another_host_is_misdirected() {
    let ground = Ground::new(&[HTTP1], echo).await;
    let mut speaker = Speaker::on(&ground, &[HTTP1]).await;
    let request = format!("GET / HTTP/1.1\r\nHost: other.test:{}\r\n\r\n", ground.port);
    let (head, _) = speaker.ask(&request).await;
    assert!(head.starts_with("http/1.1 421"), "{head}");
    assert!(head.contains("x-egress-reason: host_mismatch"), "{head}");
}

#[tokio::test]
async fn a_secret_is_given_to_the_host_and_taken_out_of_its_answer() {
    let more = r#", "credential": "token""#;
    let ground = Ground::with(HOST, &[HTTP1], more, echo).await;
    let mut speaker = Speaker::on(&ground, &[HTTP1]).await;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {HOST}:{}\r\nAuthorization: Bearer mine\r\n\r\n",
        ground.port
    );
    let (_, body) = speaker.ask(&request).await;
    let sent: Vec<_> = body
        .lines()
        .filter(|line| {
            line.to_ascii_lowercase()
                .starts_with("authorization: bearer ")
        })
        .collect();
    assert_eq!(sent.len(), 1, "{body}");
    assert_eq!(sent[0].len(), "authorization: Bearer ".len() + SECRET.len());
    assert!(!body.contains("mine") && !body.contains(SECRET), "{body}");
}

#[tokio::test]
async fn a_web_socket_carries_bytes_both_ways() {
    let ground = Ground::new(&[HTTP1], echo).await;
    let mut speaker = Speaker::on(&ground, &[HTTP1]).await;
    let request = format!(
        "GET /ws HTTP/1.1\r\nHost: {HOST}:{}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        ground.port
    );
    let (head, _) = speaker.ask(&request).await;
    assert!(head.starts_with("http/1.1 101"), "{head}");
    for round in 0..20_u8 {
        let frame = [0x82, 3, round, round, round];
        speaker.0.write_all(&frame).await.unwrap();
        speaker.0.flush().await.unwrap();
        let mut back = [0; 5];
        speaker.0.read_exact(&mut back).await.unwrap();
        assert_eq!(back, frame);
    }
}

#[tokio::test]
async fn a_second_connection_to_a_host_resumes_the_session_of_the_first() {
    let (tell, mut kinds) = tokio::sync::mpsc::unbounded_channel();
    let serve = move |stream: TlsStream<TcpStream>| {
        tell.send(stream.get_ref().1.handshake_kind()).unwrap();
        echo(stream)
    };
    let ground = Ground::new(&[HTTP1], serve).await;
    for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let mut speaker = Speaker::on(&ground, &[HTTP1]).await;
        speaker.ask(&ground.get("/")).await;
        assert_eq!(kinds.recv().await, Some(Some(expected)));
    }
}

#[tokio::test]
async fn a_narrower_policy_ends_the_connection() {
    let ground = Ground::new(&[HTTP1], echo).await;
    let mut speaker = Speaker::on(&ground, &[HTTP1]).await;
    speaker.ask(&ground.get("/")).await;
    ground.narrow().await;
    let mut rest = Vec::new();
    // A reset, or an end without the words that TLS has for it.
    assert!(speaker.0.read_to_end(&mut rest).await.is_err());
    assert!(rest.is_empty());
}
