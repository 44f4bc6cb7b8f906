//! What is answered to look-ups, and what nobody outside hears of.

use std::sync::atomic::Ordering;

use hickory_proto::op::{Edns, Message, Query as Question, ResponseCode};
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use hickory_proto::rr::{DNSClass, Name as DnsName, RData, RecordType};
use tokio::io::duplex;

use super::*;
use crate::Lookup;
use crate::boundary::Outside;
use crate::place::testing::{Table, place, place_at, policy};

const RULES: &str = r#"{"kind": "static", "allowedHosts": ["api.example.com", "*.files.example.com"],
    "deniedHosts": ["secret.files.example.com"]}"#;

fn admitting(policy: &str) -> Arc<Place> {
    place(&self::policy(policy), Table::default())
}

/// A query as a library writes it.
fn query(name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.id = 7;
    message.metadata.recursion_desired = true;
    message.add_query(Question::query(DnsName::from_ascii(name).unwrap(), kind));
    message
}

/// The answer as a library reads it.
async fn asked(place: &Arc<Place>, message: &Message) -> Message {
    let answer = answer(place, &message.to_vec().unwrap()).await.unwrap();
    let answer = Message::from_vec(&answer).unwrap();
    assert_eq!(answer.metadata.id, message.metadata.id);
    assert_eq!(answer.queries, message.queries);
    answer
}

async fn ask(place: &Arc<Place>, name: &str, kind: RecordType) -> Message {
    asked(place, &query(name, kind)).await
}

/// The address of an allowed name.
async fn address(place: &Arc<Place>, name: &str) -> Ipv4Addr {
    let answer = ask(place, name, RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
    match &answer.answers[..] {
        [record] => match record.data {
            RData::A(address) => address.0,
            ref other => panic!("{other}"),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_allowed_name_gets_an_address_of_its_own_that_stays() {
    let place = admitting(RULES);
    let first = address(&place, "api.example.com.").await;
    let other = address(&place, "a.files.example.com.").await;
    assert_ne!(first, other);
    assert_eq!(address(&place, "API.example.COM.").await, first);
    assert_eq!(
        place.names.name(first),
        Some(Name::parse("api.example.com").unwrap())
    );
}

#[tokio::test]
async fn a_name_is_never_asked_for_outside() {
    let table = Arc::new(Table::loopback(&["api.example.com", "other.example.com"]));
    let place = place_at(
        &policy(RULES),
        Outside::bare(Arc::clone(&table) as Arc<dyn Lookup>),
    );
    address(&place, "api.example.com.").await;
    ask(&place, "other.example.com.", RecordType::A).await;
    ask(&place, "api.example.com.", RecordType::TXT).await;
    assert_eq!(table.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_denied_name_does_not_exist_whatever_is_asked_of_it() {
    let place = admitting(RULES);
    for name in [
        "evil.test.",
        "example.com.",
        "files.example.com.",
        "secret.files.example.com.",
        "api.example.com.evil.test.",
        "metadata.",
        "localhost.",
        "1.0.0.127.in-addr.arpa.",
    ] {
        for kind in [
            RecordType::A,
            RecordType::AAAA,
            RecordType::TXT,
            RecordType::PTR,
        ] {
            let answer = ask(&place, name, kind).await;
            assert_eq!(
                answer.metadata.response_code,
                ResponseCode::NXDomain,
                "{name} {kind}"
            );
            assert!(answer.answers.is_empty());
        }
    }
}

#[tokio::test]
async fn nothing_resolves_where_nothing_may_leave() {
    let place = admitting(r#"{"kind": "deny-all"}"#);
    let answer = ask(&place, "api.example.com.", RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
}

#[tokio::test]
async fn a_refusal_has_its_reason_where_the_query_has_edns() {
    let place = admitting(RULES);
    let mut message = query("evil.test.", RecordType::A);
    assert!(asked(&place, &message).await.edns.is_none());
    message.set_edns(Edns::new());
    let answer = asked(&place, &message).await;
    let edns = answer.edns.unwrap();
    let Some(EdnsOption::Unknown(15, error)) = edns.option(EdnsCode::Unknown(15)) else {
        panic!("{edns:?}");
    };
    assert_eq!(error[..2], [0, 15], "blocked");
    assert!(error[2..].starts_with(b"not_listed: "), "{error:?}");
}

#[tokio::test]
async fn other_types_of_an_allowed_name_are_empty_and_not_missing() {
    let place = admitting(RULES);
    for kind in [
        RecordType::AAAA,
        RecordType::HTTPS,
        RecordType::SVCB,
        RecordType::MX,
        RecordType::SRV,
        RecordType::TXT,
        RecordType::CNAME,
        RecordType::CAA,
        RecordType::NS,
    ] {
        let answer = ask(&place, "api.example.com.", kind).await;
        assert_eq!(
            answer.metadata.response_code,
            ResponseCode::NoError,
            "{kind}"
        );
        assert!(answer.answers.is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn what_names_many_records_or_carries_bytes_is_refused() {
    let place = admitting(RULES);
    for kind in [
        RecordType::ANY,
        RecordType::AXFR,
        RecordType::IXFR,
        RecordType::NULL,
        RecordType::OPT,
        RecordType::Unknown(249),
        RecordType::Unknown(253),
    ] {
        let answer = ask(&place, "api.example.com.", kind).await;
        assert_eq!(
            answer.metadata.response_code,
            ResponseCode::Refused,
            "{kind}"
        );
    }
    let mut chaos = query("version.bind.", RecordType::TXT);
    chaos.queries[0].set_query_class(DNSClass::CH);
    let answer = asked(&place, &chaos).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
}

#[tokio::test]
async fn what_is_no_host_name_has_no_address() {
    let place = admitting(r#"{"kind": "allow-all"}"#);
    for name in [
        ".",
        "a\\.b.example.com.",
        "*.example.com.",
        "10.0.0.1.",
        "2852039166.",
    ] {
        let answer = ask(&place, name, RecordType::A).await;
        assert_eq!(
            answer.metadata.response_code,
            ResponseCode::FormErr,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_wildcard_carries_no_long_texts() {
    let place = admitting(RULES);
    let long = format!("{0}.{0}.files.example.com.", "d".repeat(60));
    let answer = ask(&place, &long, RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
}

#[tokio::test]
async fn the_name_of_a_given_address_can_be_asked_for() {
    let place = admitting(RULES);
    let given = address(&place, "api.example.com.").await;
    let [a, b, c, d] = given.octets();
    let reverse = format!("{d}.{c}.{b}.{a}.In-Addr.ARPA.");
    let answer = ask(&place, &reverse, RecordType::PTR).await;
    match &answer.answers[..] {
        [record] => assert_eq!(record.data.to_string(), "api.example.com."),
        other => panic!("{other:?}"),
    }
    let answer = ask(&place, &reverse, RecordType::TXT).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
    assert!(answer.answers.is_empty());
}

#[tokio::test]
async fn many_different_names_are_too_many() {
    let place = admitting(
        r#"{"kind": "static", "allowedHosts": ["*.files.example.com"], "limits": {"namesPerMinute": 2}}"#,
    );
    let code = async |name: &str| {
        ask(&place, name, RecordType::A)
            .await
            .metadata
            .response_code
    };
    assert_eq!(code("a.files.example.com.").await, ResponseCode::NoError);
    assert_eq!(code("b.files.example.com.").await, ResponseCode::NoError);
    assert_eq!(code("c.files.example.com.").await, ResponseCode::Refused);
    assert_eq!(
        code("a.files.example.com.").await,
        ResponseCode::NoError,
        "nothing new"
    );
}

#[tokio::test]
async fn an_allowed_look_up_is_no_flow() {
    let place = admitting(
        r#"{"kind": "static", "allowedHosts": ["*.files.example.com"], "limits": {"flows": 1, "flowsPerSecond": 1}}"#,
    );
    for number in 0..10 {
        address(&place, &format!("n{number}.files.example.com.")).await;
    }
}

#[tokio::test]
async fn garbage_is_answered_briefly_or_not_at_all() {
    let place = admitting(RULES);
    assert_eq!(answer(&place, b"").await, None);
    assert_eq!(answer(&place, &[0; 11]).await, None);
    let garbage = answer(&place, &[0; 12]).await.unwrap();
    assert_eq!((garbage.len(), garbage[3] & 0xf), (12, 1));
}

#[tokio::test]
async fn over_tcp_queries_follow_each_other_until_one_is_too_long() {
    let place = admitting(RULES);
    let (mut outer, inner) = duplex(4096);
    let served = tokio::spawn(tcp(place, Inside::Channel(Box::new(inner))));
    let message = query("api.example.com.", RecordType::A).to_vec().unwrap();
    let framed = [
        &u16::try_from(message.len()).unwrap().to_be_bytes()[..],
        &message,
    ]
    .concat();
    outer.write_all(&framed.repeat(2)).await.unwrap();
    for _ in 0..2 {
        let mut answer = vec![0; usize::from(outer.read_u16().await.unwrap())];
        outer.read_exact(&mut answer).await.unwrap();
        assert_eq!(Message::from_vec(&answer).unwrap().answers.len(), 1);
    }
    outer.write_all(&[0x10, 0x01]).await.unwrap();
    assert!(outer.read_u8().await.is_err(), "closed");
    served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_query_that_does_not_come_to_its_end_is_not_waited_for() {
    let place = admitting(RULES);
    let (mut outer, inner) = duplex(4096);
    let served = tokio::spawn(tcp(place, Inside::Channel(Box::new(inner))));
    outer.write_all(&[0, 40, 1, 2, 3]).await.unwrap();
    served.await.unwrap();
}

#[tokio::test]
async fn over_udp_each_datagram_is_a_query_of_its_own() {
    let place = admitting(RULES);
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(server.local_addr().unwrap()).await.unwrap();
    let mut served = JoinSet::new();
    served.spawn(udp(place, server));
    client.send(&[0xff; 5000]).await.unwrap();
    client.send(b"").await.unwrap();
    let message = query("api.example.com.", RecordType::A).to_vec().unwrap();
    client.send(&message).await.unwrap();
    let mut answer = [0; 512];
    let length = client.recv(&mut answer).await.unwrap();
    assert_eq!(
        Message::from_vec(&answer[..length]).unwrap().answers.len(),
        1
    );
}
