//! Secrets and stand-ins in requests.

use super::*;

fn basic(user_pass: &str) -> String {
    format!("Basic {}", STANDARD.encode(user_pass))
}

#[tokio::test]
async fn the_header_from_inside_is_stripped_and_set_once() {
    let broker = broker([("api", inject(literal(SECRET), "X-Api-Key", "{}"))]).await;
    let sent = sent(
        &broker,
        Some("api"),
        [
            ("x-api-key", "mine"),
            ("X-API-KEY", "also mine"),
            ("x_api_key", "cgi reads it as the same"),
            ("x-api_key", "this too"),
            ("accept", "*/*"),
        ],
    )
    .await
    .unwrap();
    assert_eq!(all(&sent, "x-api-key"), [SECRET]);
    assert_eq!(all(&sent, "accept"), ["*/*"]);
    assert_eq!(sent.len(), 3, "{:?}", sent.keys().collect::<Vec<_>>());
}

#[tokio::test]
async fn the_format_is_around_the_secret() {
    let broker = broker([("api", bearer(literal(SECRET)))]).await;
    let sent = sent(&broker, Some("api"), [("authorization", "Bearer mine")])
        .await
        .unwrap();
    assert_eq!(all(&sent, "authorization"), [format!("Bearer {SECRET}")]);
    assert!(sent[AUTHORIZATION].is_sensitive());
}

#[tokio::test]
async fn a_request_with_a_credential_asks_for_nothing_compressed() {
    let broker = broker([("api", bearer(literal(SECRET)))]).await;
    let pairs = [("accept-encoding", "gzip"), ("accept-encoding", "br")];
    let with = sent(&broker, Some("api"), pairs).await.unwrap();
    assert_eq!(all(&with, "accept-encoding"), ["identity"]);
    let without = sent(&broker, None, pairs).await.unwrap();
    assert_eq!(all(&without, "accept-encoding"), ["gzip", "br"]);
}

#[tokio::test]
async fn a_stand_in_is_exchanged_in_every_header() {
    let broker = broker([("git", sentinel(literal(SECRET), "T"))]).await;
    let standin = &broker.env()["T"];
    let sent = sent(
        &broker,
        Some("git"),
        [
            ("authorization", &format!("token {standin}")),
            ("x-both", &format!("{standin},{standin}")),
            ("x-none", "namzu_ namzu_aaaa"),
        ],
    )
    .await
    .unwrap();
    assert_eq!(all(&sent, "authorization"), [format!("token {SECRET}")]);
    assert_eq!(all(&sent, "x-both"), [format!("{SECRET},{SECRET}")]);
    assert_eq!(all(&sent, "x-none"), ["namzu_ namzu_aaaa"]);
    assert!(sent[AUTHORIZATION].is_sensitive());
}

#[tokio::test]
async fn a_stand_in_is_exchanged_inside_basic() {
    let broker = broker([("git", sentinel(literal(SECRET), "T"))]).await;
    let standin = &broker.env()["T"];
    let whole = basic(&format!("x-access-token:{standin}"));
    let wanted = basic(&format!("x-access-token:{SECRET}"));
    let lower = whole.replacen("Basic", "bAsIc ", 1);
    for (value, wanted) in [
        (whole.as_str(), wanted.clone()),
        (whole.trim_end_matches('='), wanted.clone()),
        (&lower, wanted.replacen("Basic", "bAsIc ", 1)),
        (&basic(standin), basic(SECRET)),
    ] {
        let sent = sent(&broker, Some("git"), [("authorization", value)])
            .await
            .unwrap();
        assert_eq!(all(&sent, "authorization"), [wanted], "{value}");
    }
}

#[tokio::test]
async fn a_stand_in_that_belongs_elsewhere_is_misuse() {
    let broker = broker([
        ("git", sentinel(literal(SECRET), "GIT")),
        ("other", sentinel(literal("other-secret"), "OTHER")),
        ("api", inject(literal("third-secret"), "x-key", "{}")),
    ])
    .await;
    let env = broker.env();
    let plain = format!("Bearer {}", env["GIT"]);
    let within = basic(&format!("me:{}", env["GIT"]));
    for value in [plain.as_str(), within.as_str(), &env["GIT"]] {
        for header in ["authorization", "cookie", "x-key"] {
            for credential in [None, Some("other"), Some("api"), Some("unknown")] {
                let sent = sent(&broker, credential, [(header, value)]).await;
                assert_eq!(
                    sent.unwrap_err(),
                    Reason::CredentialMisuse,
                    "{credential:?} {header}: {value}"
                );
            }
        }
    }
    let own = [("x-a", env["OTHER"].as_str()), ("x-b", env["GIT"].as_str())];
    let both = sent(&broker, Some("other"), own).await;
    assert_eq!(both.unwrap_err(), Reason::CredentialMisuse);
}

#[tokio::test]
async fn a_stand_in_of_an_earlier_policy_is_misuse() {
    let first = broker([("git", sentinel(literal(SECRET), "GIT"))]).await;
    let now = Broker::load(&BTreeMap::new(), Some(&first)).await.unwrap();
    let sent = sent(&now, None, [("authorization", &first.env()["GIT"])]).await;
    assert_eq!(sent.unwrap_err(), Reason::CredentialMisuse);
}

#[tokio::test]
async fn what_is_no_stand_in_passes_untouched() {
    let broker = broker([("git", sentinel(literal(SECRET), "GIT"))]).await;
    let cut = &broker.env()["GIT"][..31];
    for value in [cut, "Basic ???", "Basic", "basic  ", "Basicnamzu_", ""] {
        let sent = sent(&broker, None, [("authorization", value)]).await;
        assert_eq!(all(&sent.unwrap(), "authorization"), [value]);
    }
}

#[tokio::test]
async fn a_rule_whose_credential_is_unknown_lets_nothing_pass() {
    let broker = Broker::default();
    let sent = sent(&broker, Some("git"), []).await;
    assert_eq!(sent.unwrap_err(), Reason::CredentialMissing);
}

#[tokio::test]
async fn exchanging_makes_no_request_larger_than_a_bound() {
    let long = "s".repeat(8192);
    let first = broker([("git", sentinel(literal(SECRET), "T"))]).await;
    let credentials = named([("git", sentinel(literal(&long), "T"))]);
    let broker = Broker::load(&credentials, Some(&first)).await.unwrap();
    let standin = &broker.env()["T"];
    let seven = sent(&broker, Some("git"), [("x", &standin.repeat(7))]).await;
    assert_eq!(all(&seven.unwrap(), "x")[0].len(), 7 * 8192);
    let many = sent(&broker, Some("git"), [("x", &standin.repeat(1000))]).await;
    assert_eq!(many.unwrap_err(), Reason::RequestTooLarge);
    let value = standin.repeat(5);
    let two = sent(&broker, Some("git"), [("x", &value), ("y", &value)]).await;
    assert_eq!(two.unwrap_err(), Reason::RequestTooLarge);
}

#[tokio::test]
async fn a_cookie_is_a_header_like_any_other() {
    let broker = broker([("git", sentinel(literal(SECRET), "T"))]).await;
    let cookie = format!("a=b; session={}; c=d", broker.env()["T"]);
    let sent = sent(&broker, Some("git"), [("cookie", &cookie)])
        .await
        .unwrap();
    assert_eq!(sent[COOKIE], format!("a=b; session={SECRET}; c=d"));
}

#[tokio::test]
async fn an_answer_is_asked_for_as_a_whole_and_in_plain_letters() {
    let broker = broker([("it", bearer(literal(SECRET)))]).await;
    let asked = [
        ("range", "bytes=0-4"),
        ("if-range", "\"etag\""),
        ("accept-charset", "utf-16"),
        ("accept-encoding", "gzip"),
        ("accept", "*/*"),
    ];
    let with = sent(&broker, Some("it"), asked).await.unwrap();
    for gone in ["range", "if-range", "accept-charset"] {
        assert!(!with.contains_key(gone), "{gone}");
    }
    assert_eq!(with["accept-encoding"], "identity");
    assert_eq!(with["accept"], "*/*");
    let without = sent(&broker, None, asked).await.unwrap();
    assert_eq!(without["range"], "bytes=0-4");
}
