//! From a configuration to a provider, and every way it is refused before anything starts.

use std::io::Write;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use namzu_sandbox::config::BackendConfig;
use namzu_sandbox::core::egress::Wiring;
use namzu_sandbox::core::{Backend, Launched};
use namzu_sandbox::types::{Capabilities, Controls, SandboxSpec, Tier};
use namzu_sandbox::{
    BackendStatus, Error, ErrorCode, Phase, Registry, Result, SandboxProviderConfig, backends,
    create_sandbox_provider, load_config, serialize_sandbox_error,
};
use serde_json::{Value, json};

/// A backend of a third party.
#[derive(Debug)]
struct Mine;

#[async_trait]
impl Backend for Mine {
    fn tier(&self) -> Tier {
        Tier::Container
    }

    fn name(&self) -> &str {
        "mine"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    async fn plan(&self, _: &SandboxSpec) -> Result<Controls> {
        Ok(Controls::default())
    }

    async fn launch(&self, _: &SandboxSpec, _: &Wiring) -> Result<Launched> {
        Err(Error::new(ErrorCode::BackendFailed, "it never starts"))
    }
}

fn config(value: &Value) -> SandboxProviderConfig {
    SandboxProviderConfig::from_value(value).expect("a valid configuration")
}

fn docker(host_path: &str) -> SandboxProviderConfig {
    config(&json!({
        "backend": {"tier": "container", "image": "i"},
        "layout": {
            "outputs": {"source": {"type": "hostDir", "hostPath": host_path}},
            "skills": [{"id": "a", "source": {"type": "inImage"}}, {"id": "a", "source": {"type": "inImage"}}],
        },
        "defaultMemoryLimitMb": 7
    }))
}

#[test]
fn every_backend_of_the_configuration_is_listed() {
    let listed = backends();
    let labels: Vec<&str> = listed.iter().map(|info| info.label.as_str()).collect();
    for label in [
        "container:aci-standby-pool",
        "container:docker",
        "container:runsc",
        "microvm:e2b",
        "microvm:fly-machines",
        "microvm:self-hosted",
        "passthrough",
        "process:bubblewrap",
        "process:native",
        "process:seatbelt",
    ] {
        assert!(labels.contains(&label), "{label} is not in {labels:?}");
    }
    for info in listed {
        let absent = matches!(
            info.status,
            BackendStatus::NotBuilt | BackendStatus::NotWritten
        );
        assert_eq!(info.capabilities.is_none(), absent || info.reason.is_some());
        assert!(!absent || info.reason.is_some(), "{info:?}");
    }
}

#[test]
fn a_backend_that_is_not_there_is_refused_by_name() {
    let documents = [
        (
            "microvm:e2b",
            json!({"tier": "microvm", "service": "e2b", "apiKey": "k"}),
        ),
        (
            "microvm:fly-machines",
            json!({"tier": "microvm", "service": "fly-machines", "apiToken": "t", "app": "a", "image": "i"}),
        ),
        (
            "microvm:self-hosted",
            json!({"tier": "microvm", "service": "self-hosted", "orchestratorEndpoint": "https://o", "getToken": "t"}),
        ),
        (
            "process:seatbelt",
            json!({"tier": "process", "engine": "seatbelt"}),
        ),
    ];
    for (label, backend) in documents {
        let err = create_sandbox_provider(&config(&json!({"backend": backend}))).unwrap_err();
        assert_eq!(err.code(), ErrorCode::BackendNotAvailable, "{err:?}");
        assert_eq!(err.phase(), Some(Phase::Configure));
        assert_eq!(err.backend(), Some(label));
        assert!(err.to_string().contains(label), "{err}");
        let envelope = serialize_sandbox_error(&err);
        assert_eq!(envelope.name, "SandboxBackendNotImplementedError");
    }
}

#[test]
fn an_absent_backend_is_refused_before_its_layout_is_looked_at() {
    let err = create_sandbox_provider(&docker("/nonexistent")).unwrap_err();
    assert_eq!(err.code(), ErrorCode::BackendNotAvailable, "{err:?}");
}

#[test]
fn a_registered_backend_gets_its_configuration_and_its_layout() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = docker(folder.path().to_str().expect("a plain path"));
    if let Some(layout) = &mut config.layout {
        layout.skills.pop();
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let registry = Registry::builtin().with("container:docker", Tier::Container, move |request| {
        let layout = request.layout.expect("the container tier has a layout");
        sees.lock().unwrap().push((
            request.config.label(),
            layout.workspace().to_owned(),
            layout.mounts().len(),
        ));
        Ok(Arc::new(Mine))
    });
    let provider = registry.provider(&config).unwrap();
    assert_eq!(provider.id(), "namzu-container-mine");
    assert_eq!(provider.name(), "@namzu/sandbox: container:docker");
    let wanted = (
        "container:docker".to_owned(),
        "/mnt/user-data/outputs".to_owned(),
        2,
    );
    assert_eq!(*seen.lock().unwrap(), [wanted]);
}

#[test]
fn a_broken_layout_never_reaches_a_backend() {
    let registry = Registry::builtin().with("container:docker", Tier::Container, |_| {
        panic!("the backend was made")
    });
    let err = registry.provider(&docker("/nonexistent/x")).unwrap_err();
    assert_eq!(err.code(), ErrorCode::LayoutInvalid, "{err:?}");
    assert_eq!(err.reasons().len(), 3, "{err:?}");
    assert_eq!(
        serialize_sandbox_error(&err).name,
        "ContainerSandboxLayoutValidationError"
    );
}

#[test]
fn a_configuration_built_in_rust_is_held_to_the_same_rules() {
    let mut container = docker("/srv");
    container.layout = None;
    let mut process = config(&json!({"backend": {"tier": "process"}}));
    process.default_max_processes = Some(0);
    process.default_env.insert("A=B".to_owned(), String::new());
    for (config, reasons) in [(container, 1), (process, 2)] {
        let err = create_sandbox_provider(&config).unwrap_err();
        assert_eq!(err.code(), ErrorCode::ConfigInvalid, "{err:?}");
        assert_eq!(err.reasons().len(), reasons, "{err:?}");
    }
}

#[test]
fn a_factorys_refusal_names_the_backend() {
    let registry = Registry::builtin().with("microvm:e2b", Tier::Microvm, |_| {
        Err(Error::new(ErrorCode::HostUnsupported, "no such host"))
    });
    let config = config(&json!({"backend": {"tier": "microvm", "service": "e2b", "apiKey": "k"}}));
    let err = registry.provider(&config).unwrap_err();
    assert_eq!(err.code(), ErrorCode::HostUnsupported);
    assert_eq!(err.backend(), Some("microvm:e2b"));
}

#[test]
fn auto_takes_an_engine_that_is_there() {
    let registry = Registry::builtin()
        .with("process:native", Tier::Process, |request| {
            assert!(matches!(request.config, BackendConfig::Process(_)));
            Ok(Arc::new(Mine))
        })
        .with("process:bubblewrap", Tier::Process, |_| Ok(Arc::new(Mine)));
    let config = config(&json!({"backend": {"tier": "process"}}));
    assert_eq!(
        registry.provider(&config).unwrap().name(),
        "@namzu/sandbox: process:auto"
    );
}

#[cfg(all(feature = "backend-passthrough", target_os = "linux"))]
#[test]
fn passthrough_has_to_be_named_and_has_the_packages_names() {
    let config = config(&json!({"backend": {"tier": "passthrough"}}));
    let provider = create_sandbox_provider(&config).unwrap();
    assert_eq!(provider.id(), "namzu-passthrough-passthrough");
    assert_eq!(provider.name(), "@namzu/sandbox: passthrough");
    assert_ne!(
        SandboxProviderConfig::default().backend.tier(),
        Tier::Passthrough
    );
}

#[cfg(not(feature = "backend-passthrough"))]
#[test]
fn a_backend_left_out_of_the_build_names_its_feature() {
    let config = config(&json!({"backend": {"tier": "passthrough"}}));
    let err = create_sandbox_provider(&config).unwrap_err();
    assert_eq!(err.code(), ErrorCode::BackendNotAvailable);
    assert!(err.to_string().contains("`backend-passthrough`"), "{err}");
}

#[test]
fn a_file_is_read_or_refused_with_its_name() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(br#"{"backend": {"tier": "process", "engine": "auto"}}"#)
        .unwrap();
    assert_eq!(
        load_config(file.path()).unwrap(),
        SandboxProviderConfig::default()
    );

    file.write_all(b"x").unwrap();
    let broken = load_config(file.path()).unwrap_err();
    file.as_file().set_len(2 << 20).unwrap();
    let huge = load_config(file.path()).unwrap_err();
    let folder = load_config("/").unwrap_err();
    let missing = load_config("/nonexistent.json").unwrap_err();
    for (err, code) in [
        (&broken, ErrorCode::ConfigInvalid),
        (&huge, ErrorCode::ConfigInvalid),
        (&folder, ErrorCode::ConfigInvalid),
        (&missing, ErrorCode::NotFound),
    ] {
        assert_eq!(err.code(), code, "{err:?}");
    }
    assert!(missing.to_string().contains("/nonexistent.json"));
}
