//! What a request leaves with, and what an answer comes back with.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ::http::header::{AUTHORIZATION, COOKIE};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use namzu_types::{Callback, Secret, ValueSource};

use super::*;

mod outgoing;
mod rotation;
mod scrubbing;

const SECRET: &str = "hunter2-and/then+some";

fn literal(secret: &str) -> ValueSource {
    ValueSource::Value(Secret::new(secret))
}

fn inject(source: ValueSource, header: &str, format: &str) -> EgressCredential {
    EgressCredential::Inject {
        source,
        header: header.to_owned(),
        format: format.to_owned(),
    }
}

fn bearer(source: ValueSource) -> EgressCredential {
    inject(source, "authorization", "Bearer {}")
}

fn sentinel(source: ValueSource, env: &str) -> EgressCredential {
    EgressCredential::Sentinel {
        source,
        env: env.to_owned(),
    }
}

fn named<const N: usize>(
    credentials: [(&str, EgressCredential); N],
) -> BTreeMap<String, EgressCredential> {
    credentials
        .into_iter()
        .map(|(name, credential)| (name.to_owned(), credential))
        .collect()
}

async fn broker<const N: usize>(credentials: [(&str, EgressCredential); N]) -> Broker {
    Broker::load(&named(credentials), None).await.unwrap()
}

fn headers<const N: usize>(pairs: [(&str, &str); N]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name: ::http::HeaderName = name.parse().unwrap();
        headers.append(name, value.parse().unwrap());
    }
    headers
}

/// What goes out of a request with `pairs` that a rule with `credential` lets pass.
async fn sent<const N: usize>(
    broker: &Broker,
    credential: Option<&str>,
    pairs: [(&str, &str); N],
) -> Result<HeaderMap, Reason> {
    let mut headers = headers(pairs);
    broker.outgoing(credential, &mut headers).await?;
    Ok(headers)
}

fn all<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let values = headers.get_all(name).iter();
    values.map(|value| value.to_str().unwrap()).collect()
}

#[tokio::test]
async fn a_broken_source_is_refused_with_every_reason_and_no_secret() {
    let credentials = named([
        (
            "a",
            bearer(ValueSource::Env("NAMZU_TEST_NOT_SET".to_owned())),
        ),
        (
            "b",
            bearer(ValueSource::File("/nonexistent/token".to_owned())),
        ),
        ("c", bearer(literal("hunter2\r\nX-Evil: 1"))),
        ("d", bearer(literal("short"))),
        ("e", bearer(literal(SECRET))),
        ("f", bearer(literal("hunter2-and-\0nothing"))),
        ("g", bearer(literal(&"hunter2-".repeat(1025)))),
    ]);
    let faults = Broker::load(&credentials, None).await.unwrap_err();
    let text = faults.join("\n");
    for wanted in [
        "credentials.a: environment variable `NAMZU_TEST_NOT_SET`",
        "credentials.b: cannot read file `/nonexistent/token`",
        "credentials.c: the secret cannot be used: it holds a line end",
        "credentials.d: the secret cannot be used: it is shorter than 8",
        "credentials.f: the secret cannot be used: it holds a line end",
        "credentials.g: the secret cannot be used: it is longer than 8 KiB",
    ] {
        assert!(text.contains(wanted), "{text}");
    }
    assert_eq!(faults.len(), 6, "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn a_form_that_cannot_work_is_refused_before_a_source_is_asked() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let source = ValueSource::Callback(Callback::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(SECRET.to_owned()) }
    }));
    let mut credentials = BTreeMap::new();
    for (header, format) in [
        ("host", "{}"),
        ("content_length", "{}"),
        ("Transfer-Encoding", "{}"),
        ("connection", "{}"),
        ("proxy-authorization", "{}"),
        ("no header", "{}"),
        ("", "{}"),
        ("x-key", "no place"),
        ("x-key", "{} twice {}"),
        ("x-key", "a\nb{}"),
        ("x-key", " {}"),
    ] {
        let name = format!("{header}|{}", format.escape_debug());
        credentials.insert(name, inject(source.clone(), header, format));
    }
    let faults = Broker::load(&credentials, None).await.unwrap_err();
    assert_eq!(faults.len(), 11, "{faults:#?}");
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_sandbox_gets_stand_ins_and_no_secret() {
    let broker = broker([
        ("git", sentinel(literal(SECRET), "GIT_TOKEN")),
        ("api", bearer(literal("another-secret"))),
    ])
    .await;
    let env = broker.env();
    assert_eq!(env.keys().collect::<Vec<_>>(), ["GIT_TOKEN"]);
    let standin = &env["GIT_TOKEN"];
    assert!(standin.starts_with("namzu_") && !standin.contains(SECRET));
}

#[tokio::test]
async fn neither_secrets_nor_stand_ins_are_shown_in_logs() {
    let broker = broker([("git", sentinel(literal(SECRET), "GIT_TOKEN"))]).await;
    let mut request = headers([("authorization", &broker.env()["GIT_TOKEN"])]);
    let scrub = broker.outgoing(Some("git"), &mut request).await.unwrap();
    let shown = format!("{broker:?} {request:?} {scrub:?}");
    assert!(!shown.contains(SECRET), "{shown}");
    assert!(!shown.contains(&broker.env()["GIT_TOKEN"]), "{shown}");
}

#[tokio::test]
async fn stand_ins_stay_the_same_across_policies() {
    let git = ("git", sentinel(literal(SECRET), "GIT_TOKEN"));
    let first = broker([git.clone()]).await;
    let changed = named([("git", sentinel(literal("rotated-secret"), "TOKEN"))]);
    let second = Broker::load(&changed, Some(&first)).await.unwrap();
    assert_eq!(second.env()["TOKEN"], first.env()["GIT_TOKEN"]);
    let without = Broker::load(&BTreeMap::new(), Some(&second)).await.unwrap();
    assert_eq!(without.env(), BTreeMap::new());
    let again = Broker::load(&named([git]), Some(&without)).await.unwrap();
    assert_eq!(again.env(), first.env());
}

#[tokio::test]
async fn stand_ins_of_two_sandboxes_differ() {
    let git = ("git", sentinel(literal(SECRET), "GIT_TOKEN"));
    let (one, other) = (broker([git.clone()]).await, broker([git]).await);
    assert_ne!(one.env(), other.env());
}

#[tokio::test]
async fn a_policy_whose_credential_did_not_change_asks_no_source_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let source = ValueSource::Callback(Callback::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(SECRET.to_owned()) }
    }));
    let credentials = named([("api", bearer(source))]);
    let first = Broker::load(&credentials, None).await.unwrap();
    let second = Broker::load(&credentials, Some(&first)).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let headers = sent(&second, Some("api"), []).await.unwrap();
    assert_eq!(all(&headers, "authorization"), [format!("Bearer {SECRET}")]);
}
