//! The configuration of a provider, as the TypeScript package writes it.
//!
//! JSON is read strictly: whatever is wrong with a document is reported at once, each reason with
//! the path of the offending field and what may stand there. The JSON schema that
//! [`SandboxProviderConfig`] derives is the validator, so the two cannot disagree.

mod backend;
mod check;
mod container;
mod create;
mod json;
mod microvm;
mod process;
mod schema;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

pub use self::backend::BackendConfig;
pub use self::container::{
    AciStandbyPoolBackendConfig, ContainerBackendConfig, ContainerRuntime, HostReachability,
};
pub use self::create::SandboxCreateConfig;
pub use self::microvm::{
    AgentSnapshotRef, E2bBackendConfig, FlyMachinesBackendConfig, MtlsConfig,
    SelfHostedBackendConfig,
};
pub use self::process::{PassthroughBackendConfig, ProcessBackendConfig, ProcessEngine};
use crate::{ContainerSandboxLayout, Control, EgressPolicy, Secret, ValueSource};

/// The longest time that a configuration may name, in milliseconds: what the reference's timers
/// can hold.
pub(crate) const MAX_MILLIS: u64 = 2_147_483_647;
/// The largest memory or disk that a configuration may name, in MiB: 16 TiB.
pub const MAX_MIB: u64 = 16_777_216;
/// The most processes that a configuration may name: the kernel's own ceiling.
pub const MAX_PROCESSES: u32 = 4_194_304;
/// The least processor time that a configuration may name.
pub const MIN_CPUS: f64 = 0.01;
/// The most processor time that a configuration may name.
pub const MAX_CPUS: f64 = 4096.0;

fn default_network() -> String {
    "none".to_owned()
}

/// A backend, and what its sandboxes are unless a create call says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, remote = "Self")]
pub struct SandboxProviderConfig {
    /// Which backend, and how it is set up.
    pub backend: BackendConfig,
    /// The mounts of a container. The container tier needs it; no other tier has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<ContainerSandboxLayout>,
    /// What may leave. `deny-all` when absent, except on the passthrough tier, which has no wall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_egress: Option<EgressPolicy>,
    /// Milliseconds that one command may run; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MILLIS))]
    pub default_timeout_ms: Option<u64>,
    /// MiB of memory, swap included, for everything inside together; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MIB))]
    pub default_memory_limit_mb: Option<u64>,
    /// Processes and threads inside together; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_PROCESSES))]
    pub default_max_processes: Option<u32>,
    /// Processors' worth of time, e.g. `0.5`; no limit when absent. Not in the TypeScript package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_CPUS, max = MAX_CPUS))]
    pub default_cpus: Option<f64>,
    /// MiB that may be written to the sandbox's own scratch space; no limit when absent. Not in
    /// the TypeScript package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MIB))]
    pub default_disk_limit_mb: Option<u64>,
    /// Milliseconds that a sandbox may live; no limit when absent. Not in the TypeScript package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MILLIS))]
    pub default_lifetime_ms: Option<u64>,
    /// Variables of every command inside. Not in the TypeScript package.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub default_env: BTreeMap<String, String>,
    /// Labels of every sandbox, to find it by. Not in the TypeScript package.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub default_labels: BTreeMap<String, String>,
    /// Controls that must be enforced; a backend that holds one of them less firmly is refused
    /// before anything starts. Not in the TypeScript package.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Control>,
}

impl SandboxProviderConfig {
    /// `backend` with no defaults of its own.
    #[must_use]
    pub fn new(backend: BackendConfig) -> Self {
        Self {
            backend,
            ..Self::default()
        }
    }

    /// Reads a JSON document.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn from_json_str(text: &str) -> Result<Self, ConfigError> {
        Self::from_value(&json::parse(text)?)
    }

    /// Reads a JSON value.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn from_value(value: &Value) -> Result<Self, ConfigError> {
        let mut reasons = schema::violations::<Self>(value);
        check::provider(value, &mut reasons);
        schema::read(reasons, || Self::deserialize(value))
    }

    /// The configuration as JSON.
    ///
    /// # Errors
    ///
    /// A literal secret or a closure in it, neither of which is written out: see
    /// [`Self::dangerous_to_json_with_secrets`].
    pub fn to_json(&self) -> Result<Value, ConfigError> {
        serde_json::to_value(self).map_err(|err| ConfigError::one(err.to_string()))
    }

    /// The configuration as JSON with every literal secret in clear. Neither log nor store it.
    ///
    /// # Errors
    ///
    /// A closure in it has no JSON form.
    pub fn dangerous_to_json_with_secrets(&self) -> Result<Value, ConfigError> {
        let mut stripped = self.clone();
        let mut literals: Vec<Secret> = Vec::new();
        // A literal refuses to be serialised; its place is held by a reference that no document
        // can hold, as a variable's name has no NUL.
        stripped.visit_sources(&mut |source| {
            if let ValueSource::Value(secret) = source {
                let place = format!("\0{}", literals.len());
                literals.push(secret.clone());
                *source = ValueSource::Env(place);
            }
        });
        let mut json = stripped.to_json()?;
        put_back(&mut json, &literals);
        Ok(json)
    }

    /// Holds a configuration built in Rust to the rules that a document is held to.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut stripped = self.clone();
        // Secrets and closures play no part in the rules, and have no JSON form.
        stripped.visit_sources(&mut |source| *source = ValueSource::Env("NAME".to_owned()));
        Self::from_value(&stripped.to_json()?).map(drop)
    }

    fn visit_sources(&mut self, visit: &mut dyn FnMut(&mut ValueSource)) {
        self.backend.visit_sources(visit);
        if let Some(layout) = &mut self.layout {
            layout.visit_sources(visit);
        }
        if let Some(egress) = &mut self.default_egress {
            egress.visit_sources(visit);
        }
    }

    /// The JSON schema of a document.
    #[must_use]
    pub fn json_schema_value() -> Value {
        schema::of::<Self>()
    }
}

fn put_back(json: &mut Value, literals: &[Secret]) {
    let place = json
        .get("env")
        .and_then(Value::as_str)
        .and_then(|name| name.strip_prefix('\0'))
        .and_then(|index| index.parse::<usize>().ok());
    if let Some(secret) = place.and_then(|index| literals.get(index)) {
        *json = Value::String(secret.expose().to_owned());
        return;
    }
    match json {
        Value::Array(items) => items.iter_mut().for_each(|item| put_back(item, literals)),
        Value::Object(map) => map.values_mut().for_each(|item| put_back(item, literals)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl Serialize for SandboxProviderConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for SandboxProviderConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(&value).map_err(de::Error::custom)
    }
}

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    reasons: Vec<String>,
}

impl ConfigError {
    pub(crate) fn one(reason: String) -> Self {
        Self {
            reasons: vec![reason],
        }
    }

    /// One reason for each violation, each beginning with the path of the field.
    #[must_use]
    pub fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// The reasons by value.
    #[must_use]
    pub fn into_reasons(self) -> Vec<String> {
        self.reasons
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid configuration: {}", self.reasons.join("; "))
    }
}

impl std::error::Error for ConfigError {}
