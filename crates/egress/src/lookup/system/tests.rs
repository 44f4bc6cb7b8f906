//! Answers of name servers that each test makes up.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Mutex as Lock;

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME};
use hickory_proto::rr::{Name as DnsName, Record, RecordType};
use tokio::net::UdpSocket;

use super::*;

/// Answers A and AAAA with a chain of two; and what it was asked.
async fn name_server() -> (SocketAddr, Arc<Lock<Vec<String>>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = socket.local_addr().unwrap();
    let asked = Arc::new(Lock::new(Vec::new()));
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        loop {
            let (length, peer) = socket.recv_from(&mut buffer).await.unwrap();
            let query = Message::from_vec(&buffer[..length]).unwrap();
            let question = query.queries[0].clone();
            let name = question.name().clone();
            log.lock().unwrap().push(name.to_string());
            let mut answer = Message::response(query.id, query.op_code);
            answer.metadata.message_type = MessageType::Response;
            answer.metadata.recursion_available = true;
            answer.add_query(question.clone());
            if !name.to_string().eq_ignore_ascii_case("alias.example.") {
                answer.metadata.response_code = ResponseCode::NXDomain;
            } else {
                let real = DnsName::from_ascii("Real.example.").unwrap();
                let cname = RData::CNAME(CNAME(real.clone()));
                answer.add_answer(Record::from_rdata(name, 3600, cname));
                let address = match question.query_type() {
                    RecordType::A => RData::A(A::new(192, 0, 2, 7)),
                    _ => RData::AAAA(AAAA::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7)),
                };
                answer.add_answer(Record::from_rdata(real, 3600, address));
            }
            socket
                .send_to(&answer.to_vec().unwrap(), peer)
                .await
                .unwrap();
        }
    });
    (at, asked)
}

#[tokio::test]
async fn a_chain_is_kept_and_an_answer_holds_for_a_while() {
    let (at, asked) = name_server().await;
    let system = System::servers(vec![at]);
    let name = Name::parse("alias.example").unwrap();
    for _ in 0..3 {
        let answer = system.lookup(&name).await.unwrap();
        let wanted = ["192.0.2.7", "2001:db8::7"].map(|at| at.parse::<IpAddr>().unwrap());
        assert_eq!(answer.addresses.len(), 2);
        assert!(
            wanted.iter().all(|at| answer.addresses.contains(at)),
            "{answer:?}"
        );
        assert_eq!(answer.chain, ["real.example"]);
    }
    let asked = asked.lock().unwrap().clone();
    let addresses = asked
        .iter()
        .filter(|name| **name == "alias.example.")
        .count();
    assert_eq!(
        addresses,
        asked.len(),
        "nothing but the absolute name: {asked:?}"
    );
    // Once for each kind of address.
    assert!(asked.len() <= 2, "{asked:?}");
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_an_error() {
    let (at, asked) = name_server().await;
    let system = System::servers(vec![at]);
    let name = Name::parse("missing.example").unwrap();
    system.lookup(&name).await.unwrap_err();
    let asked = asked.lock().unwrap().clone();
    assert!(
        asked.iter().all(|name| name == "missing.example."),
        "{asked:?}"
    );
}
