//! Heads of requests: what is read of them, and what is refused.

use super::*;
use crate::http::scan::{Kind, Scan};

fn read(text: impl AsRef<[u8]>) -> Result<RequestHead, Reason> {
    let text = text.as_ref();
    let mut scan = Scan::new(Kind::Request);
    match scan.end(text)? {
        Some(end) => RequestHead::parse(&Bytes::copy_from_slice(&text[..end])),
        None => panic!("no whole head: {text:?}"),
    }
}

/// A request with these lines beside its first and its `Host`.
fn with(lines: &str) -> Result<RequestHead, Reason> {
    read(format!(
        "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"
    ))
}

#[track_caller]
fn malformed(result: Result<RequestHead, Reason>) {
    assert_eq!(result.err(), Some(Reason::RequestMalformed));
}

#[test]
fn row_58_a_length_beside_an_encoding_is_refused() {
    malformed(with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"));
    malformed(with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"));
}

#[test]
fn row_59_two_lengths_are_refused_even_when_they_agree() {
    malformed(with("Content-Length: 5\r\nContent-Length: 6\r\n"));
    malformed(with("Content-Length: 5\r\nContent-Length: 5\r\n"));
}

#[test]
fn row_60_and_61_a_length_is_digits() {
    for length in [
        "5, 5",
        "+5",
        "-1",
        "0x5",
        "5 5",
        "",
        "5;",
        "99999999999999999999",
        "\u{0665}",
    ] {
        malformed(with(&format!("Content-Length: {length}\r\n")));
    }
    assert_eq!(
        with("Content-Length: 5\r\n").unwrap().framing,
        Framing::Length(5)
    );
}

#[test]
fn row_63_no_space_before_a_colon() {
    malformed(with("Transfer-Encoding : chunked\r\n"));
    malformed(with("X : y\r\n"));
    malformed(with(" X: y\r\n"));
    malformed(with(": y\r\n"));
    malformed(with("X\r\n"));
}

#[test]
fn row_64_no_encoding_on_http_1_0() {
    malformed(read(
        "POST http://a.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ));
}

#[test]
fn the_one_encoding_is_chunked_once() {
    for encoding in [
        "gzip",
        "gzip, chunked",
        "chunked, chunked",
        "identity",
        "xchunked",
        "chunked;q=1",
        "\"chunked\"",
        "",
    ] {
        malformed(with(&format!("Transfer-Encoding: {encoding}\r\n")));
    }
    malformed(with(
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ));
    malformed(with("Transfer-Encoding:\x0bchunked\r\n"));
    assert_eq!(
        with("Transfer-Encoding: CHUNKED\r\n").unwrap().framing,
        Framing::Chunked
    );
}

#[test]
fn row_66_67_and_68_bare_line_ends_and_nuls_are_refused() {
    for text in [
        &b"GET http://a.test/ HTTP/1.1\nHost: a.test\n\n"[..],
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\nX: y\r\n\r\n",
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX: y\rz\r\n\r\n",
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX: y\0z\r\n\r\n",
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX: y\x08z\r\n\r\n",
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\n",
    ] {
        malformed(read(text));
    }
}

#[test]
fn folded_fields_are_refused() {
    malformed(with("X: y\r\n z\r\n"));
    malformed(with("X: y\r\n\tz\r\n"));
}

#[test]
fn row_71_two_hosts_are_refused_even_when_they_agree() {
    malformed(with("Host: evil.test\r\n"));
    malformed(with("Host: a.test\r\n"));
}

#[test]
fn a_host_is_needed_from_http_1_1_on_and_must_be_one() {
    malformed(read("GET http://a.test/ HTTP/1.1\r\n\r\n"));
    assert!(read("GET http://a.test/ HTTP/1.0\r\n\r\n").is_ok());
    for host in [
        "",
        "a.test, b.test",
        "u@a.test",
        "a.test/x",
        "a..test",
        "a test",
        "a%00.test",
    ] {
        let head = read(format!(
            "GET http://a.test/ HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ));
        assert_eq!(head.err(), Some(Reason::NameMalformed), "{host}");
    }
    for host in [
        "http://a.test",
        "a.test:",
        "a.test:0",
        "a.test:65979",
        "a.test:x",
    ] {
        let head = read(format!(
            "GET http://a.test/ HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ));
        assert_eq!(head.err(), Some(Reason::PortMalformed), "{host}");
    }
}

#[test]
fn row_75_and_http_0_9_are_no_requests() {
    malformed(read("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    malformed(read("PRI * HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    malformed(read("GET http://a.test/\r\n\r\n"));
    malformed(read(
        "GET http://a.test/ HTTP/1.1 HTTP/1.1\r\nHost: a.test\r\n\r\n",
    ));
    malformed(read("GET  http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    malformed(read("GET http://a.test/  HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    malformed(read("GET\thttp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"));
}

#[test]
fn a_method_is_a_token_and_a_target_has_no_control_bytes() {
    for line in [
        "G(T http://a.test/",
        "G\u{e4}T http://a.test/",
        " http://a.test/",
        "GET http://a.test/\u{7f}",
        "GET http://a.test/\u{1}x",
    ] {
        malformed(read(format!("{line} HTTP/1.1\r\nHost: a.test\r\n\r\n")));
    }
    assert_eq!(
        read("BREW http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
            .unwrap()
            .method
            .as_str(),
        "BREW"
    );
}

#[test]
fn row_89_trace_is_refused_in_every_spelling() {
    for method in ["TRACE", "trace", "Track", "connect"] {
        let head = read(format!(
            "{method} http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"
        ));
        assert_eq!(head.err(), Some(Reason::TraceRefused), "{method}");
    }
}

#[test]
fn row_83_the_target_of_connect_wins() {
    let head = read("CONNECT a.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n").unwrap();
    match head.target {
        Target::Authority(authority) => assert_eq!(authority.host.to_string(), "a.test"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn connect_has_no_body() {
    malformed(read(
        "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n",
    ));
    malformed(read(
        "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n",
    ));
}

#[test]
fn row_98_what_concerns_one_hop_does_not_go_on() {
    let head = with(
        "Proxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nTE: trailers\r\n\
         Trailer: x\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\nX-Kept: 2\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n",
    )
    .unwrap();
    let names: Vec<_> = head.headers.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["x-kept"]);
    assert!(!head.keep_alive);
}

#[test]
fn row_101_websocket_is_the_only_upgrade() {
    let head = |method: &str, lines: &str| {
        read(format!(
            "{method} http://a.test/ HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"
        ))
    };
    assert!(
        head("GET", "Connection: Upgrade\r\nUpgrade: WebSocket\r\n")
            .unwrap()
            .websocket
    );
    assert!(!head("GET", "Upgrade: websocket\r\n").unwrap().websocket);
    assert!(
        !head(
            "GET",
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        )
        .unwrap()
        .websocket
    );
    assert_eq!(
        head("POST", "Connection: Upgrade\r\nUpgrade: websocket\r\n").err(),
        Some(Reason::UpgradeRefused)
    );
}

#[test]
fn row_77_expect_is_understood_and_not_passed_on() {
    let head = with("Expect: 100-Continue\r\nContent-Length: 5\r\n").unwrap();
    assert!(head.expects && head.headers.is_empty());
    malformed(with("Expect: 200-ok\r\n"));
}

#[test]
fn row_105_more_than_a_hundred_fields_are_too_many() {
    let fields = |count: usize| with(&"a: b\r\n".repeat(count - 1));
    assert_eq!(
        fields(FIELDS_MAX)
            .unwrap()
            .headers
            .get_all("a")
            .iter()
            .count(),
        FIELDS_MAX - 1
    );
    assert_eq!(fields(FIELDS_MAX + 1).err(), Some(Reason::RequestTooLarge));
}

#[test]
fn only_options_asks_about_everything() {
    malformed(read("GET * HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    let head = read("OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    assert_eq!(head.target, Target::Asterisk);
}

#[test]
fn a_connection_is_kept_as_its_version_says() {
    let keeps = |text: &str| read(text).unwrap().keep_alive;
    assert!(keeps("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    assert!(!keeps(
        "GET http://a.test/ HTTP/1.0\r\nHost: a.test\r\n\r\n"
    ));
    assert!(keeps(
        "GET http://a.test/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    ));
}
