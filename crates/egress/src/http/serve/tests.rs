//! Requests on a connection, with a host that answers as each test says.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::place::testing::{Table, place, policy};
use crate::stream::Inside;

mod bodies;
mod connections;
mod hostile;
mod idle;

const HOST: &str = "api.example.com";

/// A server outside, a place that may reach it, and a program inside that is connected to the proxy port.
struct Scene {
    outside: TcpListener,
    port: u16,
    place: Arc<Place>,
    program: TcpStream,
    served: JoinHandle<()>,
}

/// A connection that the server outside has accepted.
struct Accepted(TcpStream);

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (near, far) = tokio::join!(
        TcpStream::connect(listener.local_addr().unwrap()),
        listener.accept()
    );
    (near.unwrap(), far.unwrap().0)
}

async fn scene() -> Scene {
    let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = outside.local_addr().unwrap().port();
    let rules = format!(
        r#"{{"kind": "static", "rules": [{{"host": "{HOST}", "ports": [{port}], "scheme": "http",
           "inward": ["127.0.0.1/32"]}}]}}"#
    );
    let place = place(
        &policy(&rules),
        Table::loopback(&[HOST, "evil.example.com"]),
    );
    served(outside, port, place, Origin::Proxy).await
}

async fn served(outside: TcpListener, port: u16, place: Arc<Place>, origin: Origin) -> Scene {
    let (program, inside) = pair().await;
    let via = match origin {
        Origin::Proxy => Via::Forward,
        Origin::Fixed { .. } => Via::Named,
    };
    let task = serve(
        Arc::clone(&place),
        via,
        origin,
        Inside::Tcp(inside),
        BytesMut::new(),
    );
    Scene {
        outside,
        port,
        place,
        program,
        served: tokio::spawn(task),
    }
}

impl Scene {
    /// The same, but for a connection that was opened for the host.
    async fn fixed(self) -> Self {
        let origin = Origin::Fixed {
            host: Host::parse(HOST).unwrap(),
            port: self.port,
            scheme: Scheme::Http,
        };
        served(self.outside, self.port, self.place, origin).await
    }

    async fn accept(&self) -> Accepted {
        Accepted(self.outside.accept().await.unwrap().0)
    }

    async fn send(&mut self, text: &str) {
        let text = text.replace("PORT", &self.port.to_string());
        self.program.write_all(text.as_bytes()).await.unwrap();
    }

    /// `GET` of the host, with these lines.
    async fn get(&mut self, lines: &str) {
        self.send(&format!(
            "GET http://{HOST}:PORT/ HTTP/1.1\r\nHost: x.test\r\n{lines}\r\n"
        ))
        .await;
    }

    /// What the program is told until `end` has come.
    async fn told(&mut self, end: &str) -> String {
        until(&mut self.program, end).await
    }

    /// What the program is told until the connection ends.
    async fn rest(&mut self) -> String {
        let mut text = String::new();
        self.program.read_to_string(&mut text).await.unwrap();
        text
    }

    /// That a request is answered with a status, and then the connection ends.
    async fn refused(mut self, request: &str, status: u16, reason: Reason) {
        self.send(request).await;
        let text = self.rest().await;
        assert!(
            text.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request:?}: {text}"
        );
        assert!(
            text.contains(&format!("\r\nx-egress-reason: {reason}\r\n")),
            "{text}"
        );
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
        self.served.await.unwrap();
        assert_nothing_came(&self.outside);
    }
}

fn assert_nothing_came(outside: &TcpListener) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(
        outside.poll_accept(&mut context).is_pending(),
        "the server was reached"
    );
}

impl Accepted {
    /// The head of a request.
    async fn head(&mut self) -> String {
        until(&mut self.0, "\r\n\r\n").await
    }

    async fn until(&mut self, end: &str) -> String {
        until(&mut self.0, end).await
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    async fn ok(&mut self) {
        self.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await;
    }
}

async fn until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        match stream.read_u8().await {
            Ok(byte) => text.push(char::from(byte)),
            Err(why) => panic!("{why} after {text:?}"),
        }
    }
    text
}
