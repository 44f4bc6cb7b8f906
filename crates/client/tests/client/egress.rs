//! The boundary between a sandbox and the world, as far as this crate puts it there.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use h2::RecvStream;
use namzu_core::ErrorCode;
use namzu_core::egress::{Doors, Gate, OpenDoors};
use namzu_core::types::{EgressPolicy, SandboxSpec};
use namzu_protocol::ext::{self, Outcome, ProbeRequest, ProbeResponse};

use crate::fake::{Call, FakeBackend};

/// Opens nothing, and remembers what it was asked for.
#[derive(Debug, Default)]
struct Asked(Mutex<Vec<Vec<u16>>>);

#[async_trait]
impl OpenDoors for Asked {
    async fn open(&self, ports: &[u16]) -> namzu_core::Result<Doors> {
        self.0.lock().unwrap().push(ports.to_vec());
        Ok(Doors::default())
    }
}

fn idle() -> Arc<FakeBackend> {
    FakeBackend::new(|_| async {})
}

fn gated(backend: &FakeBackend) -> Arc<Asked> {
    let asked = Arc::new(Asked::default());
    let gate = Arc::clone(&asked) as Arc<dyn OpenDoors>;
    *backend.gate.lock().unwrap() = Some(Gate::Sockets(gate));
    asked
}

fn under(egress: EgressPolicy) -> SandboxSpec {
    SandboxSpec {
        egress: Some(egress),
        ..SandboxSpec::default()
    }
}

fn json(text: &str) -> EgressPolicy {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn a_list_of_hosts_without_a_way_inside_leaves_nothing_behind() {
    let backend = idle();
    let policy = EgressPolicy::hosts(["a.test"]);
    let err = backend.provider().create(under(policy)).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::Unsupported, "{err}");
    assert!(!err.reasons().is_empty(), "{err}");
    assert_eq!(backend.fate.destroyed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_policy_that_is_refused_launches_nothing() {
    let backend = idle();
    gated(&backend);
    let bad = under(EgressPolicy::hosts(["*", "*.com"]));
    for err in [
        backend.provider().plan(&bad).await.unwrap_err(),
        backend.provider().create(bad.clone()).await.unwrap_err(),
    ] {
        assert_eq!(err.code(), ErrorCode::ConfigInvalid, "{err}");
        assert_eq!(err.reasons().len(), 2, "{err}");
        assert_eq!(err.backend(), Some("process:fake"));
    }
    assert!(backend.specs.lock().unwrap().is_empty());
}

#[tokio::test]
async fn doors_are_open_before_the_sandbox_is_handed_out() {
    let backend = idle();
    let asked = gated(&backend);
    let policy = EgressPolicy::hosts(["a.test"]);
    let mut spec = under(policy);
    spec.env.insert("HTTPS_PROXY".to_owned(), "mine".to_owned());
    let sandbox = backend.provider().create(spec).await.unwrap();
    assert_eq!(*asked.0.lock().unwrap(), [vec![80, 443]]);
    let wiring = backend.wirings.lock().unwrap().pop().unwrap();
    assert!(wiring.doors);
    assert!(
        wiring
            .files
            .iter()
            .any(|file| file.path == "/etc/resolv.conf")
    );
    assert!(wiring.env.contains_key("HTTP_PROXY"));
    // What the specification sets is the specification's.
    assert!(!wiring.env.contains_key("HTTPS_PROXY"));
    assert_eq!(sandbox.network_policy().kind, "static");
}

#[tokio::test]
async fn deny_all_costs_nothing_until_something_may_leave() {
    let backend = idle();
    let asked = gated(&backend);
    let sandbox = backend.sandbox().await;
    let wiring = backend.wirings.lock().unwrap().pop().unwrap();
    assert!(!wiring.doors && wiring.env.is_empty() && wiring.files.is_empty());
    assert!(asked.0.lock().unwrap().is_empty());
    assert!(!sandbox.explain("a.test").await.unwrap().allowed);

    let change = sandbox
        .set_network_policy(json(
            r#"{"kind":"static","rules":[{"host":"a.test","ports":[8443]}]}"#,
        ))
        .await
        .unwrap();
    assert_eq!((change.generation, change.kept, change.cut), (2, 0, 0));
    assert_eq!(*asked.0.lock().unwrap(), [vec![8443]]);
    assert!(sandbox.explain("a.test:8443").await.unwrap().allowed);
    assert_eq!(sandbox.receipt().egress, "static");

    // Only what is missing is opened.
    let both = r#"{"kind":"static","rules":[{"host":"a.test","ports":[8443, 22]}]}"#;
    let change = sandbox.set_network_policy(json(both)).await.unwrap();
    assert_eq!(change.generation, 3);
    sandbox.set_network_policy(json(both)).await.unwrap();
    assert_eq!(*asked.0.lock().unwrap(), [vec![8443], vec![22]]);
}

#[tokio::test]
async fn what_a_change_refuses_leaves_the_policy() {
    let backend = idle();
    gated(&backend);
    let mut spec = SandboxSpec::default();
    spec.env.insert("API_KEY".to_owned(), "mine".to_owned());
    let sandbox = backend.provider().create(spec).await.unwrap();
    for bad in [
        r#"{"kind":"static","allowedHosts":["*"]}"#,
        // Its certificate authority would have had to be put in at creation.
        r#"{"kind":"static","rules":[{"host":"a.test","tls":"terminate"}]}"#,
        r#"{"kind":"static","credentials":{"key":{"mode":"sentinel","source":{"env":"K"},"env":"API_KEY"}}}"#,
    ] {
        let err = sandbox.set_network_policy(json(bad)).await.unwrap_err();
        assert_eq!(err.code(), ErrorCode::ConfigInvalid, "{bad}: {err}");
        assert!(!err.reasons().is_empty(), "{bad}: {err}");
    }
    assert_eq!(sandbox.network_policy().generation, 1);
    assert_eq!(sandbox.receipt().egress, "deny-all");
}

#[tokio::test]
async fn who_finds_a_sandbox_again_cannot_change_its_policy() {
    let backend = idle();
    let made = backend
        .provider()
        .create(SandboxSpec {
            detach: true,
            ..SandboxSpec::default()
        })
        .await
        .unwrap();
    let found = backend.provider().connect(made.id()).await.unwrap();
    let err = found
        .set_network_policy(EgressPolicy::DenyAll)
        .await
        .unwrap_err();
    assert_eq!(err.code(), ErrorCode::Unsupported);
    assert!(err.to_string().contains("found again"), "{err}");
    found.destroy().await.unwrap();
    let err = found
        .set_network_policy(EgressPolicy::DenyAll)
        .await
        .unwrap_err();
    assert!(err.to_string().contains("destroyed"), "{err}");
}

/// A worker that says of every try what `outcome` says.
fn tried(outcome: fn() -> Option<Outcome>) -> Arc<FakeBackend> {
    FakeBackend::new(move |mut call: Call| async move {
        if call.path != ext::PROBE {
            return;
        }
        let asked: ProbeRequest = ext::from_json(&call.read().await).unwrap();
        let outcomes = asked.tries.iter().filter_map(|_| outcome()).collect();
        let answer = ext::to_json(&ProbeResponse { outcomes });
        call.answer(200, "application/json", answer);
    })
}

fn verified() -> SandboxSpec {
    SandboxSpec {
        verify_egress: true,
        ..SandboxSpec::default()
    }
}

#[tokio::test]
async fn walls_that_refuse_everything_pass_the_test() {
    let backend = tried(|| {
        Some(Outcome::Failed {
            error: "unreachable".to_owned(),
            addresses: vec![],
        })
    });
    backend.provider().create(verified()).await.unwrap();
    assert_eq!(backend.fate.destroyed.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_wall_with_a_hole_fails_the_creation() {
    let backend = tried(|| Some(Outcome::Reached { addresses: vec![] }));
    let err = backend.provider().create(verified()).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::BackendFailed, "{err}");
    for part in [
        "198.51.100.1",
        "169.254.169.254",
        "2001:db8::1",
        "udp",
        "127.0.0.1",
        "denied name",
    ] {
        assert!(err.to_string().contains(part), "{part}: {err}");
    }
    assert_eq!(backend.fate.destroyed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_worker_that_tries_something_else_breaks_the_protocol() {
    let backend = tried(|| None);
    let err = backend.provider().create(verified()).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::ProtocolViolation, "{err}");
    assert_eq!(backend.fate.destroyed.load(Ordering::SeqCst), 1);
}

async fn all(mut body: RecvStream) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(Ok(chunk)) = body.data().await {
        let _ = body.flow_control().release_capacity(chunk.len());
        whole.extend_from_slice(&chunk);
    }
    whole
}

#[tokio::test]
async fn what_the_worker_forwards_is_judged_by_the_boundary() {
    let (heard, mut hears) = tokio::sync::mpsc::channel(1);
    let somebody = Arc::new(Mutex::new(Some(heard)));
    let backend = FakeBackend::new(move |call: Call| {
        let somebody = Arc::clone(&somebody);
        async move {
            if call.path == ext::DOORS {
                let answer = r#"{"proxy":true,"dns":true,"routed":true,"ports":[443]}"#;
                return call.answer(200, "application/json", answer);
            }
            let comes = call.path == ext::ACCEPT && call.query == "door=proxy";
            let heard = somebody.lock().unwrap().take_if(|_| comes);
            let Some(heard) = heard else {
                // Nobody else comes by a door.
                return std::future::pending().await;
            };
            let (mut send, body) = call.duplex(&[("namzu-door", "proxy")]);
            let request =
                "GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n";
            send.send_data(Bytes::from(request), false).unwrap();
            heard.send(all(body).await).await.unwrap();
        }
    });
    *backend.gate.lock().unwrap() = Some(Gate::Channel);
    let policy = EgressPolicy::hosts(["a.test"]);
    let _sandbox = backend.provider().create(under(policy)).await.unwrap();
    let answer = String::from_utf8(hears.recv().await.unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("not_listed"), "{answer}");
}

#[tokio::test]
async fn a_worker_that_cannot_open_doors_says_why() {
    let backend = FakeBackend::new(|call: Call| async move {
        if call.path == ext::DOORS {
            let answer = r#"{"proxy":false,"dns":true,"failures":["port 3128 is taken"]}"#;
            return call.answer(200, "application/json", answer);
        }
        std::future::pending::<()>().await;
    });
    *backend.gate.lock().unwrap() = Some(Gate::Channel);
    let policy = EgressPolicy::hosts(["a.test"]);
    let err = backend.provider().create(under(policy)).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::BackendFailed, "{err}");
    assert!(err.to_string().contains("3128"), "{err}");
    assert_eq!(backend.fate.destroyed.load(Ordering::SeqCst), 1);
}

/// A worker that opens its doors, and whose accepts are answered by `accepted`.
fn forwarding<F>(accepted: F) -> Arc<FakeBackend>
where
    F: Fn(Call) -> Option<Call> + Send + Sync + 'static,
{
    let accepted = Arc::new(accepted);
    let backend = FakeBackend::new(move |call: Call| {
        let accepted = Arc::clone(&accepted);
        async move {
            if call.path == ext::DOORS {
                let answer = r#"{"proxy":true,"dns":true,"routed":true,"ports":[443]}"#;
                return call.answer(200, "application/json", answer);
            }
            let parked = match call.path.as_str() {
                ext::ACCEPT => accepted(call),
                _ => Some(call),
            };
            if parked.is_some() {
                std::future::pending::<()>().await;
            }
        }
    });
    *backend.gate.lock().unwrap() = Some(Gate::Channel);
    backend
}

#[tokio::test]
async fn a_worker_that_names_another_door_or_address_gets_nowhere() {
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let lies = Mutex::new(vec![
        [("namzu-door", "proxy"), ("namzu-local", "198.18.0.9:443")],
        [("namzu-door", "named"), ("namzu-local", "127.0.0.1:443")],
        [
            ("namzu-door", "named"),
            ("namzu-local", "169.254.169.254:80"),
        ],
        [("namzu-door", "named"), ("namzu-local", "198.18.0.9:443")],
        [("namzu-door", "named"), ("namzu-local", "a.test:443")],
    ]);
    let backend = forwarding(move |call| {
        let next = (call.query == "door=named").then(|| lies.lock().unwrap().pop());
        let Some(lie) = next.flatten() else {
            return Some(call);
        };
        let (mut send, body) = call.duplex(&lie);
        let told = told.clone();
        tokio::spawn(async move {
            let _ = send.send_data(Bytes::from("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), false);
            told.send((lie, all(body).await)).unwrap();
        });
        None
    });
    let policy = EgressPolicy::hosts(["a.test"]);
    let sandbox = backend.provider().create(under(policy)).await.unwrap();
    for _ in 0..5 {
        let (lie, answer) = tells.recv().await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), "", "{lie:?}");
    }
    assert!(sandbox.explain("a.test").await.unwrap().allowed);
}

#[tokio::test]
async fn a_worker_that_floods_accepts_has_no_more_than_its_share() {
    let (asked, mut asks) = tokio::sync::mpsc::unbounded_channel();
    let many = std::sync::atomic::AtomicUsize::new(2000);
    let backend = forwarding(move |call| {
        let left = many.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        let comes = call.query == "door=proxy" && left.is_ok();
        if !comes {
            return Some(call);
        }
        // Nothing is said on any of them, and none is ended.
        asked.send(call.duplex(&[("namzu-door", "proxy")])).unwrap();
        None
    });
    let policy = EgressPolicy::hosts(["a.test"]);
    let sandbox = backend.provider().create(under(policy)).await.unwrap();
    let mut held = tokio::task::JoinSet::new();
    let mut ended = 0;
    while ended < 1000 {
        tokio::select! {
            Some((mut send, body)) = asks.recv() => {
                held.spawn(async move {
                    let _ = std::future::poll_fn(|cx| send.poll_reset(cx)).await;
                    drop(body);
                });
            }
            Some(_) = held.join_next() => ended += 1,
        }
    }
    // Of some the end is on its way.
    assert!(held.len() <= 600, "{} are served at once", held.len());
    assert!(sandbox.explain("a.test").await.unwrap().allowed);
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn a_worker_that_opens_no_doors_is_not_waited_for() {
    let backend = FakeBackend::new(|_| std::future::pending());
    *backend.gate.lock().unwrap() = Some(Gate::Channel);
    let deadlines = namzu_client::Deadlines {
        request: std::time::Duration::from_millis(50),
        ..namzu_client::Deadlines::default()
    };
    let provider = backend.provider().with_deadlines(deadlines);
    let policy = EgressPolicy::hosts(["a.test"]);
    let err = provider.create(under(policy)).await.unwrap_err();
    assert!(err.to_string().contains("doors"), "{err}");
    assert_eq!(backend.fate.destroyed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_is_missing_of_the_doors_is_in_the_receipt() {
    let backend = FakeBackend::new(|call: Call| async move {
        if call.path == ext::DOORS {
            let answer = r#"{"proxy":true,"failures":["cannot listen on port 53"]}"#;
            return call.answer(200, "application/json", answer);
        }
        std::future::pending::<()>().await;
    });
    *backend.gate.lock().unwrap() = Some(Gate::Channel);
    let policy = EgressPolicy::hosts(["a.test"]);
    let sandbox = backend.provider().create(under(policy)).await.unwrap();
    let said = sandbox.receipt().controls.network.detail;
    assert!(said.contains("cannot listen on port 53"), "{said}");
}
