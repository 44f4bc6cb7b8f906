//! What programs say to the proxy port, and what they are answered.

use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::place::testing::{Table, place, policy};

const HOST: &str = "db.example.com";

/// A server outside, and a program inside that is connected to the proxy port.
struct Scene {
    outside: TcpListener,
    port: u16,
    program: TcpStream,
}

async fn scene(scheme: &str) -> Scene {
    let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = outside.local_addr().unwrap().port();
    let rules = format!(
        r#"{{"kind": "static", "rules": [{{"host": "{HOST}", "ports": [{port}], "scheme": "{scheme}",
           "inward": ["127.0.0.1/32"]}}]}}"#
    );
    let place = place(
        &policy(&rules),
        Table::loopback(&[HOST, "evil.example.com"]),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (program, inside) = tokio::join!(
        TcpStream::connect(listener.local_addr().unwrap()),
        listener.accept()
    );
    tokio::spawn(serve(place, Inside::Tcp(inside.unwrap().0)));
    Scene {
        outside,
        port,
        program: program.unwrap(),
    }
}

impl Scene {
    async fn send(&mut self, bytes: &[u8]) {
        self.program.write_all(bytes).await.unwrap();
    }

    async fn connect(&mut self, authority: &str, early: &str) {
        let authority = authority.replace("PORT", &self.port.to_string());
        let text = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n{early}");
        self.send(text.as_bytes()).await;
    }

    async fn told<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.program.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    async fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.program.read_to_end(&mut bytes).await.unwrap();
        bytes
    }

    fn assert_nothing_came(&self) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(self.outside.poll_accept(&mut context).is_pending());
    }

    /// That bytes go both ways, beginning with `early` which was sent.
    async fn carries(&mut self, early: &[u8]) {
        let (mut server, _) = self.outside.accept().await.unwrap();
        let mut got = vec![0; early.len()];
        server.read_exact(&mut got).await.unwrap();
        assert_eq!(got, early);
        server.write_all(b"answer").await.unwrap();
        assert_eq!(&self.told::<6>().await, b"answer");
    }

    /// SOCKS5's request for a name.
    fn socks(&self, name: &str) -> Vec<u8> {
        let mut bytes = vec![5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
        bytes.extend(name.as_bytes());
        bytes.extend(self.port.to_be_bytes());
        bytes
    }
}

const ESTABLISHED: &[u8; 39] = b"HTTP/1.1 200 Connection established\r\n\r\n";

#[tokio::test]
async fn connect_opens_a_tunnel_and_loses_no_early_byte() {
    let mut scene = scene("tcp").await;
    scene.connect("db.example.com:PORT", "early").await;
    assert_eq!(&scene.told::<39>().await, ESTABLISHED);
    scene.carries(b"early").await;
}

#[tokio::test]
async fn row_74_a_denied_connect_has_one_answer_whatever_follows_it() {
    let mut scene = scene("tcp").await;
    let early = "GET http://db.example.com/ HTTP/1.1\r\nHost: db.example.com\r\n\r\n";
    scene.connect("evil.example.com:PORT", early).await;
    let text = String::from_utf8(scene.rest().await).unwrap();
    assert!(text.starts_with("HTTP/1.1 403 "), "{text}");
    assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
    scene.assert_nothing_came();
}

#[tokio::test]
async fn rows_9_to_25_connect_to_what_is_no_authority_is_malformed() {
    for authority in [
        "http://db.example.com:443",
        "http://db.example.com/",
        "db.example.com",
        "db.example.com:",
        "db.example.com:0",
        "db.example.com:443abc",
        "db.example.com:65979",
        "db.example.com@evil.test:443",
        "evil.test@db.example.com:443",
        "evil.test:443.db.example.com:443",
        "db.example.com..:443",
        "db%2eexample.com:443",
        "2852039166:443",
        "0xa9fea9fe:443",
        "/",
        "*",
    ] {
        let mut scene = scene("tcp").await;
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: db.example.com\r\n\r\n");
        scene.send(request.as_bytes()).await;
        let text = String::from_utf8(scene.rest().await).unwrap();
        assert!(text.starts_with("HTTP/1.1 400 "), "{authority}: {text}");
        scene.assert_nothing_came();
    }
}

#[tokio::test]
async fn an_opaque_tunnel_that_cannot_be_dialled_is_answered_so() {
    let mut scene = scene("tcp").await;
    scene.outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    scene.connect("db.example.com:PORT", "").await;
    let text = String::from_utf8(scene.rest().await).unwrap();
    assert!(text.starts_with("HTTP/1.1 502 "), "{text}");
}

#[tokio::test]
async fn a_tunnel_for_http_is_answered_first_and_each_request_judged() {
    let mut scene = scene("http").await;
    scene.connect("db.example.com:PORT", "").await;
    assert_eq!(&scene.told::<39>().await, ESTABLISHED);
    scene
        .send(b"GET / HTTP/1.1\r\nHost: evil.example.com\r\n\r\n")
        .await;
    let text = String::from_utf8(scene.rest().await).unwrap();
    assert!(text.starts_with("HTTP/1.1 421 "), "{text}");
    scene.assert_nothing_came();
}

#[tokio::test(start_paused = true)]
async fn row_103_a_connect_that_does_not_come_is_given_up() {
    let mut scene = scene("tcp").await;
    scene
        .send(b"CONNECT db.example.com:443 HTTP/1.1\r\nHo")
        .await;
    let text = String::from_utf8(scene.rest().await).unwrap();
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
}

#[tokio::test]
async fn socks_opens_a_tunnel_even_when_all_is_sent_at_once() {
    let mut scene = scene("tcp").await;
    let mut bytes = vec![5, 2, 0, 2];
    bytes.extend(scene.socks(HOST));
    bytes.extend(b"early");
    scene.send(&bytes).await;
    assert_eq!(scene.told::<2>().await, [5, 0]);
    assert_eq!(scene.told::<10>().await, [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    scene.carries(b"early").await;
}

#[tokio::test]
async fn socks_says_what_was_denied_and_what_failed() {
    for (name, dead, code) in [("evil.example.com", false, 2), (HOST, true, 5)] {
        let mut scene = scene("tcp").await;
        if dead {
            scene.outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        }
        scene.send(&[5, 1, 0]).await;
        assert_eq!(scene.told::<2>().await, [5, 0]);
        let request = scene.socks(name);
        scene.send(&request).await;
        assert_eq!(
            scene.rest().await,
            [5, code, 0, 1, 0, 0, 0, 0, 0, 0],
            "{name}"
        );
    }
}

#[tokio::test]
async fn socks_without_the_one_method_and_socks_4_are_told_so() {
    let mut password = scene("tcp").await;
    password.send(&[5, 1, 2]).await;
    assert_eq!(password.rest().await, [5, 0xff]);
    let mut old = scene("tcp").await;
    old.send(&[4, 1, 0, 80, 127, 0, 0, 1, 0]).await;
    assert_eq!(old.rest().await, [0, 0x5b, 0, 0, 0, 0, 0, 0]);
}

#[tokio::test]
async fn row_12_a_name_with_a_nul_is_refused_by_socks() {
    let mut scene = scene("tcp").await;
    let request = scene.socks("db.example.com\0.evil.test");
    scene.send(&[5, 1, 0]).await;
    assert_eq!(scene.told::<2>().await, [5, 0]);
    scene.send(&request).await;
    assert_eq!(scene.rest().await[..2], [5, 1]);
    scene.assert_nothing_came();
}

#[tokio::test]
async fn what_an_idle_tunnel_keeps_is_small() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let inside = || async { Inside::Tcp(TcpStream::connect(address).await.unwrap()) };
    let rules = format!(
        r#"{{"kind": "static", "rules": [{{"host": "{HOST}", "ports": [22], "scheme": "tcp"}}]}}"#
    );
    let place = place(&policy(&rules), Table::loopback(&[]));
    let flow = || async {
        match place
            .admit(crate::place::testing::ask(&format!("{HOST}:22")))
            .await
        {
            Ok(flow) => flow,
            Err(denial) => panic!("{denial:?}"),
        }
    };
    let door = size_of_val(&serve(Arc::clone(&place), inside().await));
    let outside = TcpStream::connect(address).await.unwrap();
    let relay = size_of_val(&relay::carry(
        flow().await,
        inside().await,
        outside,
        BytesMut::new(),
    ));
    let tunnel = size_of_val(&tunnel::run(flow().await, inside().await, BytesMut::new()));
    let sizes = (door, tunnel, relay);
    assert!(door + tunnel + relay < 4096, "{sizes:?}");
}
