//! The container tier.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_MILLIS, default_network};
use crate::ValueSource;

/// `container` on a Docker-compatible daemon: one OCI container for each sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerBackendConfig {
    /// Which runtime starts the container.
    #[serde(default)]
    pub runtime: ContainerRuntime,
    /// The image of each sandbox.
    #[schemars(length(min = 1))]
    pub image: String,
    /// How the worker inside is reached.
    #[serde(default)]
    pub host_reachability: HostReachability,
    /// The engine's network that the container joins: `none`, `bridge` or a name. What may leave
    /// is the egress policy's matter, not this field's.
    #[serde(default = "default_network")]
    #[schemars(length(min = 1))]
    pub network: String,
    /// Labels of the container. A key is neither empty nor holds `=`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl ContainerBackendConfig {
    /// `image` with every default.
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            runtime: ContainerRuntime::default(),
            image: image.into(),
            host_reachability: HostReachability::default(),
            network: default_network(),
            labels: BTreeMap::new(),
        }
    }
}

/// Which runtime starts a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContainerRuntime {
    /// The daemon's default, `runc`: the host's kernel behind namespaces and seccomp.
    #[default]
    Docker,
    /// gVisor: a kernel of its own in user space.
    Runsc,
}

impl ContainerRuntime {
    /// The wire form, e.g. `runsc`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Runsc => "runsc",
        }
    }
}

/// How the worker in a container is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostReachability {
    /// Over a port of the host's loopback: the caller runs on the engine's host.
    #[default]
    HostPort,
    /// By the container's name on the network that `network` names: the caller is a container too.
    ContainerNetwork,
}

/// `container` on Azure Container Instances, claimed from a standby pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AciStandbyPoolBackendConfig {
    /// The subscription's id.
    #[schemars(length(min = 1))]
    pub subscription_id: String,
    /// The resource group that sandboxes are made in.
    #[schemars(length(min = 1))]
    pub resource_group: String,
    /// The region, e.g. `westus2`.
    #[schemars(length(min = 1))]
    pub location: String,
    /// Full resource id of the standby pool.
    #[schemars(length(min = 1))]
    pub standby_pool_resource_id: String,
    /// Full resource id of the container group profile.
    #[schemars(length(min = 1))]
    pub container_group_profile_resource_id: String,
    /// The profile's revision; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub container_group_profile_revision: Option<u32>,
    /// Gives a fresh bearer token for `https://management.azure.com/`. Asked for each call.
    pub get_arm_token: ValueSource,
    /// Full resource id of the subnet that sandboxes join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<String>,
    /// Milliseconds between two looks at whether the sandbox is ready; 500 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MILLIS))]
    pub ready_poll_interval_ms: Option<u64>,
    /// Milliseconds a sandbox may take until it is ready; 60,000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MILLIS))]
    pub ready_timeout_ms: Option<u64>,
    /// The worker's port inside; 2024 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub worker_port: Option<u16>,
    /// Version of the management API; the backend's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm_api_version: Option<String>,
    /// First part of each container group's name; `namzu-task` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_name_prefix: Option<String>,
}
