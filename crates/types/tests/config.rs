//! Configurations as the TypeScript package writes them: read, refused and written back.

use namzu_types::config::{BackendConfig, ContainerRuntime, HostReachability, ProcessEngine};
use namzu_types::{
    Control, EgressPolicy, SandboxCreateConfig, SandboxProviderConfig, SandboxSpec, Tier,
    ValueSource, Workspace,
};
use serde_json::{Value, json};

fn layout() -> Value {
    json!({
        "outputs": {"source": {"type": "hostDir", "hostPath": "/srv/out"}},
        "uploads": {"source": {"type": "inImage"}, "containerPath": "/mnt/in"},
        "scratch": {"source": {
            "type": "azureFileShare", "storageAccountName": "acct", "shareName": "s",
            "storageAccountKey": "k3y"
        }},
        "toolResults": {"source": {"type": "hostDir", "hostPath": "/srv/tools"}},
        "transcripts": {"source": {"type": "hostDir", "hostPath": "/srv/talk"}},
        "skills": [{"id": "pdf", "source": {"type": "hostDir", "hostPath": "/srv/pdf"}}],
    })
}

/// One document for every shape that the TypeScript package has, with its label.
fn shapes() -> Vec<(&'static str, Value)> {
    let mtls = json!({"ca": "CA", "cert": "CERT", "key": {"file": "/k"}, "servername": "s"});
    vec![
        ("process:auto", json!({"backend": {"tier": "process"}})),
        (
            "process:auto",
            json!({"backend": {"tier": "process", "engine": "auto"}}),
        ),
        (
            "process:bubblewrap",
            json!({"backend": {"tier": "process", "engine": "bubblewrap"}}),
        ),
        (
            "process:seatbelt",
            json!({"backend": {"tier": "process", "engine": "seatbelt"}}),
        ),
        (
            "process:native",
            json!({"backend": {"tier": "process", "engine": "native"}}),
        ),
        ("passthrough", json!({"backend": {"tier": "passthrough"}})),
        (
            "container:docker",
            json!({"backend": {"tier": "container", "image": "i"}, "layout": layout()}),
        ),
        (
            "container:runsc",
            json!({"backend": {
                "tier": "container", "runtime": "runsc", "image": "i",
                "hostReachability": "container-network", "network": "mesh",
                "labels": {"a.b/c": "x=y", "empty": ""}
            }, "layout": layout()}),
        ),
        (
            "container:aci-standby-pool",
            json!({"backend": {
                "tier": "container", "runtime": "aci-standby-pool", "subscriptionId": "s",
                "resourceGroup": "g", "location": "westus2", "standbyPoolResourceId": "/p",
                "containerGroupProfileResourceId": "/c", "containerGroupProfileRevision": 2,
                "getArmToken": {"command": ["az", "token"]}, "subnetId": "/n",
                "readyPollIntervalMs": 500, "readyTimeoutMs": 60000, "workerPort": 2024,
                "armApiVersion": "2025-09-01", "containerNamePrefix": "mine"
            }, "layout": layout()}),
        ),
        (
            "microvm:e2b",
            json!({"backend": {"tier": "microvm", "service": "e2b", "apiKey": "e2b_x", "template": "t"}}),
        ),
        (
            "microvm:fly-machines",
            json!({"backend": {
                "tier": "microvm", "service": "fly-machines", "apiToken": {"env": "FLY"},
                "app": "a", "image": "i", "region": "ams"
            }}),
        ),
        (
            "microvm:self-hosted",
            json!({"backend": {
                "tier": "microvm", "service": "self-hosted", "firecrackerBinary": "/fc",
                "kernelImage": "/k", "rootfsImage": "/r"
            }}),
        ),
        (
            "microvm:self-hosted",
            json!({"backend": {
                "tier": "microvm", "service": "self-hosted", "firecrackerBinary": "",
                "kernelImage": "", "rootfsImage": "", "orchestratorEndpoint": "https://o",
                "getToken": {"env": "T"}, "template": "golden",
                "agentSnapshot": {"orgId": "o", "agentId": "a", "version": "3"},
                "agentVsockPort": 1024, "readyTimeoutMs": 1, "readyPollIntervalMs": 1,
                "mtls": mtls, "controlPlaneMtls": mtls
            }}),
        ),
        (
            "process:auto",
            json!({
                "backend": {"tier": "process"},
                "defaultEgress": {"kind": "static", "allowedHosts": ["api.example.com", ".example.org"]},
                "defaultTimeoutMs": 30000, "defaultMemoryLimitMb": 512, "defaultMaxProcesses": 32,
                "defaultCpus": 0.5, "defaultDiskLimitMb": 100, "defaultLifetimeMs": 1000,
                "defaultEnv": {"A": "b"}, "defaultLabels": {"team": "x"},
                "require": ["network", "wall_clock"]
            }),
        ),
        (
            "process:auto",
            json!({"backend": {"tier": "process"}, "defaultEgress": {"kind": "deny-all"}}),
        ),
        (
            "process:auto",
            json!({"backend": {"tier": "process"}, "defaultEgress": {"kind": "allow-all"}}),
        ),
        (
            "process:auto",
            json!({
                "backend": {"tier": "process"},
                "defaultEgress": {"kind": "resolver", "resolve": {"command": ["hosts"]}}
            }),
        ),
    ]
}

fn read(value: &Value) -> SandboxProviderConfig {
    SandboxProviderConfig::from_value(value).unwrap_or_else(|err| panic!("{value}: {err}"))
}

fn reasons(value: &Value) -> Vec<String> {
    SandboxProviderConfig::from_value(value)
        .expect_err(&format!("{value} was accepted"))
        .into_reasons()
}

#[track_caller]
fn refused(value: &Value, wanted: &[&str]) {
    let found = reasons(value);
    assert_eq!(found, wanted, "{value}");
}

#[test]
fn every_shape_is_read_and_labelled() {
    for (label, document) in shapes() {
        assert_eq!(read(&document).backend.label(), label, "{document}");
    }
}

#[test]
fn every_shape_survives_a_round_trip() {
    for (_, document) in shapes() {
        let config = read(&document);
        let json = config
            .dangerous_to_json_with_secrets()
            .expect("no closure in it");
        assert_eq!(read(&json), config, "{document}");
        // Whatever the document said is still said; only defaults were added.
        assert_contains(&json, &document);
    }
}

fn assert_contains(whole: &Value, part: &Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (key, value) in part {
                let Some(found) = whole.get(key) else {
                    panic!("`{key}` was lost");
                };
                assert_contains(found, value);
            }
        }
        _ => assert_eq!(whole, part),
    }
}

#[test]
fn every_shape_built_in_rust_is_valid_too() {
    for (_, document) in shapes() {
        read(&document)
            .validate()
            .expect("it was read from a valid document");
    }
}

#[test]
fn a_document_reads_the_same_through_serde() {
    for (_, document) in shapes() {
        let config: SandboxProviderConfig =
            serde_json::from_value(document.clone()).expect("a valid document");
        assert_eq!(config, read(&document));
    }
}

#[test]
fn defaults_are_those_of_the_typescript_package() {
    let config = read(&json!({"backend": {"tier": "container", "image": "i"}, "layout": layout()}));
    let BackendConfig::Container(docker) = config.backend else {
        panic!("not docker");
    };
    assert_eq!(docker.runtime, ContainerRuntime::Docker);
    assert_eq!(docker.host_reachability, HostReachability::HostPort);
    assert_eq!(docker.network, "none");

    let config = read(&json!({"backend": {"tier": "process"}}));
    let BackendConfig::Process(process) = &config.backend else {
        panic!("not process");
    };
    assert_eq!(process.engine, ProcessEngine::Auto);
    assert_eq!(config.defaults(), SandboxSpec::default());
}

#[test]
fn omitted_egress_is_deny_all_but_on_passthrough() {
    let spec = read(&json!({"backend": {"tier": "process"}})).defaults();
    for tier in [Tier::Process, Tier::Container, Tier::Microvm] {
        assert_eq!(spec.egress_on(tier), EgressPolicy::DenyAll);
    }
    assert_eq!(spec.egress_on(Tier::Passthrough), EgressPolicy::AllowAll);
}

#[test]
fn a_literal_secret_is_never_written_out() {
    for (_, document) in shapes() {
        let config = read(&document);
        let literal = ["e2b_x", "k3y", "CERT"]
            .iter()
            .any(|secret| document.to_string().contains(secret));
        match config.to_json() {
            Ok(json) => {
                assert!(!literal, "{json}");
            }
            Err(err) => {
                assert!(literal, "{document}: {err}");
                assert!(
                    err.to_string()
                        .contains("a literal secret is never written out"),
                    "{err}"
                );
            }
        }
        let debug = format!("{config:?}");
        for secret in ["e2b_x", "k3y", "CERT"] {
            assert!(!debug.contains(secret), "{debug}");
        }
    }
}

#[test]
fn a_secret_in_a_broken_document_is_not_in_the_reasons() {
    let documents = [
        json!({"backend": {"tier": "microvm", "service": "e2b", "apiKey": ["s3cret"]}}),
        json!({"backend": {"tier": "microvm", "service": "e2b", "apiKey": {"value": "s3cret"}}}),
        json!({"backend": {"tier": "microvm", "service": "e2b", "apiKey": "s3cret", "x": "s3cret"}}),
        json!({"backend": {"tier": "microvm", "service": "e2b", "apiKey": {"env": ["s3cret"]}}}),
        json!({"backend": {"tier": "microvm", "service": "e2b", "apiKey": {"env": "A", "file": "s3cret"}}}),
        json!({"backend": {"tier": "microvm", "service": "e2b", "apiKey": {"command": "s3cret"}}}),
        json!({"backend": {"tier": "process"}, "defaultEnv": {"K": ["s3cret"]}}),
        json!({"backend": {"tier": "process"}, "defaultEnv": {"K": "s3cret\0"}}),
        json!({"backend": "s3cret"}),
        json!({"backend": {"tier": "process"}, "defaultTimeoutMs": "s3cret"}),
    ];
    for document in documents {
        let found = reasons(&document).join("\n");
        assert!(!found.contains("s3cret"), "{found}");
    }
}

#[test]
fn an_unknown_tier_runtime_service_or_engine_is_named_with_what_exists() {
    refused(
        &json!({"backend": {"tier": "vm"}}),
        &["`backend.tier`: `vm` is unknown; there are process, container, microvm, passthrough"],
    );
    refused(
        &json!({"backend": {}}),
        &["`backend.tier`: is missing; there are process, container, microvm, passthrough"],
    );
    refused(
        &json!({"backend": {"tier": 7}}),
        &[
            "`backend.tier`: expects a string, found a number; there are process, container, microvm, passthrough",
        ],
    );
    refused(
        &json!({"backend": {"tier": "container", "runtime": "podman", "image": "i"}, "layout": layout()}),
        &["`backend.runtime`: `podman` is unknown; there are docker, runsc, aci-standby-pool"],
    );
    refused(
        &json!({"backend": {"tier": "microvm", "service": "modal"}}),
        &["`backend.service`: `modal` is unknown; there are e2b, fly-machines, self-hosted"],
    );
    refused(
        &json!({"backend": {"tier": "microvm"}}),
        &["`backend.service`: is missing; there are e2b, fly-machines, self-hosted"],
    );
    refused(
        &json!({"backend": {"tier": "process", "engine": "firejail"}}),
        &["`backend.engine`: `firejail` is unknown; there are auto, native, bubblewrap, seatbelt"],
    );
    refused(
        &json!({"backend": {"tier": "process"}, "defaultEgress": {"kind": "allow"}}),
        &[
            "`defaultEgress.kind`: `allow` is unknown; there are deny-all, allow-all, static, resolver",
        ],
    );
    refused(
        &json!({"backend": {"tier": "process"}, "require": ["gpu"]}),
        &[
            "`require[0]`: `gpu` is unknown; there are filesystem, network, processes, memory, pids, cpu, disk, wall_clock, syscalls",
        ],
    );
}

#[test]
fn an_unknown_field_is_named_with_what_exists() {
    refused(
        &json!({"backend": {"tier": "process", "engin": "auto"}}),
        &["`backend.engin`: unknown field; there are engine, tier"],
    );
    refused(
        &json!({"backend": {"tier": "passthrough", "apiKey": "x"}}),
        &["`backend.apiKey`: unknown field; there are tier"],
    );
    refused(
        &json!({"backend": {"tier": "microvm", "service": "e2b", "apiKey": "x", "app": "y"}}),
        &["`backend.app`: unknown field; there are apiKey, service, template, tier"],
    );
    refused(
        &json!({"backend": {"tier": "process"}, "defaultEgress": {"kind": "deny-all", "allowedHosts": []}}),
        &["`defaultEgress.allowedHosts`: unknown field; there are kind"],
    );
    let found = reasons(&json!({"backend": {"tier": "process"}, "defaultTimeout": 5}));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("`defaultTimeout`: unknown field; there are backend, default"),
        "{found:?}"
    );
}

#[test]
fn a_name_where_an_object_belongs_is_answered_with_an_example() {
    refused(
        &json!({"backend": {"tier": "process"}, "defaultEgress": "deny-all"}),
        &[r#"`defaultEgress`: expects an object, e.g. {"kind":"deny-all"}, found a string"#],
    );
    refused(
        &json!({"backend": "process"}),
        &[r#"`backend`: expects an object, e.g. {"tier":"process"}, found a string"#],
    );
}

#[test]
fn everything_wrong_is_reported_at_once() {
    let found = reasons(&json!({
        "backend": {
            "tier": "container", "runtime": "runsc", "network": 5,
            "labels": {"": "x", "a=b": "y", "c": 1}, "extra": true
        },
        "defaultTimeoutMs": -1, "defaultMemoryLimitMb": 0.5, "defaultMaxProcesses": 0,
        "defaultEgress": {"kind": "static", "allowedHosts": ["https://x", "", 3]},
        "defaultEnv": {"A=B": "c"},
    }));
    let wanted = [
        "`backend.image`: is missing",
        "`backend.extra`: unknown field",
        "`backend.labels.c`: expects a string, found a number",
        "`backend.network`: expects a string, found a number",
        "`defaultEgress.allowedHosts[2]`: expects a string, found a number",
        "`defaultMaxProcesses`: 0 is out of range; it may be 1 to 4194304",
        "`defaultMemoryLimitMb`: expects a whole number, found a number with a fraction or exponent",
        "`defaultTimeoutMs`: -1 is out of range; it may be 1 to 2147483647",
        "`layout`: is missing; the container tier needs one",
        "`backend.labels`: a key is empty",
        "`backend.labels`: the key `a=b` holds `=` or NUL",
        "`defaultEnv`: the name `A=B` holds `=` or NUL",
        "`defaultEgress.allowedHosts[0]`: is no host name",
        "`defaultEgress.allowedHosts[1]`: is no host name",
    ];
    for reason in wanted {
        assert!(
            found.iter().any(|one| one.starts_with(reason)),
            "{reason} is not in {found:#?}"
        );
    }
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
}

#[test]
fn absurd_numbers_are_refused() {
    let base = json!({"backend": {"tier": "process"}});
    let numbers = [
        "-1",
        "0",
        "1.5",
        "1e400",
        "1e10",
        "18446744073709551616",
        "9223372036854775808",
    ];
    for field in [
        "defaultTimeoutMs",
        "defaultMemoryLimitMb",
        "defaultMaxProcesses",
    ] {
        for number in numbers {
            let mut text = base.to_string();
            text.truncate(text.len() - 1);
            let text = format!("{text}, \"{field}\": {number}}}");
            SandboxProviderConfig::from_json_str(&text)
                .expect_err(&format!("{field} accepts {number}"));
        }
    }
    for cpus in [json!(0), json!(-0.5), json!(1e9), json!("1")] {
        let mut document = base.clone();
        document["defaultCpus"] = cpus;
        assert_eq!(reasons(&document).len(), 1);
    }
}

#[test]
fn a_layout_is_the_container_tiers_alone() {
    for backend in [
        json!({"tier": "process"}),
        json!({"tier": "passthrough"}),
        json!({"tier": "microvm", "service": "e2b", "apiKey": "k"}),
    ] {
        let tier = backend["tier"].as_str().expect("a string").to_owned();
        refused(
            &json!({"backend": backend, "layout": layout()}),
            &[&format!(
                "`layout`: the {tier} tier has none; only the container tier has"
            )],
        );
    }
}

#[test]
fn a_self_hosted_backend_is_one_form_or_the_other() {
    let with = |fields: Value| {
        let mut backend = json!({"tier": "microvm", "service": "self-hosted"});
        for (key, value) in fields.as_object().expect("an object") {
            backend[key] = value.clone();
        }
        json!({"backend": backend})
    };
    refused(
        &with(json!({"orchestratorEndpoint": "https://o"})),
        &["`backend.getToken`: is missing; `orchestratorEndpoint` needs it"],
    );
    let found = reasons(&with(
        json!({"kernelImage": "", "getToken": "t", "template": "g"}),
    ));
    assert_eq!(found.len(), 5, "{found:#?}");
}

#[test]
fn a_document_that_is_not_json_is_refused() {
    for text in ["", "{", "{\"backend\": }", &"[".repeat(100_000)] {
        let err = SandboxProviderConfig::from_json_str(text).expect_err("it is no JSON");
        assert!(
            err.reasons()[0].starts_with("the document is not JSON"),
            "{err}"
        );
    }
    for document in [json!(null), json!([]), json!("x"), json!(1)] {
        assert!(!reasons(&document).is_empty());
    }
}

#[test]
fn a_field_that_stands_twice_is_refused() {
    for text in [
        r#"{"backend": {"tier": "process"}, "backend": {"tier": "passthrough"}}"#,
        r#"{"backend": {"tier": "process", "\u0074ier": "passthrough"}}"#,
        r#"{"backend": {"tier": "process"}, "require": [], "require": ["network"]}"#,
    ] {
        let err = SandboxProviderConfig::from_json_str(text).expect_err("one of two is ignored");
        assert!(err.to_string().contains("stands there twice"), "{err}");
    }
    let text = r#"{"env": {"A": "1", "A": "2"}}"#;
    SandboxCreateConfig::from_json_str(text).expect_err("one of two is ignored");
}

#[test]
fn a_document_read_from_text_is_the_same_as_from_a_value() {
    for (_, document) in shapes() {
        let config = SandboxProviderConfig::from_json_str(&document.to_string());
        assert_eq!(config, Ok(read(&document)));
    }
}

#[test]
fn a_source_that_names_nothing_is_refused() {
    for source in [
        json!({"env": ""}),
        json!({"env": "A=B"}),
        // A place that `dangerous_to_json_with_secrets` uses itself.
        json!({"env": "\u{0}0"}),
        json!({"file": ""}),
        json!({"file": "/a\u{0}"}),
        json!({"command": []}),
        json!({"command": [""]}),
        json!({"command": ["a", "\u{0}"]}),
    ] {
        let document = json!({"backend": {"tier": "microvm", "service": "e2b", "apiKey": source}});
        assert_eq!(reasons(&document).len(), 1, "{document}");
    }
}

#[test]
fn a_flood_of_faults_is_counted_and_not_listed() {
    let mut document = json!({"backend": {"tier": "process"}});
    for index in 0..1000 {
        document[format!("x{index}")] = json!(1);
    }
    let found = reasons(&document);
    assert_eq!(found.len(), 65);
    assert_eq!(found[64], "and 936 more");
}

#[test]
fn create_options_override_the_defaults() {
    let defaults = read(&json!({
        "backend": {"tier": "process"}, "defaultMemoryLimitMb": 512, "defaultTimeoutMs": 1000,
        "defaultEnv": {"A": "1", "B": "1"}, "require": ["network"],
        "defaultEgress": {"kind": "allow-all"}
    }))
    .defaults();
    let options = SandboxCreateConfig::from_value(&json!({
        "workingDirectory": "/srv/x", "access": "ro", "memoryLimitMb": 64, "env": {"B": "2"},
        "require": ["pids", "network"], "egress": {"kind": "deny-all"}, "id": "one",
        "detach": true, "verifyEgress": true
    }))
    .expect("valid options");
    let spec = options.on(&defaults);
    assert_eq!(spec.limits.memory, Some(64 << 20));
    assert_eq!(spec.limits.command, Some(std::time::Duration::from_secs(1)));
    assert_eq!(spec.env["A"], "1");
    assert_eq!(spec.env["B"], "2");
    assert_eq!(spec.require, [Control::Network, Control::Pids]);
    assert_eq!(spec.egress, Some(EgressPolicy::DenyAll));
    assert_eq!(spec.id.expect("an id").as_str(), "one");
    assert!(spec.detach);
    assert!(spec.verify_egress);
    assert!(matches!(spec.workspace, Workspace::Host { .. }));
}

#[test]
fn bad_create_options_are_refused() {
    for options in [
        json!({"workingDirectory": "relative"}),
        json!({"access": "ro"}),
        json!({"id": "Not An Id"}),
        json!({"layout": layout()}),
        json!({"timeoutMs": 0}),
        json!({"env": {"A": 1}}),
        json!({"env": {"": "1"}}),
        json!({"labels": {"a=b": "1"}}),
        json!({"detach": "yes"}),
        json!({"verifyEgress": 1}),
    ] {
        let err = SandboxCreateConfig::from_value(&options).expect_err("bad options");
        assert_eq!(err.reasons().len(), 1, "{options}: {err}");
    }
}

#[test]
fn a_closure_is_a_source_and_has_no_json_form() {
    let mut config =
        read(&json!({"backend": {"tier": "microvm", "service": "e2b", "apiKey": "k"}}));
    let BackendConfig::E2b(e2b) = &mut config.backend else {
        panic!("not e2b");
    };
    e2b.api_key =
        ValueSource::Callback(namzu_types::Callback::new(|| async { Ok("k".to_owned()) }));
    config
        .validate()
        .expect("a closure is as good as a literal");
    config.to_json().expect_err("a closure has no JSON form");
    config
        .dangerous_to_json_with_secrets()
        .expect_err("a closure has no JSON form");
}

/// Keywords that the validator obeys, and those that only inform.
const KNOWN: &[&str] = &[
    "$ref",
    "$defs",
    "oneOf",
    "anyOf",
    "const",
    "enum",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "minLength",
    "minimum",
    "maximum",
];
const INFORMS: &[&str] = &["$schema", "title", "description", "default", "format"];

#[test]
fn the_schemas_use_no_keyword_that_the_validator_ignores() {
    fn walk(schema: &Value) {
        match schema {
            Value::Array(all) => all.iter().for_each(walk),
            Value::Object(map) => {
                for (keyword, inner) in map {
                    assert!(
                        KNOWN.contains(&keyword.as_str()) || INFORMS.contains(&keyword.as_str()),
                        "{keyword}: {inner}"
                    );
                    match keyword.as_str() {
                        "properties" | "$defs" => {
                            inner.as_object().expect("a map").values().for_each(walk);
                        }
                        "default" | "const" | "enum" | "required" => {}
                        _ => walk(inner),
                    }
                }
            }
            _ => {}
        }
    }
    walk(&SandboxProviderConfig::json_schema_value());
    walk(&SandboxCreateConfig::json_schema_value());
}

#[test]
fn rules_of_an_egress_policy_are_checked_with_the_rest() {
    refused(
        &json!({"backend": {"tier": "process"}, "defaultEgress": {
            "kind": "static",
            "allowedHosts": ["93.184.216.0/24", "2606:4700::/32", "a.test/x"],
            "deniedHosts": ["*.bad.test", "a b"],
            "rules": [
                {"host": "https://a.test"},
                {"host": "a.test", "scheme": "tcp"},
                {"host": "a.test", "credential": "key"},
                {"host": "a.test", "credential": "other"},
            ],
            "credentials": {"key": {"mode": "sentinel", "source": {"env": "T"}, "env": "KEY"}},
        }}),
        &[
            "`defaultEgress.allowedHosts[2]`: is no host name",
            "`defaultEgress.deniedHosts[1]`: is no host name",
            "`defaultEgress.rules[0].host`: is no host name",
            "`defaultEgress.rules[1].ports`: is missing; `scheme` `tcp` needs its ports named",
            "`defaultEgress.rules[3].credential`: `other` is no credential of this policy",
        ],
    );
}

#[test]
fn credentials_of_an_egress_policy_are_as_secret_as_others() {
    let document = json!({"backend": {"tier": "process"}, "defaultEgress": {
        "kind": "static",
        "rules": [{"host": "a.test", "credential": "key"}],
        "credentials": {"key": {"mode": "sentinel", "source": "hunter2", "env": "KEY"}},
    }});
    let config = SandboxProviderConfig::from_value(&document).expect("a good document");
    config.validate().expect("a secret plays no part");
    assert!(!format!("{config:?}").contains("hunter2"));
    let refusal = config.to_json().expect_err("a literal is not written out");
    assert!(!refusal.to_string().contains("hunter2"));
    let clear = config
        .dangerous_to_json_with_secrets()
        .expect("a literal in clear");
    let credential = &clear["defaultEgress"]["credentials"]["key"];
    assert_eq!(credential["source"], "hunter2");
    assert_eq!(credential["env"], "KEY");
}
