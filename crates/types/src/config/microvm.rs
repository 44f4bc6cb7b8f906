//! The microVM tier.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MAX_MILLIS;
use crate::ValueSource;

/// `microvm` on the E2B service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct E2bBackendConfig {
    /// Key of the account. A secret.
    pub api_key: ValueSource,
    /// Template that a sandbox starts from; the service's `base` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

/// `microvm` on Fly Machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlyMachinesBackendConfig {
    /// Token of the account. A secret.
    pub api_token: ValueSource,
    /// The app that machines are made in.
    #[schemars(length(min = 1))]
    pub app: String,
    /// The image of each machine.
    #[schemars(length(min = 1))]
    pub image: String,
    /// The region; the service's choice when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
}

/// `microvm` on machines of one's own, in one of two forms: a Firecracker on this host
/// (`firecrackerBinary`, `kernelImage`, `rootfsImage`), or an orchestrator elsewhere
/// (`orchestratorEndpoint`, `getToken` and what follows them).
///
/// The TypeScript type demands the three local fields in both forms, so the orchestrator form
/// accepts them; naming an endpoint is what chooses it, and nothing local is started then.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelfHostedBackendConfig {
    /// Path of the Firecracker binary on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firecracker_binary: Option<String>,
    /// Path of the guest's kernel on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_image: Option<String>,
    /// Path of the guest's root file system on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rootfs_image: Option<String>,
    /// Base URL of the orchestrator. Chooses the orchestrator form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestrator_endpoint: Option<String>,
    /// Gives a fresh bearer token for the orchestrator. Asked for each call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub get_token: Option<ValueSource>,
    /// The golden snapshot that a sandbox resumes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// One agent's own snapshot, resumed instead of a fresh golden one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_snapshot: Option<AgentSnapshotRef>,
    /// The vsock port that the worker in the guest listens on; 1024 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_294u32))]
    pub agent_vsock_port: Option<u32>,
    /// Milliseconds a sandbox may take until it is ready; 60,000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MILLIS))]
    pub ready_timeout_ms: Option<u64>,
    /// Milliseconds between two looks at whether the sandbox is ready; 250 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MILLIS))]
    pub ready_poll_interval_ms: Option<u64>,
    /// Certificates for the line to the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtls: Option<MtlsConfig>,
    /// Certificates for the calls to the orchestrator. The token is sent all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_mtls: Option<MtlsConfig>,
}

/// Names one captured snapshot of one agent. Each part is one segment of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSnapshotRef {
    /// The owning tenant.
    #[schemars(length(min = 1))]
    pub org_id: String,
    /// The agent.
    #[schemars(length(min = 1))]
    pub agent_id: String,
    /// The version, a decimal number as text.
    #[schemars(length(min = 1))]
    pub version: String,
}

/// A client certificate and the authority that the other side is checked against, all PEM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MtlsConfig {
    /// The authority.
    pub ca: ValueSource,
    /// The client's certificate.
    pub cert: ValueSource,
    /// The client's key. A secret.
    pub key: ValueSource,
    /// The name that the other side's certificate must carry; the host's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servername: Option<String>,
}

impl MtlsConfig {
    pub(super) fn visit_sources(&mut self, visit: &mut dyn FnMut(&mut ValueSource)) {
        let Self {
            ca,
            cert,
            key,
            servername: _,
        } = self;
        visit(ca);
        visit(cert);
        visit(key);
    }
}
