//! Policies that change while something is open.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinSet;

use super::*;

/// Whether the flow was told to end by now.
async fn was_cut(flow: &Flow) -> Option<Reason> {
    let mut cut = std::pin::pin!(flow.cut());
    poll_fn(|cx| {
        Poll::Ready(match cut.as_mut().poll(cx) {
            Poll::Ready(why) => Some(why),
            Poll::Pending => None,
        })
    })
    .await
}

async fn flow(place: &Arc<Place>, authority: &str) -> Flow {
    place.admit(ask(authority)).await.ok().unwrap()
}

#[tokio::test]
async fn a_change_ends_what_it_no_longer_allows_and_nothing_else() {
    let place = place(&hosts(&["a.test", "b.test"]), Table::default());
    let (a, b) = (flow(&place, "a.test").await, flow(&place, "b.test").await);
    let change = place.change(&hosts(&["b.test", "c.test"])).await.unwrap();
    assert_eq!((change.generation, change.kept, change.cut), (2, 1, 1));
    assert_eq!(was_cut(&a).await, Some(Reason::Narrowed));
    assert_eq!(was_cut(&b).await, None);
    assert_eq!(reason(&place, "a.test").await, Reason::NotListed);
    assert_eq!(reason(&place, "c.test").await, Reason::Allowed);
    drop(a);
    let widened = place
        .change(&hosts(&["a.test", "b.test", "c.test"]))
        .await
        .unwrap();
    assert_eq!((widened.kept, widened.cut), (1, 0));
    assert_eq!(was_cut(&b).await, None);
}

#[tokio::test]
async fn a_policy_with_a_fault_changes_nothing() {
    let place = place(&hosts(&["a.test"]), Table::default());
    let live = flow(&place, "a.test").await;
    let reasons = place
        .change(&hosts(&["*", "*.com", "b.test"]))
        .await
        .unwrap_err();
    assert!(reasons.len() >= 2, "every reason: {reasons:?}");
    assert_eq!(was_cut(&live).await, None);
    assert_eq!(reason(&place, "a.test").await, Reason::Allowed);
    assert_eq!(reason(&place, "b.test").await, Reason::NotListed);
    assert_eq!(place.regime.load().snapshot.generation, 1);
}

#[tokio::test]
async fn a_thousand_flows_are_told_before_the_change_returns() {
    let mut wide = hosts(&["a.test", "b.test"]);
    if let namzu_types::EgressPolicy::Static { limits, .. } = &mut wide {
        limits.flows = Some(2000);
        limits.flows_per_second = Some(1_000_000);
    }
    let place = place(&wide, Table::default());
    let mut tasks = JoinSet::new();
    for at in 0..1000 {
        let host = if at % 2 == 0 { "a.test" } else { "b.test" };
        let flow = flow(&place, host).await;
        tasks.spawn(async move {
            let why = flow.cut().await;
            flow.end(Some(why));
            why
        });
    }
    let change = place.change(&hosts(&["a.test"])).await.unwrap();
    assert_eq!((change.kept, change.cut), (500, 500));
    // Not only told: over.
    assert_eq!(place.flows.live().len(), 500);
    place.close();
    let reasons = tasks.join_all().await;
    let narrowed = reasons.iter().filter(|why| **why == Reason::Narrowed);
    assert_eq!(narrowed.count(), 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_slips_in_while_the_policy_changes() {
    let unhurried = |host: &str| {
        policy(&format!(
            r#"{{"kind": "static", "allowedHosts": ["{host}"], "limits": {{"flowsPerSecond": 1000000}}}}"#
        ))
    };
    let policies = [unhurried("a.test"), unhurried("b.test")];
    let place = place(&policies[0], Table::default());
    for round in 0..200 {
        let mut asking = JoinSet::new();
        for _ in 0..3 {
            let place = Arc::clone(&place);
            // One that slipped in would wait for ever.
            asking.spawn(async move {
                match place.admit(ask("a.test")).await {
                    Ok(flow) => flow.cut().await,
                    Err(denial) => denial.reason,
                }
            });
        }
        place.change(&policies[1]).await.unwrap();
        let reasons = tokio::time::timeout(Duration::from_secs(60), asking.join_all()).await;
        for why in reasons.unwrap() {
            assert!(
                matches!(why, Reason::Narrowed | Reason::NotListed),
                "{round}: {why}"
            );
        }
        place.change(&policies[0]).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_flow_that_does_not_end_holds_nobody_up_for_long() {
    let place = place(&hosts(&["a.test"]), Table::default());
    let _stuck = flow(&place, "a.test").await;
    let change = place.change(&namzu_types::EgressPolicy::DenyAll);
    let change = tokio::time::timeout(Duration::from_secs(1), change).await;
    assert_eq!(change.unwrap().unwrap().cut, 1);
}

#[tokio::test]
async fn what_was_carried_unseen_ends_when_the_policy_wants_to_look() {
    let place = place(&hosts(&["a.test"]), Table::default());
    let mut seen = flow(&place, "a.test").await;
    seen.refine(Scheme::Https).unwrap();
    assert!(!seen.verdict.terminate);
    // Another sandbox could not take this policy live at all: this one gets a CA for the test.
    let next = policy(r#"{"kind": "static", "rules": [{"host": "a.test", "methods": ["GET"]}]}"#);
    let reasons = place.change(&next).await.unwrap_err();
    assert!(reasons[0].contains("CA"), "{reasons:?}");
    assert_eq!(was_cut(&seen).await, None);
}

#[tokio::test]
async fn a_tunnel_is_cut_when_a_later_rule_must_see_its_requests() {
    let first = policy(
        r#"{"kind": "static", "allowedHosts": ["a.test"], "rules": [{"host": "b.test", "tls": "terminate"}]}"#,
    );
    let place = place(&first, Table::default());
    let mut unseen = flow(&place, "a.test").await;
    let mut seen = flow(&place, "b.test").await;
    unseen.refine(Scheme::Https).unwrap();
    seen.refine(Scheme::Https).unwrap();
    assert!(seen.verdict.terminate && !unseen.verdict.terminate);
    let second = policy(
        r#"{"kind": "static", "rules": [{"host": "a.test", "methods": ["GET"]}, {"host": "b.test", "methods": ["GET"]}]}"#,
    );
    let change = place.change(&second).await.unwrap();
    assert_eq!((change.kept, change.cut), (1, 1));
    assert_eq!(was_cut(&unseen).await, Some(Reason::Narrowed));
    assert_eq!(was_cut(&seen).await, None);
}

#[tokio::test]
async fn bytes_of_any_kind_are_cut_when_only_tls_is_allowed_still() {
    let rule = |scheme: &str| {
        policy(&format!(
            r#"{{"kind": "static", "rules": [{{"host": "a.test", "ports": [443], "scheme": "{scheme}"}}]}}"#
        ))
    };
    let place = place(&rule("tcp"), Table::default());
    // It is carried at once, and never refined.
    let opaque = flow(&place, "a.test").await;
    let change = place.change(&rule("https")).await.unwrap();
    assert_eq!(change.cut, 1);
    assert_eq!(was_cut(&opaque).await, Some(Reason::Narrowed));
}

#[tokio::test]
async fn where_a_flow_leads_is_screened_again_by_the_new_policy() {
    let (_listener, port) = server().await;
    let place = place(&loopback(port), Table::loopback(&["a.test"]));
    let inward = flow(&place, &format!("a.test:{port}")).await;
    let _stream = inward.dial().await.unwrap();
    let outward = policy(&format!(
        r#"{{"kind": "static", "rules": [{{"host": "a.test", "ports": [{port}], "scheme": "tcp"}}]}}"#
    ));
    assert_eq!(place.change(&outward).await.unwrap().cut, 1);
    assert_eq!(was_cut(&inward).await, Some(Reason::Narrowed));
}

#[tokio::test]
async fn what_is_found_out_later_is_decided_by_the_policy_in_force() {
    let place = place(
        &policy(
            r#"{"kind": "static", "rules": [{"host": "a.test", "ports": [80], "scheme": "http"}, {"host": "a.test", "ports": [80], "scheme": "https"}]}"#,
        ),
        Table::default(),
    );
    let mut waiting = flow(&place, "a.test:80").await;
    let only = policy(
        r#"{"kind": "static", "rules": [{"host": "a.test", "ports": [80], "scheme": "http"}]}"#,
    );
    assert_eq!(place.change(&only).await.unwrap().cut, 0);
    assert_eq!(
        waiting.refine(Scheme::Https).unwrap_err().reason,
        Reason::SchemeNotListed
    );
    let mut other = flow(&place, "a.test:80").await;
    other.refine(Scheme::Http).unwrap();
    assert_eq!(other.verdict.generation, 2);
}
