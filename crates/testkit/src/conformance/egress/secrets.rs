//! Credentials: the world gets them, the sandbox never has them.

use std::sync::Arc;

use namzu_client::Sandbox;
use namzu_core::types::{EgressCredential, EgressPolicy, Secret, ValueSource};
use serde_json::{Value, json};

use super::listed::guest;
use crate::conformance::bench::{Answer, Bench, line, probe};
use crate::conformance::case::{Case, case};
use crate::conformance::check::{Verdict, ensure, ensure_eq};
use crate::conformance::host;
use crate::conformance::world::{Web, policy, rule};

pub(crate) const CASES: &[Case] = &[
    case!("egress", an_injected_secret_reaches_only_the_world, guest),
    case!("egress", a_stand_in_is_exchanged_on_its_way_out, guest),
    case!("egress", a_stand_in_sent_elsewhere_is_refused, guest),
    case!("egress", a_missing_secret_denies, guest),
];

/// A policy of rules with credentials, each of which is this secret.
fn with_secret(rules: &[Value], credentials: &Value, secret: &str) -> Verdict<EgressPolicy> {
    let mut policy = policy(json!({
        "kind": "static", "rules": rules, "credentials": credentials,
    }))?;
    if let EgressPolicy::Static { credentials, .. } = &mut policy {
        for credential in credentials.values_mut() {
            let (EgressCredential::Inject { source, .. }
            | EgressCredential::Sentinel { source, .. }) = credential;
            *source = ValueSource::Value(Secret::new(secret));
        }
    }
    Ok(policy)
}

fn credited(host: &str, port: u16, credential: &str) -> Value {
    let mut rule = rule(host, port, "https");
    rule["credential"] = credential.into();
    rule
}

/// Looks for the secret where a command could: its environment, and every process's.
async fn ensure_absent(sandbox: &Sandbox, secret: &str) -> Verdict {
    let seen = line(
        sandbox,
        "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /etc/resolv.conf 2>/dev/null | tr '\\0' '\\n'",
    )
    .await?;
    ensure!(!seen.contains(secret), "the secret is inside the sandbox");
    Ok(())
}

async fn an_injected_secret_reaches_only_the_world(bench: Arc<Bench>) -> Verdict {
    let (name, secret) = ("injected.world.test", host::marker("secret")?);
    let web = Web::open_tls(&bench.world, name).await?;
    let policy = with_secret(
        &[credited(name, web.port, "key")],
        &json!({"key": {"mode": "inject", "source": {"env": "X"}, "header": "authorization",
            "format": "Bearer {}"}}),
        &secret,
    )?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let url = format!("https://{name}:{}/", web.port);
    // What the sandbox says of its own in that header does not arrive.
    let said = probe(&sandbox, &["get", &url, "authorization=Bearer mine"])
        .await?
        .given("a request over TLS that ends at the boundary")?;
    let heads = web.heads();
    ensure_eq!(heads.len(), 1, "requests that arrived");
    let wanted = format!("authorization: bearer {secret}\r\n");
    let head = heads[0].to_ascii_lowercase();
    ensure!(head.contains(&wanted), "the world saw {head:?}");
    ensure!(!head.contains("mine"), "the world saw {head:?}");
    // The server sends back what it was sent.
    ensure!(said.starts_with("200"), "the answer is {said:?}");
    ensure!(!said.contains(&secret), "the secret came back");
    ensure_absent(&sandbox, &secret).await
}

async fn stand_in(bench: &Bench, name: &str, port: u16, secret: &str) -> Verdict<Sandbox> {
    let mut other = rule("other.world.test", port, "https");
    other["tls"] = "terminate".into();
    let policy = with_secret(
        &[credited(name, port, "key"), other],
        &json!({"key": {"mode": "sentinel", "source": {"env": "X"}, "env": "WORLD_KEY"}}),
        secret,
    )?;
    bench.sandbox_with(|spec| spec.egress = Some(policy)).await
}

async fn a_stand_in_is_exchanged_on_its_way_out(bench: Arc<Bench>) -> Verdict {
    let (name, secret) = ("exchanged.world.test", host::marker("secret")?);
    let web = Web::open_tls(&bench.world, name).await?;
    let sandbox = stand_in(&bench, name, web.port, &secret).await?;
    let held = line(&sandbox, "echo $WORLD_KEY").await?;
    ensure!(!held.is_empty(), "there is no stand-in");
    let url = format!("https://{name}:{}/", web.port);
    probe(&sandbox, &["get", &url, "x-key=$WORLD_KEY"])
        .await?
        .given("a request with the stand-in")?;
    let heads = web.heads();
    ensure_eq!(heads.len(), 1, "requests that arrived");
    let head = heads[0].to_ascii_lowercase();
    ensure!(
        head.contains(&format!("x-key: {secret}\r\n")),
        "the world saw {head:?}"
    );
    ensure_absent(&sandbox, &secret).await
}

async fn a_stand_in_sent_elsewhere_is_refused(bench: Arc<Bench>) -> Verdict {
    let (name, secret) = ("right.world.test", host::marker("secret")?);
    let web = Web::open_tls(&bench.world, "other.world.test").await?;
    let sandbox = stand_in(&bench, name, web.port, &secret).await?;
    let url = format!("https://other.world.test:{}/", web.port);
    let said = probe(&sandbox, &["get", &url, "x-key=$WORLD_KEY"])
        .await?
        .refused("a stand-in sent to another host")?;
    ensure!(
        said.contains("credential_misuse"),
        "the denial says {said:?}"
    );
    ensure_eq!(web.heads().len(), 0, "requests that arrived");
    probe(&sandbox, &["get", &url])
        .await?
        .given("the same host without it")?;
    Ok(())
}

async fn a_missing_secret_denies(bench: Arc<Bench>) -> Verdict {
    let name = "missing.world.test";
    let web = Web::open_tls(&bench.world, name).await?;
    let scratch = host::scratch("secret")?;
    let file = scratch.join("key");
    std::fs::write(&file, host::marker("secret")?)?;
    let policy = policy(json!({
        "kind": "static", "rules": [credited(name, web.port, "key")],
        "credentials": {"key": {"mode": "inject", "source": {"file": file}, "header": "x-key"}},
    }))?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    std::fs::remove_file(&file)?;
    let url = format!("https://{name}:{}/", web.port);
    // A file is looked at again after a while.
    host::eventually(bench.patience, "the secret is missed", || async {
        Ok(match probe(&sandbox, &["get", &url]).await? {
            Answer::Refused(said) if said.contains("credential_missing") => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .await
}
