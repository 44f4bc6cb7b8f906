//! What one create call asks for on top of the provider's defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::{
    ConfigError, MAX_CPUS, MAX_MIB, MAX_MILLIS, MAX_PROCESSES, MIN_CPUS, SandboxProviderConfig,
    check, json, schema,
};
use crate::{Access, Control, EgressPolicy, Limits, SandboxId, SandboxSpec, Workspace};

/// The options of one create call. Whatever is absent is the provider's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, remote = "Self")]
pub struct SandboxCreateConfig {
    /// A directory of the host to be the workspace; an empty private one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// What may leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressPolicy>,
    /// Milliseconds that one command may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MILLIS))]
    pub timeout_ms: Option<u64>,
    /// MiB of memory, swap included, for everything inside together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MIB))]
    pub memory_limit_mb: Option<u64>,
    /// Processes and threads inside together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_PROCESSES))]
    pub max_processes: Option<u32>,
    /// Variables of every command inside, on top of the provider's. Never the host's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Whether the sandbox may write to `workingDirectory`; `rw` when absent. Not in the
    /// TypeScript package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Processors' worth of time, e.g. `0.5`. Not in the TypeScript package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_CPUS, max = MAX_CPUS))]
    pub cpus: Option<f64>,
    /// MiB that may be written to the sandbox's own scratch space. Not in the TypeScript package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MIB))]
    pub disk_limit_mb: Option<u64>,
    /// Milliseconds that the sandbox may live. Not in the TypeScript package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MILLIS))]
    pub lifetime_ms: Option<u64>,
    /// The sandbox's name: 1 to 64 of `a-z`, `0-9` and `-`; a fresh one when absent. Not in the
    /// TypeScript package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub id: Option<SandboxId>,
    /// Labels to find it by, on top of the provider's. Not in the TypeScript package.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Controls that must be enforced, on top of the provider's. Not in the TypeScript package.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Control>,
    /// Whether it outlives the process that makes it. Not in the TypeScript package.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detach: bool,
    /// Whether, before it is handed out, what its egress policy denies is tried from inside; a
    /// wall with a hole fails the call. Not in the TypeScript package.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verify_egress: bool,
}

impl SandboxCreateConfig {
    /// Reads a JSON value.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn from_value(value: &Value) -> Result<Self, ConfigError> {
        let mut reasons = schema::violations::<Self>(value);
        check::create(value, &mut reasons);
        schema::read(reasons, || Self::deserialize(value))
    }

    /// Reads a JSON document.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn from_json_str(text: &str) -> Result<Self, ConfigError> {
        Self::from_value(&json::parse(text)?)
    }

    /// The JSON schema of a document.
    #[must_use]
    pub fn json_schema_value() -> Value {
        schema::of::<Self>()
    }

    /// These options on top of `defaults`: a value given here wins, maps and requirements add up.
    #[must_use]
    pub fn on(self, defaults: &SandboxSpec) -> SandboxSpec {
        let Self {
            working_directory,
            egress,
            timeout_ms,
            memory_limit_mb,
            max_processes,
            env,
            access,
            cpus,
            disk_limit_mb,
            lifetime_ms,
            id,
            labels,
            require,
            detach,
            verify_egress,
        } = self;
        let mut spec = defaults.clone();
        if let Some(path) = working_directory {
            spec.workspace = Workspace::Host {
                path: PathBuf::from(path),
                access: access.unwrap_or(Access::ReadWrite),
            };
        }
        let asked = limits(
            memory_limit_mb,
            max_processes,
            cpus,
            disk_limit_mb,
            timeout_ms,
            lifetime_ms,
        );
        spec.limits = Limits {
            memory: asked.memory.or(spec.limits.memory),
            processes: asked.processes.or(spec.limits.processes),
            cpus: asked.cpus.or(spec.limits.cpus),
            disk: asked.disk.or(spec.limits.disk),
            command: asked.command.or(spec.limits.command),
            lifetime: asked.lifetime.or(spec.limits.lifetime),
        };
        spec.id = id.or(spec.id);
        spec.egress = egress.or(spec.egress);
        spec.env.extend(env);
        spec.labels.extend(labels);
        for control in require {
            if !spec.require.contains(&control) {
                spec.require.push(control);
            }
        }
        spec.detach |= detach;
        spec.verify_egress |= verify_egress;
        spec
    }
}

impl SandboxProviderConfig {
    /// The sandbox that a create call without options asks for.
    #[must_use]
    pub fn defaults(&self) -> SandboxSpec {
        let Self {
            backend: _,
            layout: _,
            default_egress,
            default_timeout_ms,
            default_memory_limit_mb,
            default_max_processes,
            default_cpus,
            default_disk_limit_mb,
            default_lifetime_ms,
            default_env,
            default_labels,
            require,
        } = self;
        SandboxSpec {
            egress: default_egress.clone(),
            limits: limits(
                *default_memory_limit_mb,
                *default_max_processes,
                *default_cpus,
                *default_disk_limit_mb,
                *default_timeout_ms,
                *default_lifetime_ms,
            ),
            env: default_env.clone(),
            labels: default_labels.clone(),
            require: require.clone(),
            ..SandboxSpec::default()
        }
    }
}

fn limits(
    memory_mb: Option<u64>,
    processes: Option<u32>,
    cpus: Option<f64>,
    disk_mb: Option<u64>,
    command_ms: Option<u64>,
    lifetime_ms: Option<u64>,
) -> Limits {
    // Values built in Rust are not range-checked as those of a document are.
    let bytes = |mib: u64| mib.saturating_mul(1 << 20);
    Limits {
        memory: memory_mb.map(bytes),
        processes,
        cpus,
        disk: disk_mb.map(bytes),
        command: command_ms.map(Duration::from_millis),
        lifetime: lifetime_ms.map(Duration::from_millis),
    }
}

impl Serialize for SandboxCreateConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for SandboxCreateConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(&value).map_err(de::Error::custom)
    }
}
