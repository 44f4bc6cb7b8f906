//! First messages of TLS.

use std::sync::Arc;

use super::*;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn vector16(content: &[u8]) -> Vec<u8> {
    let mut out = u16::try_from(content.len()).unwrap().to_be_bytes().to_vec();
    out.extend_from_slice(content);
    out
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    let mut out = kind.to_be_bytes().to_vec();
    out.extend(vector16(content));
    out
}

fn sni(text: &[u8]) -> Vec<u8> {
    let mut entry = vec![0];
    entry.extend(vector16(text));
    extension(SERVER_NAME, &vector16(&entry))
}

/// A message with these extensions, head and all.
fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend(vector16(&[0x13, 0x01]));
    body.extend([1, 0]);
    body.extend(vector16(&extensions.concat()));
    let [_, a, b, c] = u32::try_from(body.len()).unwrap().to_be_bytes();
    [vec![CLIENT_HELLO, a, b, c], body].concat()
}

/// `message` in records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for content in message.chunks(size) {
        out.extend([HANDSHAKE, MAJOR, 1]);
        out.extend(vector16(content));
    }
    out
}

fn hello(extensions: &[Vec<u8>]) -> Result<Hello, HelloError> {
    read(&records(&message(extensions), LONGEST_RECORD))
}

/// What a real client sends.
fn real(alpn: &[&[u8]]) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    let server = "api.example.com".try_into().unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), server).unwrap();
    let mut sent = Vec::new();
    client.write_tls(&mut sent).unwrap();
    sent
}

#[test]
fn a_real_hello_is_read() {
    let hello = read(&real(&[b"h2", b"http/1.1"])).unwrap();
    assert_eq!(hello.server_name, Some(name("api.example.com")));
}

#[test]
fn the_server_name_is_canonical() {
    for text in [&b"api.example.com"[..], b"API.Example.COM"] {
        let read = hello(&[sni(text)]).unwrap();
        assert_eq!(read.server_name, Some(name("api.example.com")));
    }
}

#[test]
fn a_hello_in_many_records_is_one_hello() {
    let message = message(&[sni(b"a.example.com"), extension(ALPN, b"\0\x03\x02h2")]);
    let whole = read(&records(&message, LONGEST_RECORD)).unwrap();
    for size in [1, 2, 3, 4, 5, 50] {
        assert_eq!(read(&records(&message, size)), Ok(whole.clone()), "{size}");
    }
}

#[test]
fn a_hello_cut_anywhere_asks_for_what_is_missing() {
    for sent in [real(&[b"h2"]), records(&message(&[sni(b"a.test")]), 7)] {
        for length in 0..sent.len() {
            match read(&sent[..length]) {
                Err(HelloError::Incomplete(need)) => {
                    assert!(need > length && need <= sent.len(), "{need} at {length}");
                }
                other => panic!("{other:?} at {length}"),
            }
        }
        read(&sent).unwrap();
    }
}

#[test]
fn what_follows_the_last_record_is_not_looked_at() {
    let mut sent = real(&[]);
    sent.extend([0xff; 64]);
    read(&sent).unwrap();
}

#[test]
fn a_hello_without_a_server_name_has_none() {
    assert_eq!(hello(&[]).unwrap().server_name, None);
    let mut bare = message(&[]);
    bare.truncate(bare.len() - 2);
    bare[3] -= 2;
    assert_eq!(read(&records(&bare, 4096)).unwrap().server_name, None);
}

#[test]
fn a_server_name_that_is_none_is_malformed() {
    let two = {
        let mut entries = vec![0];
        entries.extend(vector16(b"a.test"));
        entries.push(0);
        entries.extend(vector16(b"b.test"));
        extension(SERVER_NAME, &vector16(&entries))
    };
    let other_kind = extension(SERVER_NAME, &vector16(b"\x01\0\x06a.test"));
    let empty = extension(SERVER_NAME, &vector16(&[]));
    let longer = extension(
        SERVER_NAME,
        &[vector16(b"\0\0\x06a.test"), vec![0]].concat(),
    );
    let shorter = extension(SERVER_NAME, &vector16(b"\0\0\x07a.test"));
    for wrong in [
        sni(b""),
        sni(b"10.0.0.1"),
        sni(b"a\0.test"),
        sni(b"a.test\0"),
        sni(b"a.test:443"),
        sni(b"evil@a.test"),
        sni(b"\xff.test"),
        sni("\u{ff41}.test".as_bytes()),
        two,
        other_kind,
        empty,
        longer,
        shorter,
    ] {
        assert_eq!(
            hello(std::slice::from_ref(&wrong)),
            Err(HelloError::Malformed),
            "{wrong:?}"
        );
    }
}

#[test]
fn what_is_said_twice_is_malformed() {
    let alpn = extension(ALPN, b"\0\x03\x02h2");
    let ech = extension(ENCRYPTED_CLIENT_HELLO, &[0; 8]);
    for twice in [sni(b"a.test"), alpn, ech] {
        assert_eq!(hello(&[twice.clone(), twice]), Err(HelloError::Malformed));
    }
    assert_eq!(
        hello(&[sni(b"a.test"), sni(b"b.test")]),
        Err(HelloError::Malformed)
    );
}

#[test]
fn an_encrypted_hello_hides_nothing_that_is_named_outside() {
    let read = hello(&[sni(b"a.test"), extension(ENCRYPTED_CLIENT_HELLO, &[0; 8])]).unwrap();
    assert_eq!(read.server_name, Some(name("a.test")));
}

#[test]
fn protocols_that_do_not_add_up_are_malformed() {
    for wrong in [
        &b""[..],
        b"\0\0",
        b"\0\x01\0",
        b"\0\x03\x03h2",
        b"\0\x03\x02h2x",
        b"\0\x04\x02h2",
    ] {
        assert_eq!(
            hello(&[extension(ALPN, wrong)]),
            Err(HelloError::Malformed),
            "{wrong:?}"
        );
    }
}

#[test]
fn lengths_that_do_not_add_up_are_malformed() {
    let good = message(&[sni(b"a.test")]);
    // Session id, cipher suites, compression, extensions: each one longer than what is there.
    for at in [4 + 34, 4 + 34 + 2, 4 + 34 + 5, 4 + 34 + 8] {
        let mut wrong = good.clone();
        wrong[at] = wrong[at].wrapping_add(1);
        assert_eq!(
            read(&records(&wrong, 4096)),
            Err(HelloError::Malformed),
            "{at}"
        );
    }
    let mut longer = good;
    longer.push(0);
    assert_eq!(
        read(&records(&longer, 4096)),
        Err(HelloError::Malformed),
        "more in its record"
    );
    longer[3] += 1;
    assert_eq!(
        read(&records(&longer, 4096)),
        Err(HelloError::Malformed),
        "more in its message"
    );
}

#[test]
fn other_protocols_are_not_tls() {
    for text in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"SSH-2.0-x\r\n",
        b"\x80\x2e\x01\x03\x01",
        b"\x15\x03\x01\0\x02\x01\0",
        b"\x16\x02\x01\0\x05",
        b"\x16\x03\x09\0\x05",
        b"\x16\x03\x01\0\0",
        b"\x16\x03\x01\x40\x01",
        b"\0",
    ] {
        assert_eq!(read(text), Err(HelloError::NotTls), "{text:?}");
    }
}

#[test]
fn another_handshake_message_is_malformed_before_it_is_whole() {
    assert_eq!(read(b"\x16\x03\x01\x01\0\x02"), Err(HelloError::Malformed));
    assert_eq!(
        read(b"\x16\x03\x01\0\x01\x01\x15"),
        Err(HelloError::Malformed)
    );
}

#[test]
fn more_than_any_honest_hello_is_too_large() {
    let huge = b"\x16\x03\x01\0\x04\x01\0\x40\x01";
    assert_eq!(read(huge), Err(HelloError::TooLarge));
    let message = message(&[extension(21, &[0; 16_000])]);
    read(&records(&message, LONGEST_RECORD)).unwrap();
    assert_eq!(
        read(&records(&message, 1)),
        Err(HelloError::TooLarge),
        "in crumbs"
    );
}
