//! What a tunnel's first bytes make of it.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::Name;
use crate::place::testing::{Table, place, policy};
use crate::place::{Ask, Place, Via};

const HOST: &str = "api.example.com";

/// A host outside, and a place that may reach it by `schemes` on its port.
struct Scene {
    outside: TcpListener,
    port: u16,
    place: Arc<Place>,
}

fn rules(schemes: &[&str], port: u16) -> String {
    let rules: Vec<String> = schemes
        .iter()
        .map(|scheme| {
            format!(
                r#"{{"host": "{HOST}", "ports": [{port}], "scheme": "{scheme}", "inward": ["127.0.0.1/32"]}}"#
            )
        })
        .collect();
    format!(r#"{{"kind": "static", "rules": [{}]}}"#, rules.join(","))
}

async fn scene(schemes: &[&str]) -> Scene {
    let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = outside.local_addr().unwrap().port();
    let place = place(&policy(&rules(schemes, port)), Table::loopback(&[HOST]));
    Scene {
        outside,
        port,
        place,
    }
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (near, far) = tokio::join!(
        TcpStream::connect(listener.local_addr().unwrap()),
        listener.accept()
    );
    (near.unwrap(), far.unwrap().0)
}

impl Scene {
    /// A program inside that has connected.
    async fn connect(&self) -> (TcpStream, JoinHandle<()>) {
        let (program, inside) = pair().await;
        let carried = self.carry(Inside::Tcp(inside)).await;
        (program, carried)
    }

    async fn carry(&self, inside: Inside) -> JoinHandle<()> {
        let ask = Ask {
            via: Via::Connect,
            host: Host::Name(Name::parse(HOST).unwrap()),
            port: self.port,
            scheme: None,
            request: None,
        };
        let flow = self
            .place
            .admit(ask)
            .await
            .unwrap_or_else(|denial| panic!("{denial:?}"));
        tokio::spawn(run(flow, inside, BytesMut::new()))
    }

    /// Whether nobody ever connected.
    fn is_unreached(&self) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        self.outside.poll_accept(&mut cx).is_pending()
    }
}

/// A hello that names `server`, as a real client writes it.
fn hello(server: &str) -> Vec<u8> {
    let config = rustls::ClientConfig::builder_with_provider(Arc::clone(tls::provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let server = server.to_owned().try_into().unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), server).unwrap();
    let mut sent = Vec::new();
    client.write_tls(&mut sent).unwrap();
    sent
}

/// All that comes until the end, and whether that was a reset.
async fn rest(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut read = Vec::new();
    let ended = stream.read_to_end(&mut read).await;
    let reset = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset);
    (read, reset)
}

#[tokio::test]
async fn a_hello_that_names_its_host_passes_untouched() {
    let scene = scene(&["https"]).await;
    let (mut program, _carried) = scene.connect().await;
    let hello = hello(HOST);
    // However it is cut.
    program.write_all(&hello[..3]).await.unwrap();
    tokio::task::yield_now().await;
    program.write_all(&hello[3..]).await.unwrap();
    let (mut outside, _) = scene.outside.accept().await.unwrap();
    let mut arrived = vec![0; hello.len()];
    outside.read_exact(&mut arrived).await.unwrap();
    assert_eq!(arrived, hello);
    outside.write_all(b"answer").await.unwrap();
    drop(outside);
    program.shutdown().await.unwrap();
    assert_eq!(rest(&mut program).await.0, b"answer");
}

#[tokio::test]
async fn a_hello_that_names_another_host_reaches_nobody() {
    let scene = scene(&["https"]).await;
    for server in ["evil.test", "example.com", "x.api.example.com"] {
        let (mut program, _carried) = scene.connect().await;
        program.write_all(&hello(server)).await.unwrap();
        assert_eq!(
            rest(&mut program).await.0,
            [21, 3, 3, 0, 2, 2, 112],
            "{server}"
        );
    }
    assert!(scene.is_unreached());
}

#[tokio::test]
async fn a_hello_that_names_no_host_reaches_nobody() {
    let scene = scene(&["https"]).await;
    // A client leaves the name out where it has an address.
    for sent in [hello("192.0.2.1"), b"\x16\x03\x01\0\x04\x02\0\0\0".to_vec()] {
        let (mut program, _carried) = scene.connect().await;
        program.write_all(&sent).await.unwrap();
        assert_eq!(rest(&mut program).await.0, [21, 3, 3, 0, 2, 2, 112]);
    }
    assert!(scene.is_unreached());
}

#[test]
fn an_address_that_a_rule_names_needs_no_server_name() {
    let host = Host::parse("192.0.2.1").unwrap();
    let bare = Hello { server_name: None };
    let named = Hello {
        server_name: Some(Name::parse(HOST).unwrap()),
    };
    assert_eq!(names_its_host(&host, Ok(&bare)), Ok(()));
    assert_eq!(
        names_its_host(&host, Ok(&named)),
        Err(Reason::ServerNameMismatch)
    );
}

#[test]
fn a_hello_passes_with_the_hosts_own_name_and_with_no_other() {
    let host = Host::parse(HOST).unwrap();
    let hello = |name: &str| Hello {
        server_name: Some(Name::parse(name).unwrap()),
    };
    assert_eq!(names_its_host(&host, Ok(&hello(HOST))), Ok(()));
    let other = names_its_host(&host, Ok(&hello("cover.example.com")));
    assert_eq!(other, Err(Reason::ServerNameMismatch));
}

#[tokio::test]
async fn other_bytes_than_the_rules_name_reach_nobody() {
    let scene = scene(&["https"]).await;
    let (mut program, _carried) = scene.connect().await;
    program.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
    let (told, reset) = rest(&mut program).await;
    assert!(told.is_empty() && reset);
    let (mut program, _carried) = scene.connect().await;
    program
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let told = String::from_utf8(rest(&mut program).await.0).unwrap();
    assert!(told.starts_with("HTTP/1.1 403 "), "{told}");
    assert!(
        told.contains("x-egress-reason: scheme_not_listed\r\n"),
        "{told}"
    );
    assert!(scene.is_unreached());
}

#[tokio::test]
async fn tls_where_a_rule_names_plain_http_reaches_nobody() {
    let scene = scene(&["http"]).await;
    let (mut program, _carried) = scene.connect().await;
    program.write_all(&hello(HOST)).await.unwrap();
    assert_eq!(rest(&mut program).await.0, [21, 3, 3, 0, 2, 2, 49]);
    assert!(scene.is_unreached());
}

#[tokio::test]
async fn where_anything_may_be_spoken_the_server_may_speak_first() {
    for schemes in [&["tcp"][..], &["https", "tcp"]] {
        let scene = scene(schemes).await;
        let (mut program, _carried) = scene.connect().await;
        let (mut outside, _) = scene.outside.accept().await.unwrap();
        outside.write_all(b"220 ready\r\n").await.unwrap();
        let mut greeting = [0; 11];
        program.read_exact(&mut greeting).await.unwrap();
        assert_eq!(&greeting, b"220 ready\r\n", "{schemes:?}");
    }
}

#[tokio::test]
async fn where_anything_may_be_spoken_a_server_name_may_be_any() {
    let scene = scene(&["https", "tcp"]).await;
    let (mut program, _carried) = scene.connect().await;
    program.write_all(&hello("other.test")).await.unwrap();
    scene.outside.accept().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hello_that_does_not_come_to_its_end_is_not_waited_for() {
    let scene = scene(&["https"]).await;
    let (mut program, inner) = tokio::io::duplex(4096);
    let carried = scene.carry(Inside::Channel(Box::new(inner))).await;
    program.write_all(&hello(HOST)[..40]).await.unwrap();
    carried.await.unwrap();
    assert!(scene.is_unreached());
}

#[tokio::test]
async fn a_program_that_says_nothing_and_goes_leaves_no_trace() {
    let scene = scene(&["https"]).await;
    let (program, carried) = scene.connect().await;
    drop(program);
    carried.await.unwrap();
    assert!(scene.is_unreached());
}

#[tokio::test]
async fn a_policy_that_narrows_ends_the_wait_for_the_first_bytes() {
    let scene = scene(&["https"]).await;
    let (mut program, carried) = scene.connect().await;
    let narrowed = scene.place.change(&policy(r#"{"kind": "deny-all"}"#)).await;
    narrowed.unwrap();
    carried.await.unwrap();
    let (told, reset) = rest(&mut program).await;
    assert!(told.is_empty() && reset);
}

#[tokio::test]
async fn a_host_that_does_not_answer_is_told_in_tls() {
    let Scene {
        outside,
        port,
        place,
    } = scene(&["https"]).await;
    drop(outside);
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let scene = Scene {
        outside: nobody,
        port,
        place,
    };
    let (mut program, _carried) = scene.connect().await;
    program.write_all(&hello(HOST)).await.unwrap();
    assert_eq!(rest(&mut program).await.0, [21, 3, 3, 0, 2, 2, 80]);
}
