//! Policies that let something out: what they list is reached, by every way, and nothing else.

use std::net::Ipv4Addr;
use std::sync::Arc;

use namzu_core::ErrorCode;
use namzu_core::types::{EgressPolicy, Secret, Strength, ValueSource};
use serde_json::json;

use super::{Door, addresses};
use crate::conformance::bench::{Bench, probe, spec};
use crate::conformance::case::{Case, When, case};
use crate::conformance::check::{Verdict, ensure, ensure_eq, refused_with};
use crate::conformance::crash;
use crate::conformance::lifecycle::fresh_id;
use crate::conformance::world::{Echo, Web, policy, rule, rules};

pub(crate) const CASES: &[Case] = &[
    case!("egress", the_doors_close_with_a_killed_host, |b| guest(b)
        .and(b.local())
        .and(When::declared(
            b.capabilities.detach,
            "outliving its maker"
        ))),
    case!("egress", static_is_enforced_and_in_the_receipt, declared),
    case!("egress", static_reaches_by_name_what_knows_no_proxy, guest),
    case!("egress", static_reaches_by_proxy, asking),
    case!("egress", static_denies_every_other_name, guest),
    case!("egress", a_denied_name_is_never_resolved_outside, asking),
    case!("egress", a_denial_says_why_in_words, asking),
    case!("egress", static_denies_other_ports_of_a_listed_host, guest),
    case!("egress", static_leaves_no_way_past_the_doors, guest),
    case!("egress", static_has_no_ipv6, guest),
    case!("egress", the_doors_of_one_sandbox_are_no_others, guest),
    case!(
        "egress",
        a_private_address_needs_a_rule_that_says_so,
        asking
    ),
    case!(
        "egress",
        a_bad_policy_is_refused_with_every_reason,
        declared
    ),
    case!("egress", a_stand_in_does_not_replace_a_variable, declared),
    case!("egress", explain_says_which_rule_and_why, declared),
    case!("egress", resolver_lets_out_what_it_lists, |b| {
        When::declared(
            b.capabilities.egress.resolver == Strength::Enforced,
            "egress resolver, enforced,",
        )
        .and(b.python())
    }),
    case!("egress", a_resolver_that_fails_denies, |b| When::declared(
        b.capabilities.egress.resolver == Strength::Enforced,
        "egress resolver, enforced,"
    )
    .and(b.python())),
    case!("egress", the_walls_of_static_pass_the_self_test, declared),
    case!("egress", the_walls_of_deny_all_pass_the_self_test, |b| {
        When::declared(
            b.capabilities.egress.deny_all == Strength::Enforced,
            "egress deny-all, enforced,",
        )
    }),
];

pub(crate) fn declared(bench: &Bench) -> When {
    When::declared(
        bench.capabilities.egress.static_hosts == Strength::Enforced,
        "egress static, enforced,",
    )
}

/// Where a program inside asks by proxy and by name.
pub(crate) fn asking(bench: &Bench) -> When {
    declared(bench).and(bench.python())
}

/// Where a kernel leads the addresses of names to the boundary.
pub(crate) fn guest(bench: &Bench) -> When {
    declared(bench).and(bench.attacker())
}

async fn static_is_enforced_and_in_the_receipt(bench: Arc<Bench>) -> Verdict {
    let policy = EgressPolicy::hosts(["a.world.test"]);
    let planned = bench
        .provider
        .plan(&spec(|spec| spec.egress = Some(policy.clone())))
        .await?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    for receipt in [planned, sandbox.receipt()] {
        ensure_eq!(receipt.egress, "static", "the policy in the receipt");
        ensure_eq!(
            receipt.controls.network.strength,
            Strength::Enforced,
            "the strength of the wall"
        );
    }
    let now = sandbox.network_policy();
    ensure_eq!(now.kind, "static", "the policy in force");
    ensure_eq!(now.generation, 1, "its generation");
    Ok(())
}

async fn static_reaches_by_name_what_knows_no_proxy(bench: Arc<Bench>) -> Verdict {
    let echo = Echo::open().await?;
    let policy = rules(&[rule("named.world.test", echo.port, "tcp")])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let said = probe(
        &sandbox,
        &["say", "named.world.test", &echo.port.to_string()],
    )
    .await?
    .given("a connection by name")?;
    ensure_eq!(said, "probe", "what the server sent back");
    Ok(())
}

async fn static_reaches_by_proxy(bench: Arc<Bench>) -> Verdict {
    let web = Web::open().await?;
    let policy = rules(&[rule("proxied.world.test", web.port, "http")])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let url = format!("http://proxied.world.test:{}/path?q=1", web.port);
    let said = probe(&sandbox, &["get", &url])
        .await?
        .given("a request through the proxy of the environment")?;
    ensure!(said.starts_with("200"), "the answer is {said:?}");
    let heads = web.heads();
    ensure_eq!(heads.len(), 1, "requests that arrived");
    ensure!(
        heads[0].starts_with("GET /path?q=1 HTTP/1.1\r\n"),
        "the server saw {:?}",
        heads[0]
    );
    let host = format!("host: proxied.world.test:{}\r\n", web.port);
    ensure!(
        heads[0].to_ascii_lowercase().contains(&host),
        "the server saw {:?}",
        heads[0]
    );
    Ok(())
}

async fn static_denies_every_other_name(bench: Arc<Bench>) -> Verdict {
    let echo = Echo::open().await?;
    let policy = rules(&[rule("*.sub.world.test", echo.port, "tcp")])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let port = echo.port.to_string();
    for name in [
        "sub.world.test",
        "evilsub.world.test",
        "a.sub.world.test.evil.test",
        "world.test",
        "localhost.evil.test",
    ] {
        probe(&sandbox, &["say", name, &port])
            .await?
            .refused(&format!("a connection to {name}"))?;
    }
    probe(&sandbox, &["say", "a.sub.world.test", &port])
        .await?
        .given("a connection to what is listed")?;
    Ok(())
}

async fn a_denied_name_is_never_resolved_outside(bench: Arc<Bench>) -> Verdict {
    let web = Web::open().await?;
    let policy = rules(&[rule("known.world.test", web.port, "http")])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let secret = "c2VjcmV0.unknown.test";
    probe(&sandbox, &["dns", secret])
        .await?
        .refused("a look-up of a denied name")?;
    let url = format!("http://{secret}:{}/", web.port);
    probe(&sandbox, &["get", &url])
        .await?
        .refused("a request to a denied name")?;
    probe(&sandbox, &["get", "https://c2VjcmV0.unknown.test/"])
        .await?
        .refused("a tunnel to a denied name")?;
    ensure!(
        !bench.world.was_asked(secret),
        "the boundary resolved a name that its policy denies"
    );
    let url = format!("http://known.world.test:{}/", web.port);
    probe(&sandbox, &["get", &url])
        .await?
        .given("the allowed one")?;
    ensure!(
        bench.world.was_asked("known.world.test"),
        "the boundary resolved an allowed name by other means than it was given"
    );
    Ok(())
}

async fn a_denial_says_why_in_words(bench: Arc<Bench>) -> Verdict {
    let web = Web::open().await?;
    let policy = rules(&[rule("worded.world.test", web.port, "http")])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let said = probe(&sandbox, &["get", "http://other.test/"])
        .await?
        .refused("a request to another host")?;
    let body = said.strip_prefix("403 ").unwrap_or_default();
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    ensure!(
        body.to_string().contains("not_listed") && body.to_string().contains("other.test"),
        "the denial does not say what was denied and why: {said:?}"
    );
    // Whoever knows no proxy hears it from the resolver.
    let said = probe(&sandbox, &["dns", "other.test"])
        .await?
        .refused("a look-up of another host")?;
    ensure!(
        said.contains("not known") || said.contains("No address") || said.contains("-2"),
        "a denied name is not told as one that does not exist: {said:?}"
    );
    Ok(())
}

async fn static_denies_other_ports_of_a_listed_host(bench: Arc<Bench>) -> Verdict {
    let (listed, other) = (Echo::open().await?, Echo::open().await?);
    // A second host has the other port, so that there is a door for it.
    let policy = rules(&[
        rule("ported.world.test", listed.port, "tcp"),
        rule("elsewhere.world.test", other.port, "tcp"),
    ])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    for port in [other.port, 1] {
        probe(&sandbox, &["say", "ported.world.test", &port.to_string()])
            .await?
            .refused(&format!("port {port}"))?;
    }
    probe(
        &sandbox,
        &["say", "ported.world.test", &listed.port.to_string()],
    )
    .await?
    .given("the port that is listed")?;
    Ok(())
}

async fn static_leaves_no_way_past_the_doors(bench: Arc<Bench>) -> Verdict {
    let door = Door::open(Ipv4Addr::UNSPECIFIED.into()).await?;
    let policy = rules(&[rule("only.world.test", door.port, "tcp")])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let port = door.port.to_string();
    for address in addresses()?.iter().filter(|address| address.is_ipv4()) {
        let address = address.to_string();
        // A door of names is on the loopback inside too, and resets whoever comes by it there: when, is
        // a race. Nobody answers; who was reached is counted below.
        probe(&sandbox, &["say", &address, &port])
            .await?
            .refused(&format!("a connection to {address}"))?;
        probe(&sandbox, &["udp", &address, &port])
            .await?
            .refused(&format!("a datagram to {address}"))?;
    }
    for address in ["169.254.169.254", "198.51.100.1", "10.0.0.1"] {
        probe(&sandbox, &["connect", address, "80"])
            .await?
            .refused(&format!("a connection to {address}"))?;
    }
    for verb in [&["raw", "198.51.100.1"][..], &["packet"], &["interfaces"]] {
        probe(&sandbox, verb).await?.refused(&format!("{verb:?}"))?;
    }
    // What stands for a name takes connections only.
    let address = probe(&sandbox, &["dns", "only.world.test"])
        .await?
        .given("a look-up of what is listed")?;
    probe(&sandbox, &["udp", &address, &port])
        .await?
        .refused("a datagram to the address of a name")?;
    ensure_eq!(door.reached(), 0, "connections that went past the boundary");
    Ok(())
}

async fn static_has_no_ipv6(bench: Arc<Bench>) -> Verdict {
    let policy = rules(&[rule("four.world.test", 443, "https")])?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    probe(&sandbox, &["dns6", "four.world.test"])
        .await?
        .refused("an IPv6 address of a name")?;
    for address in ["2001:db8::1", "64:ff9b::7f00:1", "fd00:ec2::254"] {
        probe(&sandbox, &["connect", address, "80"])
            .await?
            .refused(&format!("a connection to {address}"))?;
    }
    Ok(())
}

async fn the_doors_of_one_sandbox_are_no_others(bench: Arc<Bench>) -> Verdict {
    let echo = Echo::open().await?;
    let port = echo.port.to_string();
    let mine = rules(&[rule("mine.world.test", echo.port, "tcp")])?;
    let other = rules(&[rule("other.world.test", echo.port, "tcp")])?;
    let mine = bench.sandbox_with(|spec| spec.egress = Some(mine)).await?;
    let other = bench.sandbox_with(|spec| spec.egress = Some(other)).await?;
    let address = probe(&mine, &["dns", "mine.world.test"])
        .await?
        .given("a look-up of what is listed")?;
    probe(&mine, &["say", &address, &port])
        .await?
        .given("a connection to the address of the name")?;
    // There the same address stands for nothing, or for what is its own: it was not looked up.
    probe(&other, &["say", &address, &port])
        .await?
        .refused("a connection to the address of another sandbox's name")?;
    probe(&other, &["say", "mine.world.test", &port])
        .await?
        .refused("a connection to another sandbox's name")?;
    drop(mine);
    probe(&other, &["say", "other.world.test", &port])
        .await?
        .given("its own, after the other has ended")?;
    Ok(())
}

async fn the_doors_close_with_a_killed_host(bench: Arc<Bench>) -> Verdict {
    let id = fresh_id("doorless")?;
    crash::kill_a_host(&crash::detached(id.as_str())).await?;
    let sandbox = bench.provider.connect(&id).await?;
    let left = async {
        for port in ["3128", "53", "443"] {
            probe(&sandbox, &["connect", "127.0.0.1", port])
                .await?
                .refused(&format!("a door that nobody holds, {port}"))?;
        }
        probe(&sandbox, &["dns", "a.world.test"])
            .await?
            .refused("a look-up that nobody answers")?;
        refused_with(
            sandbox.set_network_policy(EgressPolicy::AllowAll).await,
            ErrorCode::Unsupported,
            "a change by who found the sandbox",
        )?;
        Ok(())
    }
    .await;
    // It would outlive the suite.
    sandbox.destroy().await?;
    left
}

async fn a_private_address_needs_a_rule_that_says_so(bench: Arc<Bench>) -> Verdict {
    let web = Web::open().await?;
    let policy = policy(json!({"kind": "static", "rules": [
        {"host": "inward.world.test", "ports": [web.port], "scheme": "http"},
    ]}))?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    let url = format!("http://inward.world.test:{}/", web.port);
    let said = probe(&sandbox, &["get", &url])
        .await?
        .refused("a name that leads to the host's loopback")?;
    ensure!(said.contains("\"address_"), "the denial says {said:?}");
    ensure_eq!(web.heads().len(), 0, "requests that arrived");
    Ok(())
}

async fn a_bad_policy_is_refused_with_every_reason(bench: Arc<Bench>) -> Verdict {
    let bad = policy(
        json!({"kind": "static", "allowedHosts": ["*.com", "ok.test"], "rules": [
            {"host": "a.test", "credential": "nobody"},
            {"host": "b.test", "scheme": "tcp"},
        ]}),
    )?;
    let asked = spec(|spec| spec.egress = Some(bad));
    for refused in [
        bench.provider.plan(&asked).await.map(drop),
        bench.provider.create(asked.clone()).await.map(drop),
    ] {
        let err = refused_with(refused, ErrorCode::ConfigInvalid, "a bad policy")?;
        for part in ["allowedHosts[0]", "rules[0]", "rules[1]"] {
            ensure!(
                err.reasons().iter().any(|reason| reason.contains(part)),
                "nothing is said of {part}: {:?}",
                err.reasons()
            );
        }
    }
    Ok(())
}

async fn a_stand_in_does_not_replace_a_variable(bench: Arc<Bench>) -> Verdict {
    let policy = policy(json!({"kind": "static",
        "rules": [{"host": "a.test", "credential": "key"}],
        "credentials": {"key": {"mode": "sentinel", "source": {"env": "KEY"}, "env": "API_KEY"}},
    }))?;
    let asked = spec(|spec| {
        spec.egress = Some(policy);
        spec.env.insert("API_KEY".to_owned(), "mine".to_owned());
    });
    let err = refused_with(
        bench.provider.plan(&asked).await,
        ErrorCode::InvalidArgument,
        "a stand-in in place of a variable",
    )?;
    ensure!(err.to_string().contains("API_KEY"), "it says {err}");
    Ok(())
}

async fn explain_says_which_rule_and_why(bench: Arc<Bench>) -> Verdict {
    let policy = policy(
        json!({"kind": "static", "allowedHosts": ["a.test"], "deniedHosts": ["no.b.test"],
        "rules": [{"host": "*.b.test", "ports": [8443]}]}),
    )?;
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy.clone()))
        .await?;
    for (authority, allowed, reason, rule) in [
        ("a.test", true, "allowed", Some("allowedHosts[0]")),
        ("x.b.test:8443", true, "allowed", Some("rules[0]")),
        ("x.b.test", false, "port_not_listed", None),
        ("no.b.test:8443", false, "denied_host", None),
        ("c.test", false, "not_listed", None),
        ("127.0.0.1", false, "address_literal", None),
    ] {
        for said in [
            sandbox.explain(authority).await?,
            bench.provider.explain(&policy, authority).await?,
        ] {
            ensure_eq!(said.allowed, allowed, "{authority}");
            ensure_eq!(said.reason, reason, "the reason for {authority}");
            ensure_eq!(said.generation, 1, "the generation for {authority}");
            if rule.is_some() {
                ensure_eq!(said.rule.as_deref(), rule, "the rule for {authority}");
            }
        }
    }
    refused_with(
        sandbox.explain("no host").await,
        ErrorCode::InvalidArgument,
        "explain what is no host",
    )?;
    Ok(())
}

async fn resolver_lets_out_what_it_lists(bench: Arc<Bench>) -> Verdict {
    let policy = EgressPolicy::Resolver {
        resolve: ValueSource::Value(Secret::new("listed.world.test\n*.below.world.test")),
    };
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    ensure_eq!(sandbox.receipt().egress, "resolver", "the policy in force");
    for name in ["listed.world.test", "a.below.world.test"] {
        ensure!(sandbox.explain(name).await?.allowed, "{name} is denied");
        probe(&sandbox, &["dns", name])
            .await?
            .given(&format!("a look-up of {name}"))?;
        // A list has no way to let a name lead inwards: that is why it is denied now, and no longer
        // for its name.
        let said = probe(&sandbox, &["get", &format!("http://{name}/")])
            .await?
            .refused("a name that leads to the host's loopback")?;
        ensure!(said.contains("\"address_"), "the denial says {said:?}");
    }
    let said = probe(&sandbox, &["get", "http://other.world.test/"])
        .await?
        .refused("a name that is not listed")?;
    ensure!(said.contains("not_listed"), "the denial says {said:?}");
    Ok(())
}

async fn a_resolver_that_fails_denies(bench: Arc<Bench>) -> Verdict {
    let broken = namzu_core::types::Callback::new(|| async { Err("it is broken".into()) });
    let policy = EgressPolicy::Resolver {
        resolve: ValueSource::Callback(broken),
    };
    let sandbox = bench
        .sandbox_with(|spec| spec.egress = Some(policy))
        .await?;
    probe(&sandbox, &["dns", "listed.world.test"])
        .await?
        .refused("a look-up under a policy that cannot be asked")?;
    let said = probe(&sandbox, &["get", "http://listed.world.test/"])
        .await?
        .refused("a request under a policy that cannot be asked")?;
    ensure!(said.contains("resolver_failed"), "the denial says {said:?}");
    Ok(())
}

async fn the_walls_of_static_pass_the_self_test(bench: Arc<Bench>) -> Verdict {
    let echo = Echo::open().await?;
    let policy = rules(&[rule("tested.world.test", echo.port, "tcp")])?;
    bench
        .sandbox_with(|spec| {
            spec.egress = Some(policy);
            spec.verify_egress = true;
        })
        .await?;
    Ok(())
}

async fn the_walls_of_deny_all_pass_the_self_test(bench: Arc<Bench>) -> Verdict {
    bench
        .sandbox_with(|spec| {
            spec.egress = Some(EgressPolicy::DenyAll);
            spec.verify_egress = true;
        })
        .await?;
    Ok(())
}
