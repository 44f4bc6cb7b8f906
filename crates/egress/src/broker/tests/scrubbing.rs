//! Secrets in what comes back.

use super::*;

async fn scrub(credential: EgressCredential) -> (Scrub, Broker) {
    let broker = broker([("it", credential)]).await;
    let mut request = HeaderMap::new();
    let scrub = broker.outgoing(Some("it"), &mut request).await.unwrap();
    (scrub.unwrap(), broker)
}

async fn injected() -> Scrub {
    scrub(bearer(literal(SECRET))).await.0
}

fn stars(text: &str) -> String {
    "*".repeat(text.len())
}

/// A body that comes in chunks of `size`.
fn body(scrub: &Scrub, text: &str, size: usize) -> String {
    let mut body = scrub.body();
    let mut out = Vec::new();
    for chunk in text.as_bytes().chunks(size) {
        body.feed(chunk, &mut out);
    }
    body.finish(&mut out);
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn a_secret_in_answer_headers_is_starred() {
    let scrub = injected().await;
    let mut answer = headers([
        ("x-echo", &format!("a {SECRET} b")),
        ("set-cookie", &format!("t=Bearer {SECRET}")),
        ("server", "nginx"),
    ]);
    scrub.headers(&mut answer);
    assert_eq!(answer["x-echo"], format!("a {} b", stars(SECRET)));
    assert_eq!(answer["set-cookie"], format!("t=Bearer {}", stars(SECRET)));
    assert_eq!(answer["server"], "nginx");
}

#[tokio::test]
async fn a_secret_is_found_across_chunks_of_every_size() {
    let scrub = injected().await;
    let text = format!("{SECRET}{SECRET}, hunter2-and/{SECRET} and hunter2-a");
    let wanted = text.replace(SECRET, &stars(SECRET));
    for size in 1..text.len() {
        assert_eq!(body(&scrub, &text, size), wanted, "{size}");
    }
}

#[tokio::test]
async fn overlapping_secrets_are_taken_out_whole() {
    let (scrub, _) = scrub(bearer(literal("abcdabcdabcd"))).await;
    let text = "xabcdabcdabcdabcdabcdx";
    for size in 1..text.len() {
        assert_eq!(body(&scrub, text, size), "x********************x", "{size}");
    }
}

#[tokio::test]
async fn nothing_is_held_back_that_cannot_be_a_secret() {
    let mut body = injected().await.body();
    let mut out = Vec::new();
    body.feed(b"data: {\"h\":1}\n\n", &mut out);
    assert_eq!(out, b"data: {\"h\":1}\n\n");
    body.feed(b"data: hunter", &mut out);
    assert!(out.ends_with(b"data: "));
    body.feed(b"s\n\n", &mut out);
    assert!(out.ends_with(b"data: hunters\n\n"));
}

#[tokio::test]
async fn what_is_held_back_is_bounded() {
    let mut body = injected().await.body();
    let (mut fed, mut out) = (0, Vec::new());
    for _ in 0..10_000 {
        body.feed(&SECRET.as_bytes()[..SECRET.len() - 1], &mut out);
        fed += SECRET.len() - 1;
        assert!(fed - out.len() < 2 * SECRET.len());
    }
}

#[tokio::test]
async fn the_forms_in_which_a_secret_is_echoed_are_found() {
    let secret = r#"q"u\o/te&<é>-and-more"#;
    let (scrub, _) = scrub(bearer(literal(secret))).await;
    let url: String = secret
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'-' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    for form in [
        secret.to_owned(),
        serde_json::to_string(secret)
            .unwrap()
            .trim_matches('"')
            .to_owned(),
        r#"q\"u\\o\/te&<é>-and-more"#.to_owned(),
        "q&quot;u\\o/te&amp;&lt;é&gt;-and-more".to_owned(),
        url,
    ] {
        let text = format!("<{form}>");
        assert_eq!(
            body(&scrub, &text, 7),
            format!("<{}>", stars(&form)),
            "{form}"
        );
    }
}

#[tokio::test]
async fn a_secret_inside_base64_is_not_readable() {
    let scrub = injected().await;
    for user in ["", "u:", "me:", "you:"] {
        let whole = format!("{user}{SECRET}!tail");
        for form in [STANDARD.encode(&whole), URL_SAFE_NO_PAD.encode(&whole)] {
            let shown = body(&scrub, &form, 5);
            let left = shown.bytes().filter(|byte| *byte != b'*').count();
            let others = (user.len() + 5) * 4 / 3 + 6;
            assert!(left <= others, "{form} became {shown}");
        }
    }
}

#[tokio::test]
async fn user_and_password_of_an_injected_basic_are_taken_out_decoded_too() {
    let user_pass = STANDARD.encode("deploy:correct-horse");
    let (scrub, _) = scrub(inject(literal(&user_pass), "authorization", "Basic {}")).await;
    let text = format!("{user_pass} deploy:correct-horse correct-horse");
    let shown = body(&scrub, &text, 9);
    assert!(
        !shown.contains("horse") && !shown.contains(&user_pass),
        "{shown}"
    );
    assert_eq!(shown.len(), text.len());
}

#[tokio::test]
async fn a_stand_in_takes_the_place_of_its_secret_where_it_fits() {
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let (scrub, broker) = scrub(sentinel(literal(secret), "T")).await;
    let standin = broker.env()["T"].clone();
    for size in [1, 3, 100] {
        let shown = body(&scrub, &format!("token={secret};"), size);
        assert_eq!(shown, format!("token={standin};"));
    }
}

#[tokio::test]
async fn a_secret_is_found_whatever_became_of_the_case_of_its_letters() {
    let secret = "deadbeef-Cafe0123";
    let (scrub, _) = scrub(bearer(literal(secret))).await;
    for echo in [
        "deadbeef-cafe0123",
        "Deadbeef-Cafe0123",
        "DEADBEEF-CAFE0123",
    ] {
        let mut answer = headers([("access-control-allow-headers", echo)]);
        scrub.headers(&mut answer);
        let shown = &answer["access-control-allow-headers"];
        assert_eq!(shown, stars(secret).as_str(), "{echo}");
        for size in 1..=echo.len() {
            let text = format!("Kept {echo} As It Was");
            let wanted = format!("Kept {} As It Was", stars(secret));
            assert_eq!(body(&scrub, &text, size), wanted, "{size}");
        }
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_searched_too() {
    let scrub = injected().await;
    let mut sent = vec![0, 0xff, 0xc3];
    sent.extend(SECRET.bytes());
    sent.extend([0x80, 0]);
    let (mut body, mut out) = (scrub.body(), Vec::new());
    body.feed(&sent, &mut out);
    body.finish(&mut out);
    let wanted = [&[0, 0xff, 0xc3], stars(SECRET).as_bytes(), &[0x80, 0]].concat();
    assert_eq!(out, wanted);
}
