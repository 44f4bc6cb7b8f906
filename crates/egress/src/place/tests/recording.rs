//! What the audit is told.

use std::sync::atomic::Ordering;

use serde_json::Value;

use super::*;
use crate::audit::Audit;
use crate::audit::tests::{Memory, until};

/// A place whose audit log is in memory.
fn recorded(policy: &namzu_types::EgressPolicy, table: Table) -> (Arc<Place>, Arc<Memory>) {
    let sink = Arc::new(Memory::default());
    let mut outside = outside(table);
    let metrics = Arc::clone(&outside.metrics);
    outside.audit = Audit::start(Arc::clone(&sink) as _, metrics).unwrap();
    (place_at(policy, outside), sink)
}

/// The lines, once there are `count`.
async fn lines(sink: &Memory, count: usize) -> Vec<Value> {
    until(async || sink.lines.lock().unwrap().len() >= count).await;
    let lines = sink.lines.lock().unwrap();
    assert_eq!(lines.len(), count, "{lines:?}");
    let parsed = lines.iter().map(|line| serde_json::from_str(line).unwrap());
    parsed.collect()
}

#[tokio::test]
async fn a_decision_and_the_end_of_its_flow_are_recorded() {
    let (_listener, port) = server().await;
    let (place, sink) = recorded(&loopback(port), Table::loopback(&["a.test"]));
    let flow = place
        .admit(ask(&format!("a.test:{port}")))
        .await
        .ok()
        .unwrap();
    let _stream = flow.dial().await.unwrap();
    flow.saw_server_name("a.test");
    flow.up(7).unwrap();
    flow.down(9).unwrap();
    flow.end(None);
    let lines = lines(&sink, 2).await;
    let (decision, end) = (&lines[0], &lines[1]);
    for line in [decision, end] {
        assert_eq!(line["sandbox"], "test");
        assert_eq!(line["flow"], 1);
        assert_eq!(line["via"], "connect");
        assert_eq!(line["host"], "a.test");
        assert_eq!(line["port"], port);
        assert_eq!(line["verdict"], "allow");
        assert_eq!(line["rule"], "rules[0]");
        assert_eq!(line["gen"], 1);
    }
    assert_eq!(decision["event"], "decision");
    assert_eq!(end["event"], "end");
    assert_eq!(end["ips"][0], "127.0.0.1");
    assert_eq!(end["dialled"], format!("127.0.0.1:{port}"));
    assert_eq!(end["sni"], "a.test");
    assert_eq!(
        (end["bytes_up"].as_u64(), end["bytes_down"].as_u64()),
        (Some(7), Some(9))
    );
    assert!(end["ms"].is_u64());
}

#[tokio::test]
async fn what_was_denied_says_why_and_no_query() {
    let (place, sink) = recorded(&hosts(&["a.test"]), Table::default());
    let request = Ask {
        via: Via::Forward,
        request: Some(("GET".into(), "/a\u{1b}b".into())),
        ..ask("b.test:80")
    };
    place.admit(request).await.err().unwrap();
    let raw = format!("evil\r\n\0{}", "x".repeat(9999));
    place.refuse(Via::Socks, raw, Reason::NameMalformed).await;
    let lines = lines(&sink, 2).await;
    assert_eq!(lines[0]["reason"], "not_listed");
    assert_eq!(lines[0]["verdict"], "deny");
    assert_eq!(lines[0]["method"], "GET");
    assert_eq!(lines[0]["path"], "/a\\u{1b}b");
    let raw = lines[1]["raw"].as_str().unwrap();
    assert!(
        raw.starts_with("evil\\r\\n") && raw.len() < 300 && raw.is_ascii(),
        "{raw}"
    );
}

#[tokio::test]
async fn an_address_that_was_screened_away_is_recorded_with_the_answer() {
    let table = Table::default();
    table.set("a.test", &["10.1.2.3".parse().unwrap()]);
    let (place, sink) = recorded(&hosts(&["a.test"]), table);
    let flow = place.admit(ask("a.test")).await.ok().unwrap();
    flow.dial().await.unwrap_err();
    drop(flow);
    let lines = lines(&sink, 3).await;
    assert_eq!(lines[1]["reason"], "address_private");
    assert_eq!(lines[1]["ips"][0], "10.1.2.3");
    assert_eq!(lines[2]["event"], "end");
    assert_eq!(lines[2]["verdict"], "deny");
    assert_eq!(lines[2]["dialled"], Value::Null);
}

#[tokio::test]
async fn a_change_and_what_it_cut_are_recorded() {
    let (place, sink) = recorded(&hosts(&["a.test"]), Table::default());
    let flow = place.admit(ask("a.test")).await.ok().unwrap();
    let ended = tokio::spawn(async move {
        let why = flow.cut().await;
        flow.end(Some(why));
    });
    place.change(&hosts(&["b.test"])).await.unwrap();
    ended.await.unwrap();
    let lines = lines(&sink, 3).await;
    assert_eq!(lines[1]["event"], "policy");
    assert_eq!(
        (lines[1]["gen"].as_u64(), lines[1]["cut"].as_u64()),
        (Some(2), Some(1))
    );
    assert_eq!(lines[2]["reason"], "narrowed");
    assert_eq!(lines[2]["cut"], 1);
}

#[tokio::test]
async fn nothing_is_let_out_that_cannot_be_recorded_and_all_is_once_it_can() {
    let (place, sink) = recorded(&hosts(&["a.test"]), Table::default());
    sink.full.store(true, Ordering::SeqCst);
    // The first finds out.
    let _first = place.admit(ask("a.test")).await;
    until(async || reason(&place, "a.test").await == Reason::AuditFailed).await;
    sink.full.store(false, Ordering::SeqCst);
    until(async || reason(&place, "a.test").await == Reason::Allowed).await;
    // What was denied meanwhile was kept, and the chain is whole.
    until(async || {
        let lines = sink.lines.lock().unwrap();
        lines.iter().any(|line| line.contains("audit_failed"))
    })
    .await;
    let lines = sink.lines.lock().unwrap();
    let log: String = lines.iter().map(|line| format!("{line}\n")).collect();
    crate::audit::verify(log.as_bytes()).unwrap();
}
