//! 88, and 76: HTTP/2 inside TLS that the boundary ends.

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request};

use crate::bench::{Bench, List, Place};
use crate::wire::Wire;

/// What came of a request.
enum Got {
    Status(u16),
    Reset,
}

pub(super) fn list(list: &mut List) {
    list.add("control::http_2_passes::intercepted", |bench| {
        let place = Place::open(bench);
        let got = over_h2(bench, &place, |client| async {
            send(client, "GET", "https://inner.test/", &[], None).await
        });
        assert!(matches!(got, Got::Status(200)));
        assert!(
            place
                .one()
                .text()
                .contains("GET https://inner.test/ HTTP/2")
        );
    });
    for (name, uri) in [
        ("088_a_denied_authority", "https://evil.test/"),
        ("088_an_allowed_authority", "https://allowed.test/"),
        ("088_another_port", "https://inner.test:8443/"),
        ("088_another_scheme", "http://inner.test/"),
    ] {
        list.add(
            format!("{name}_on_the_same_connection::intercepted"),
            move |bench| {
                let place = Place::open(bench);
                let got = over_h2(bench, &place, move |client| async move {
                    let (first, client) = send_on(client, "GET", "https://inner.test/one").await;
                    assert!(matches!(first, Got::Status(200)));
                    send(client, "GET", uri, &[], None).await
                });
                assert!(matches!(got, Got::Status(421 | 400) | Got::Reset));
                let text: String = place
                    .reached()
                    .iter()
                    .map(namzu_testkit::network::Seen::text)
                    .collect();
                assert_eq!(text.matches("HTTP/2").count(), 1, "{text}");
                assert!(!place.zone.asked().contains(&"evil.test".to_owned()));
            },
        );
    }
    list.add("088_another_host_header::intercepted", |bench| {
        let place = Place::open(bench);
        let got = over_h2(bench, &place, |client| async {
            send(
                client,
                "GET",
                "https://inner.test/",
                &[("host", "evil.test")],
                None,
            )
            .await
        });
        match got {
            Got::Status(200) => assert!(!place.one().text().contains("evil.test")),
            Got::Status(status) => assert!(matches!(status, 400 | 421), "{status}"),
            Got::Reset => place.unreached(),
        }
    });
    list.add("089_trace_over_http_2::intercepted", |bench| {
        let place = Place::open(bench);
        let got = over_h2(bench, &place, |client| async {
            send(client, "TRACE", "https://inner.test/", &[], None).await
        });
        assert!(matches!(got, Got::Status(405 | 400) | Got::Reset));
        place.unreached();
    });
    list.add(
        "076_trailers_that_matter_are_dropped_over_http_2::intercepted",
        |bench| {
            let place = Place::open(bench);
            let got = over_h2(bench, &place, |client| async {
                let mut trailers = HeaderMap::new();
                for (name, value) in [
                    ("authorization", "forged"),
                    ("content-length", "5"),
                    ("grpc-status", "0"),
                ] {
                    trailers.insert(name, value.parse().unwrap());
                }
                send(client, "POST", "https://inner.test/", &[], Some(trailers)).await
            });
            assert!(matches!(got, Got::Status(200 | 400) | Got::Reset));
            for seen in place.reached() {
                let text = seen.text();
                assert!(!text.contains("forged"), "{text}");
                assert!(!text.contains("trailer content-length"), "{text}");
            }
        },
    );
}

/// Opens HTTP/2 to the usual host whose TLS is ended, and speaks.
fn over_h2<F, T>(bench: &Bench, place: &Place, speak: impl FnOnce(SendRequest<Bytes>) -> F) -> T
where
    F: Future<Output = T>,
{
    let wire = place.tunnel("inner.test", 443);
    let stream = Wire::into_socket(wire);
    stream.set_nonblocking(true).unwrap();
    let trust = place.trust().clone();
    bench.runtime.block_on(async {
        let stream = tokio::net::TcpStream::from_std(stream).unwrap();
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(trust)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
        let name = "inner.test".try_into().unwrap();
        let tls = connector.connect(name, stream).await.unwrap();
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (client, connection) = h2::client::handshake(tls).await.unwrap();
        tokio::spawn(connection);
        speak(client).await
    })
}

async fn send_on(client: SendRequest<Bytes>, method: &str, uri: &str) -> (Got, SendRequest<Bytes>) {
    let again = client.clone();
    (send(client, method, uri, &[], None).await, again)
}

async fn send(
    client: SendRequest<Bytes>,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    trailers: Option<HeaderMap>,
) -> Got {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(()).unwrap();
    let Ok(mut client) = client.ready().await else {
        return Got::Reset;
    };
    let Ok((answer, mut body)) = client.send_request(request, trailers.is_none()) else {
        return Got::Reset;
    };
    if let Some(trailers) = trailers {
        // The answer tells what became of it.
        let _ = body.send_trailers(trailers);
    }
    match answer.await {
        Ok(answer) => Got::Status(answer.status().as_u16()),
        Err(_) => Got::Reset,
    }
}
