//! What programs that are in no part ours say of the certificates. They are in every distribution, and
//! where one is missing its test says nothing.

use std::path::Path;
use std::process::{Command, Output};

use base64::Engine as _;
use namzu_core::egress::WiredFile;

use super::ground::{Ground, HOST};
use crate::Host;
use crate::tls::ca::Ca;
use crate::tls::trust::{self, BUNDLE, CA, KEYSTORE};
use crate::tls::{H2, HTTP1};

/// A program that judges what is ours: none of a sandbox.
#[expect(
    clippy::disallowed_methods,
    reason = "a program of the system is the judge"
)]
fn judge(program: &str) -> Command {
    Command::new(program)
}

/// `None` where there is no such program.
fn run(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => None,
        Err(why) => panic!("{why}"),
    }
}

fn words(output: &Output) -> String {
    let mut words = String::from_utf8_lossy(&output.stdout).into_owned();
    words.push_str(&String::from_utf8_lossy(&output.stderr));
    words
}

fn wired<'a>(files: &'a [WiredFile], path: &str) -> &'a [u8] {
    &files
        .iter()
        .find(|file| file.path == path)
        .unwrap()
        .contents
}

fn write(dir: &Path, name: &str, contents: &[u8]) -> String {
    let path = dir.join(name);
    std::fs::write(&path, contents).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn openssl_finds_nothing_wrong_with_the_certificates_even_when_strict() {
    let ca = Ca::generate().unwrap();
    let leaf = ca.leaf(&Host::parse(HOST).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let text = base64::engine::general_purpose::STANDARD.encode(&leaf.cert[0]);
    let leaf = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    let leaf = write(dir.path(), "leaf.pem", leaf.as_bytes());
    // Among other roots, as a sandbox has it.
    let other = [Ca::generate().unwrap().der().clone()];
    let (_, files) = trust::trust(&ca, &trust::of(&other).1);
    let bundle = write(dir.path(), "bundle.pem", wired(&files, BUNDLE));
    let other = write(
        dir.path(),
        "other.pem",
        Ca::generate().unwrap().pem().as_bytes(),
    );
    let verify = |roots: &str| {
        run(judge("openssl")
            .args([
                "verify",
                "-x509_strict",
                "-no-CApath",
                "-purpose",
                "sslserver",
            ])
            .args(["-verify_hostname", HOST, "-CAfile", roots, &leaf]))
    };
    let Some(trusted) = verify(&bundle) else {
        return;
    };
    assert!(trusted.status.success(), "{}", words(&trusted));
    assert!(!verify(&other).unwrap().status.success());
}

#[test]
fn the_jvm_reads_the_key_store_and_finds_it_whole() {
    let ca = Ca::generate().unwrap();
    let others: Vec<_> = (0..3)
        .map(|_| Ca::generate().unwrap().der().clone())
        .collect();
    let (_, files) = trust::trust(&ca, &trust::of(&others).1);
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "cacerts", wired(&files, KEYSTORE));
    let list = |path: &str| {
        run(judge("keytool").args(["-list", "-storepass", "changeit", "-keystore", path]))
    };
    let Some(listed) = list(&path) else {
        return;
    };
    let said = words(&listed);
    assert!(listed.status.success(), "{said}");
    assert_eq!(said.matches("trustedCertEntry").count(), 4, "{said}");
    assert!(said.contains("namzu-egress"), "{said}");
    // It looks at the digest at all.
    let mut damaged = wired(&files, KEYSTORE).to_vec();
    let at = damaged.len() - 1;
    damaged[at] ^= 1;
    let damaged = write(dir.path(), "damaged", &damaged);
    assert!(!list(&damaged).unwrap().status.success());
}

#[test]
fn every_variable_names_a_file_that_is_there() {
    let ca = Ca::generate().unwrap();
    let (variables, files) = trust::trust(&ca, &trust::of(&[]).1);
    assert_eq!(wired(&files, CA), ca.pem().as_bytes());
    for (name, value) in &variables {
        let named = files.iter().any(|file| value.contains(&file.path));
        assert!(named || name == "UV_NATIVE_TLS", "{name}={value}");
    }
}

/// Answers one request, however it is asked.
async fn hello(stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    if stream.get_ref().1.alpn_protocol() == Some(H2) {
        let mut connection = ::h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let mut body = respond
                .send_response(http::Response::new(()), false)
                .unwrap();
            body.send_data(bytes::Bytes::from_static(b"hello"), true)
                .unwrap();
        }
        return;
    }
    let mut stream = stream;
    let mut head = [0; 4096];
    let _ = stream.read(&mut head).await.unwrap();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    stream.write_all(answer).await.unwrap();
    let _ = stream.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_trusts_the_boundary_and_gets_its_answer() {
    for (host, version) in [(&[H2, HTTP1][..], "2"), (&[HTTP1], "1.1")] {
        let ground = Ground::new(host, hello).await;
        let dir = tempfile::tempdir().unwrap();
        let (_, files) = trust::trust(ground.place.ca.as_ref().unwrap(), &trust::of(&[]).1);
        let bundle = write(dir.path(), "bundle.pem", wired(&files, BUNDLE));
        let (door, port) = (ground.door().await, ground.port);
        let curl = tokio::task::spawn_blocking(move || {
            run(judge("curl")
                .env_clear()
                .env("CURL_CA_BUNDLE", bundle)
                .args([
                    "-sS",
                    "--noproxy",
                    "*",
                    "--max-time",
                    "20",
                    "-w",
                    " %{http_version}",
                ])
                .args(["--connect-to", &format!("{HOST}:{port}:{door}")])
                .arg(format!("https://{HOST}:{port}/")))
        });
        let Some(output) = curl.await.unwrap() else {
            return;
        };
        assert_eq!(words(&output), format!("hello {version}"));
    }
}
