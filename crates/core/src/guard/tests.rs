//! Declared is let through, undeclared never arrives.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::Teardown;

/// Declares one thing and gives another.
#[derive(Debug, Default)]
struct Fake {
    capabilities: Option<Capabilities>,
    planned: Controls,
    given: Controls,
    calls: std::sync::Arc<Mutex<Vec<&'static str>>>,
    stuck: bool,
}

impl Fake {
    fn call(&self, what: &'static str) {
        self.calls.lock().unwrap().push(what);
    }
}

#[async_trait]
impl Backend for Fake {
    fn tier(&self) -> Tier {
        Tier::Process
    }

    fn name(&self) -> &str {
        "fake"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.unwrap_or(Capabilities::NONE)
    }

    async fn plan(&self, _: &SandboxSpec) -> Result<Controls> {
        self.call("plan");
        Ok(self.planned.clone())
    }

    async fn launch(&self, _: &SandboxSpec, _: &Wiring) -> Result<Launched> {
        self.call("launch");
        let (io, _) = tokio::io::duplex(1);
        Ok(Launched {
            gate: None,
            id: "fake".parse().unwrap(),
            channel: crate::Channel::Duplex(crate::DuplexChannel::private(io)),
            teardown: Box::new(Down {
                calls: std::sync::Arc::clone(&self.calls),
                stuck: self.stuck,
            }),
            controls: self.given.clone(),
            workspace: "/workspace".to_owned(),
            egress: None,
            labels: std::collections::BTreeMap::new(),
        })
    }
}

#[derive(Debug)]
struct Down {
    calls: std::sync::Arc<Mutex<Vec<&'static str>>>,
    stuck: bool,
}

#[async_trait]
impl Teardown for Down {
    async fn destroy(&mut self) -> Result<()> {
        self.calls.lock().unwrap().push("destroy");
        if self.stuck {
            return Err(Error::new(ErrorCode::BackendFailed, "it is stuck"));
        }
        Ok(())
    }

    fn kill(&mut self) {}
}

/// Everything, as firmly as it can be.
const ALL: Capabilities = {
    let firm = Strength::Enforced;
    Capabilities {
        filesystem: firm,
        processes: firm,
        memory: firm,
        pids: firm,
        cpu: firm,
        disk: firm,
        lifetime: firm,
        syscalls: firm,
        egress: EgressCapabilities {
            deny_all: firm,
            allow_all: true,
            static_hosts: firm,
            resolver: firm,
        },
        host_workspace: true,
        read_only_workspace: true,
        detach: true,
        tunnels: true,
        layout: true,
    }
};

/// A wish for each thing that can be declared, with the capabilities that lack only that.
fn wishes() -> Vec<(SandboxSpec, Capabilities)> {
    let none = Strength::None;
    let spec = |change: fn(&mut SandboxSpec)| {
        let mut spec = SandboxSpec::default();
        change(&mut spec);
        spec
    };
    let host = |access| Workspace::Host {
        path: PathBuf::from("/srv"),
        access,
    };
    let mut wishes = vec![
        (
            spec(|s| s.limits.memory = Some(1)),
            Capabilities {
                memory: none,
                ..ALL
            },
        ),
        (
            spec(|s| s.limits.processes = Some(1)),
            Capabilities { pids: none, ..ALL },
        ),
        (
            spec(|s| s.limits.cpus = Some(0.5)),
            Capabilities { cpu: none, ..ALL },
        ),
        (
            spec(|s| s.limits.disk = Some(1)),
            Capabilities { disk: none, ..ALL },
        ),
        (
            spec(|s| s.limits.lifetime = Some(Duration::from_secs(1))),
            Capabilities {
                lifetime: none,
                ..ALL
            },
        ),
        (
            spec(|s| s.detach = true),
            Capabilities {
                detach: false,
                ..ALL
            },
        ),
        (
            SandboxSpec {
                workspace: host(Access::ReadWrite),
                ..SandboxSpec::default()
            },
            Capabilities {
                host_workspace: false,
                ..ALL
            },
        ),
        (
            SandboxSpec {
                workspace: host(Access::ReadOnly),
                ..SandboxSpec::default()
            },
            Capabilities {
                read_only_workspace: false,
                ..ALL
            },
        ),
    ];
    let egress = ALL.egress;
    let policies = [
        (
            None,
            EgressCapabilities {
                deny_all: none,
                ..egress
            },
        ),
        (
            Some(EgressPolicy::DenyAll),
            EgressCapabilities {
                deny_all: none,
                ..egress
            },
        ),
        (
            Some(EgressPolicy::AllowAll),
            EgressCapabilities {
                allow_all: false,
                ..egress
            },
        ),
        (
            Some(EgressPolicy::hosts([""; 0])),
            EgressCapabilities {
                static_hosts: none,
                ..egress
            },
        ),
        (
            Some(EgressPolicy::Resolver {
                resolve: namzu_types::ValueSource::Env("HOSTS".to_owned()),
            }),
            EgressCapabilities {
                resolver: none,
                ..egress
            },
        ),
    ];
    for (policy, egress) in policies {
        let spec = SandboxSpec {
            egress: policy,
            ..SandboxSpec::default()
        };
        wishes.push((spec, Capabilities { egress, ..ALL }));
    }
    wishes
}

#[test]
fn what_is_declared_is_let_through_and_what_is_not_is_refused() {
    for (spec, lacking) in wishes() {
        assert_eq!(refusals(Tier::Process, &ALL, &spec), [""; 0], "{spec:?}");
        let refused = refusals(Tier::Process, &lacking, &spec);
        assert_eq!(refused.len(), 1, "{spec:?}: {refused:?}");
    }
}

#[test]
fn everything_undeclared_is_refused_at_once() {
    let spec = SandboxSpec {
        workspace: Workspace::Host {
            path: PathBuf::from("/srv"),
            access: Access::ReadOnly,
        },
        limits: Limits {
            memory: Some(1),
            processes: Some(1),
            cpus: Some(1.0),
            disk: Some(1),
            command: Some(Duration::from_secs(1)),
            lifetime: Some(Duration::from_secs(1)),
        },
        require: Control::ALL.to_vec(),
        detach: true,
        ..SandboxSpec::default()
    };
    // Five limits, detaching, two about the workspace, the egress, nine required controls. A
    // command's time is the worker's own matter.
    let refused = refusals(Tier::Process, &Capabilities::NONE, &spec);
    assert_eq!(refused.len(), 18, "{refused:#?}");
}

#[test]
fn a_required_control_is_refused_unless_it_can_be_enforced() {
    for control in Control::ALL {
        let spec = SandboxSpec {
            require: vec![control],
            ..SandboxSpec::default()
        };
        assert_eq!(refusals(Tier::Process, &ALL, &spec), [""; 0], "{control}");
    }
    let weak = Capabilities {
        memory: Strength::Declared,
        ..ALL
    };
    let spec = SandboxSpec {
        require: vec![Control::Memory],
        ..SandboxSpec::default()
    };
    assert_eq!(refusals(Tier::Process, &weak, &spec).len(), 1);
    // An open network is no wall, whatever else the backend could do.
    let open = SandboxSpec {
        require: vec![Control::Network],
        egress: Some(EgressPolicy::AllowAll),
        ..SandboxSpec::default()
    };
    assert_eq!(refusals(Tier::Process, &ALL, &open).len(), 1);
}

#[tokio::test]
async fn nothing_undeclared_reaches_the_backend() {
    for (spec, lacking) in wishes() {
        let guarded = Guarded(Fake {
            capabilities: Some(lacking),
            ..Fake::default()
        });
        for err in [
            guarded.plan(&spec).await.unwrap_err(),
            guarded.launch(&spec, &Wiring::default()).await.unwrap_err(),
        ] {
            assert_eq!(err.code(), ErrorCode::Unsupported, "{err:?}");
            assert!(err.hint().is_some());
        }
        assert_eq!(*guarded.0.calls.lock().unwrap(), [""; 0]);
    }
}

#[tokio::test]
async fn a_plan_that_holds_less_than_required_starts_nothing() {
    let guarded = Guarded(Fake {
        capabilities: Some(ALL),
        ..Fake::default()
    });
    let spec = SandboxSpec {
        require: vec![Control::Memory],
        ..SandboxSpec::default()
    };
    let err = guarded.launch(&spec, &Wiring::default()).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::Unsupported, "{err:?}");
    assert_eq!(*guarded.0.calls.lock().unwrap(), ["plan"]);
}

#[tokio::test]
async fn a_limit_that_is_required_and_not_asked_for_is_no_fault_of_the_host() {
    let limits = [
        (Control::Memory, "--memory"),
        (Control::Pids, "--pids"),
        (Control::Cpu, "--cpus"),
        (Control::Disk, "--disk"),
        (Control::WallClock, "--lifetime"),
    ];
    let guarded = Guarded(Fake {
        capabilities: Some(ALL),
        ..Fake::default()
    });
    for (control, flag) in limits {
        let spec = SandboxSpec {
            require: vec![control],
            ..SandboxSpec::default()
        };
        let err = guarded.plan(&spec).await.unwrap_err();
        assert_eq!(
            err.to_string(),
            format!(
                "the requirements cannot be met: `{control}` is required but no limit was asked for"
            )
        );
        assert!(err.hint().is_some_and(|hint| hint.contains(flag)), "{err}");
    }
    let asked = SandboxSpec {
        require: vec![Control::Memory],
        limits: Limits {
            memory: Some(1 << 30),
            ..Limits::default()
        },
        ..SandboxSpec::default()
    };
    let both = SandboxSpec {
        require: vec![Control::Memory, Control::Syscalls],
        ..SandboxSpec::default()
    };
    for (spec, reasons) in [(asked, 1), (both, 2)] {
        let err = guarded.plan(&spec).await.unwrap_err();
        assert!(
            err.to_string().starts_with("this host cannot hold"),
            "{err}"
        );
        assert_eq!(err.reasons().len(), reasons);
    }
}

#[tokio::test]
async fn a_sandbox_that_holds_less_than_planned_is_taken_down() {
    for stuck in [false, true] {
        let mut planned = Controls::default();
        planned.memory.strength = Strength::Enforced;
        let guarded = Guarded(Fake {
            capabilities: Some(ALL),
            planned,
            stuck,
            ..Fake::default()
        });
        let spec = SandboxSpec {
            require: vec![Control::Memory],
            ..SandboxSpec::default()
        };
        let err = guarded.launch(&spec, &Wiring::default()).await.unwrap_err();
        assert_eq!(err.code(), ErrorCode::Unsupported, "{err:?}");
        assert_eq!(std::error::Error::source(&err).is_some(), stuck);
        assert_eq!(
            *guarded.0.calls.lock().unwrap(),
            ["plan", "launch", "destroy"]
        );
    }
}

#[test]
fn limits_at_their_bounds_make_sense() {
    let spec = SandboxSpec {
        limits: Limits {
            memory: Some(MAX_MIB << 20),
            disk: Some(MAX_MIB << 20),
            processes: Some(MAX_PROCESSES),
            cpus: Some(MAX_CPUS),
            ..Limits::default()
        },
        ..SandboxSpec::default()
    };
    assert_eq!(malformed(&spec), [""; 0]);
}

#[tokio::test]
async fn what_makes_no_sense_is_no_request() {
    let bad: [fn(&mut SandboxSpec); 19] = [
        |s| s.limits.memory = Some((MAX_MIB << 20) + 1),
        |s| s.limits.disk = Some(u64::MAX),
        |s| s.limits.processes = Some(MAX_PROCESSES + 1),
        |s| s.limits.cpus = Some(MAX_CPUS + 1.0),
        |s| s.limits.cpus = Some(MIN_CPUS / 2.0),
        |s| s.limits.memory = Some(0),
        |s| s.limits.processes = Some(0),
        |s| s.limits.disk = Some(0),
        |s| s.limits.cpus = Some(0.0),
        |s| s.limits.cpus = Some(-1.0),
        |s| s.limits.cpus = Some(f64::NAN),
        |s| s.limits.cpus = Some(f64::INFINITY),
        |s| s.limits.command = Some(Duration::ZERO),
        |s| s.limits.lifetime = Some(Duration::ZERO),
        |s| s.limits.command = Some(Duration::MAX),
        |s| s.limits.lifetime = Some(Duration::from_secs(u64::MAX)),
        |s| drop(s.env.insert("A=B".to_owned(), String::new())),
        |s| drop(s.labels.insert("a".to_owned(), "\0".to_owned())),
        |s| {
            s.workspace = Workspace::Host {
                path: PathBuf::from("relative"),
                access: Access::ReadWrite,
            }
        },
    ];
    for change in bad {
        let mut spec = SandboxSpec::default();
        change(&mut spec);
        let guarded = Guarded(Fake {
            capabilities: Some(ALL),
            ..Fake::default()
        });
        let err = guarded.plan(&spec).await.unwrap_err();
        assert_eq!(err.code(), ErrorCode::InvalidArgument, "{spec:?}: {err:?}");
        assert_eq!(err.reasons().len(), 1, "{err:?}");
        assert_eq!(*guarded.0.calls.lock().unwrap(), [""; 0]);
    }
}

#[test]
fn a_stand_in_takes_no_variables_place() {
    let policy: EgressPolicy = serde_json::from_value(serde_json::json!({
        "kind": "static",
        "credentials": {
            "key": {"mode": "sentinel", "source": {"env": "KEY"}, "env": "API_KEY"},
            "token": {"mode": "inject", "source": {"env": "TOKEN"}, "header": "authorization"},
        },
    }))
    .unwrap();
    let with = |names: &[&str]| {
        let env = names.iter().map(|name| ((*name).to_owned(), String::new()));
        malformed(&SandboxSpec {
            egress: Some(policy.clone()),
            env: env.collect(),
            ..SandboxSpec::default()
        })
    };
    // The source is read on the host, so its name is free inside.
    assert_eq!(with(&["KEY", "TOKEN", "authorization"]), [""; 0]);
    assert_eq!(
        with(&["API_KEY"]),
        ["the variable `API_KEY`, which is to hold the stand-in of credential `key`"]
    );
}

#[test]
fn an_open_network_has_no_walls_to_test() {
    let with = |egress| {
        let spec = SandboxSpec {
            egress: Some(egress),
            verify_egress: true,
            ..SandboxSpec::default()
        };
        refusals(Tier::Process, &ALL, &spec).len()
    };
    assert_eq!(with(EgressPolicy::AllowAll), 1);
    assert_eq!(with(EgressPolicy::DenyAll), 0);
    assert_eq!(with(EgressPolicy::hosts(["a.test"])), 0);
}
