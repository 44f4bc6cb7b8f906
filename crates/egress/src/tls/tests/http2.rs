//! Requests over HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::h2::client::SendRequest;
use ::h2::{RecvStream, server};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::ground::{Ground, HOST, Program, SECRET};
use crate::audit::tests::until;
use crate::tls::{H2, HTTP1};

/// Echoes each body and its trailers, and tells what it saw of the head.
async fn echo(stream: TlsStream<TcpStream>) {
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(H2));
    let mut connection = server::handshake(stream).await.unwrap();
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(answer(request, respond));
    }
}

async fn answer(request: Request<RecvStream>, mut respond: server::SendResponse<Bytes>) {
    let (head, mut body) = request.into_parts();
    let mut response = Response::builder()
        .header("x-method", head.method.as_str())
        .header("x-uri", head.uri.to_string())
        .header("alt-svc", "h3=\":443\"");
    if let Some(sent) = head.headers.get("authorization") {
        response = response.header("x-authorization", sent);
    }
    if head.uri.path() == "/reset" {
        return respond.send_reset(::h2::Reason::ENHANCE_YOUR_CALM);
    }
    let mut send = respond
        .send_response(response.body(()).unwrap(), false)
        .unwrap();
    while let Some(piece) = body.data().await {
        let Ok(piece) = piece else { return };
        let size = piece.len();
        send_all(&mut send, piece).await;
        body.flow_control().release_capacity(size).unwrap();
    }
    match body.trailers().await.unwrap() {
        Some(trailers) => send.send_trailers(trailers).unwrap(),
        None => send.send_data(Bytes::new(), true).unwrap(),
    }
}

async fn send_all(send: &mut ::h2::SendStream<Bytes>, mut piece: Bytes) {
    while !piece.is_empty() {
        send.reserve_capacity(piece.len());
        let room = std::future::poll_fn(|cx| send.poll_capacity(cx))
            .await
            .unwrap()
            .unwrap();
        send.send_data(piece.split_to(room.min(piece.len())), false)
            .unwrap();
    }
}

async fn speak(program: Program) -> SendRequest<Bytes> {
    let (requests, connection) = ::h2::client::handshake(program).await.unwrap();
    tokio::spawn(connection);
    requests.ready().await.unwrap()
}

impl Ground {
    async fn h2(alpn: &[&[u8]]) -> (Self, SendRequest<Bytes>) {
        let ground = Self::new(alpn, echo).await;
        let program = ground.connect(&[H2, HTTP1]).await;
        assert_eq!(program.get_ref().1.alpn_protocol(), Some(H2));
        let requests = speak(program).await;
        (ground, requests)
    }

    fn request(&self, method: &str, path: &str) -> Request<()> {
        let uri = format!("https://{HOST}:{}{path}", self.port);
        Request::builder().method(method).uri(uri).body(()).unwrap()
    }
}

async fn all(mut body: RecvStream) -> (Vec<u8>, Option<HeaderMap>) {
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        bytes.extend_from_slice(&piece);
    }
    (bytes, body.trailers().await.unwrap())
}

async fn get(requests: &mut SendRequest<Bytes>, request: Request<()>) -> Response<Vec<u8>> {
    let (response, _) = requests.send_request(request, true).unwrap();
    let (head, body) = response.await.unwrap().into_parts();
    Response::from_parts(head, all(body).await.0)
}

#[tokio::test]
async fn a_body_and_its_trailers_go_both_ways() {
    let (ground, mut requests) = Ground::h2(&[H2]).await;
    let request = ground.request("POST", "/up?q=1");
    let (response, mut send) = requests.send_request(request, false).unwrap();
    // More than any window, so that it has to flow.
    let sent: Vec<u8> = (0..3_000_000_u32)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect();
    let up = async {
        send_all(&mut send, sent.clone().into()).await;
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        trailers.insert("authorization", HeaderValue::from_static("mine"));
        send.send_trailers(trailers).unwrap();
    };
    let down = async {
        let (head, body) = response.await.unwrap().into_parts();
        assert_eq!(head.headers["x-method"], "POST");
        assert_eq!(
            head.headers["x-uri"],
            format!("https://{HOST}:{}/up?q=1", ground.port)
        );
        assert!(!head.headers.contains_key("alt-svc"));
        all(body).await
    };
    let ((), (got, trailers)) = tokio::join!(up, down);
    assert!(got == sent);
    let trailers = trailers.unwrap();
    assert_eq!(trailers["grpc-status"], "0");
    assert!(!trailers.contains_key("authorization"));
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let (ground, mut requests) = Ground::h2(&[H2, HTTP1]).await;
    // By its answer the program knows how many it may send at once; more would be refused.
    get(&mut requests, ground.request("GET", "/")).await;
    let done = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..300 {
        let request = ground.request("GET", &format!("/{at}"));
        let (requests, done) = (requests.clone(), Arc::clone(&done));
        tasks.spawn(async move {
            let mut requests = requests.ready().await.unwrap();
            assert_eq!(get(&mut requests, request).await.status(), 200);
            done.fetch_add(1, Ordering::Relaxed);
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert_eq!(done.load(Ordering::Relaxed), 300);
}

#[tokio::test]
async fn a_request_for_another_host_on_the_connection_is_misdirected() {
    let (ground, mut requests) = Ground::h2(&[H2]).await;
    let mut request = ground.request("GET", "/");
    *request.uri_mut() = format!("https://other.test:{}/", ground.port)
        .parse()
        .unwrap();
    let response = get(&mut requests, request).await;
    assert_eq!(response.status(), 421);
    assert_eq!(response.headers()["x-egress-reason"], "host_mismatch");
    // And the connection goes on.
    let request = ground.request("GET", "/");
    assert_eq!(get(&mut requests, request).await.status(), 200);
}

#[tokio::test]
async fn trace_is_refused() {
    let (ground, mut requests) = Ground::h2(&[H2]).await;
    let response = get(&mut requests, ground.request("TRACE", "/")).await;
    assert_eq!(response.status(), 405);
    assert_eq!(response.headers()["x-egress-reason"], "trace_refused");
}

#[tokio::test]
async fn a_path_that_no_rule_names_is_denied_in_words() {
    let ground = Ground::with(HOST, &[H2], r#", "paths": ["/open"]"#, echo).await;
    let mut requests = speak(ground.connect(&[H2]).await).await;
    let response = get(&mut requests, ground.request("GET", "/open/x")).await;
    assert_eq!(response.status(), 200);
    let response = get(&mut requests, ground.request("GET", "/closed")).await;
    assert_eq!(response.status(), 403);
    assert_eq!(response.headers()["x-egress-reason"], "path_not_listed");
    let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(body["error"]["reason"], "path_not_listed");
}

#[tokio::test]
async fn a_reset_from_outside_reaches_the_program() {
    let (ground, mut requests) = Ground::h2(&[H2]).await;
    let (response, _) = requests
        .send_request(ground.request("GET", "/reset"), true)
        .unwrap();
    let response = response.await.unwrap();
    assert_eq!(response.status(), 502);
    assert_eq!(response.headers()["x-egress-reason"], "upstream_broken");
}

#[tokio::test]
async fn a_request_that_the_program_gives_up_ends_outside_too() {
    let (told, mut heard) = tokio::sync::mpsc::channel(1);
    let serve = move |stream: TlsStream<TcpStream>| {
        let told = told.clone();
        async move {
            let mut connection = server::handshake(stream).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let told = told.clone();
                tokio::spawn(async move {
                    let why = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
                    told.send(why.unwrap()).await.unwrap();
                });
            }
        }
    };
    let ground = Ground::new(&[H2], serve).await;
    let mut requests = speak(ground.connect(&[H2]).await).await;
    let (response, mut send) = requests
        .send_request(ground.request("POST", "/"), false)
        .unwrap();
    send_all(&mut send, Bytes::from_static(b"some")).await;
    send.send_reset(::h2::Reason::CANCEL);
    drop(response);
    assert_eq!(heard.recv().await, Some(::h2::Reason::CANCEL));
}

#[tokio::test]
async fn a_secret_is_given_to_the_host_and_taken_out_of_its_answer() {
    let more = r#", "credential": "token""#;
    let ground = Ground::with(HOST, &[H2], more, echo).await;
    let mut requests = speak(ground.connect(&[H2]).await).await;
    let mut request = ground.request("GET", "/");
    let mine = HeaderValue::from_static("Bearer mine");
    request.headers_mut().insert("authorization", mine);
    let response = get(&mut requests, request).await;
    assert_eq!(response.status(), 200);
    let seen = response.headers()["x-authorization"].to_str().unwrap();
    assert!(seen.starts_with("Bearer ") && seen.len() == "Bearer ".len() + SECRET.len());
    assert!(!seen.contains("mine") && !seen.contains(SECRET), "{seen}");
}

#[tokio::test]
async fn a_change_ends_the_requests_that_it_no_longer_allows_and_no_others() {
    let ground = Ground::with(HOST, &[H2], r#", "paths": ["/a", "/b"]"#, echo).await;
    let mut requests = speak(ground.connect(&[H2]).await).await;
    let mut streams = Vec::new();
    for path in ["/a", "/b"] {
        let request = ground.request("POST", path);
        let (response, mut send) = requests.send_request(request, false).unwrap();
        send_all(&mut send, Bytes::from_static(b"some")).await;
        let mut body = response.await.unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "some");
        streams.push((send, body));
    }
    let (_, mut lost) = streams.pop().unwrap();
    let (mut send, mut kept) = streams.pop().unwrap();
    ground.change(r#", "paths": ["/a"]"#).await;
    let end = lost.data().await.unwrap().unwrap_err();
    assert!(end.is_reset(), "{end}");
    send_all(&mut send, Bytes::from_static(b"more")).await;
    assert_eq!(kept.data().await.unwrap().unwrap(), "more");
}

#[tokio::test]
async fn a_narrower_policy_ends_what_is_under_way() {
    let (ground, mut requests) = Ground::h2(&[H2]).await;
    let (response, mut send) = requests
        .send_request(ground.request("POST", "/"), false)
        .unwrap();
    send_all(&mut send, Bytes::from_static(b"some")).await;
    let mut body = response.await.unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), "some");
    ground.narrow().await;
    assert!(body.data().await.is_none_or(|piece| piece.is_err()));
}

#[tokio::test]
async fn a_request_does_not_lead_into_a_private_range_that_only_another_rule_opens() {
    let (ground, mut requests) = Ground::h2(&[H2]).await;
    let port = ground.port;
    let more = format!(
        r#", "paths": ["/in/"]}}, {{"host": "{HOST}", "ports": [{port}], "paths": ["/open/"]"#
    );
    ground.change(&more).await;
    let response = get(&mut requests, ground.request("GET", "/in/")).await;
    assert_eq!(response.status(), 200);
    let response = get(&mut requests, ground.request("GET", "/open/")).await;
    assert_eq!(response.headers()["x-egress-reason"], "address_private");
}

#[tokio::test]
async fn no_spelling_of_trace_is_forwarded() {
    let (ground, mut requests) = Ground::h2(&[H2]).await;
    for method in ["TRACE", "trace", "TRACK", "Track", "connect"] {
        let response = get(&mut requests, ground.request(method, "/")).await;
        assert_eq!(response.status(), 405, "{method}");
    }
}

#[tokio::test]
async fn whoever_has_as_many_connections_as_may_be_gets_http1_or_is_told() {
    let ground = Ground::new(&[H2, HTTP1], |stream| async move {
        assert_ne!(stream.get_ref().1.alpn_protocol(), Some(H2));
    })
    .await;
    let held: Vec<_> = std::iter::from_fn(|| ground.place.limiter.http2()).collect();
    assert!(!held.is_empty());
    let either = ground.connect(&[H2, HTTP1]).await;
    assert_eq!(either.get_ref().1.alpn_protocol(), Some(HTTP1));
    let mut requests = speak(ground.connect(&[H2]).await).await;
    let request = ground.request("GET", "/");
    let (answer, _) = requests.send_request(request, true).unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(answer.headers()["x-egress-reason"], "too_many_flows");
}

#[tokio::test]
async fn a_connection_that_ended_makes_room_for_another() {
    let (ground, requests) = Ground::h2(&[H2]).await;
    let held: Vec<_> = std::iter::from_fn(|| ground.place.limiter.http2()).collect();
    assert!(ground.place.limiter.http2().is_none());
    drop(requests);
    until(async || ground.place.limiter.http2().is_some()).await;
    drop(held);
}
