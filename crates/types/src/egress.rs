//! What may leave a sandbox.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ValueSource;

/// What may leave a sandbox. Omitted means `deny-all` on every tier that has a wall.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum EgressPolicy {
    /// Nothing leaves.
    #[default]
    DenyAll,
    /// Everything leaves. A sandbox that is made with it has no wall at all on its network; put in force in
    /// one that was made behind a wall, it lets the boundary carry whatever is public.
    AllowAll,
    /// Only what a rule names is reached.
    Static {
        /// Host patterns, each a rule for `https` on port 443 and `http` on port 80: `x` that host,
        /// `*.x` everything below it, `.x` and `**.x` both. Also a public address, or a range of such.
        #[serde(default)]
        allowed_hosts: Vec<String>,
        /// Rules that say more than a host.
        #[serde(default)]
        rules: Vec<EgressRule>,
        /// Host patterns, addresses and ranges of addresses that nothing reaches, whatever allows
        /// them; nor does a name that resolves to one of these addresses.
        #[serde(default)]
        denied_hosts: Vec<String>,
        /// Secrets that the boundary puts into requests, by the name that rules call them.
        #[serde(default)]
        credentials: BTreeMap<String, EgressCredential>,
        /// How much may flow; what is left out has the boundary's default.
        #[serde(default)]
        limits: EgressLimits,
    },
    /// Only the hosts that a provider gives are reached.
    Resolver {
        /// Gives the list: one host a line from an environment variable, a file or a command, or
        /// a closure.
        resolve: ValueSource,
    },
}

impl EgressPolicy {
    /// A static policy of nothing but host patterns.
    #[must_use]
    pub fn hosts<I: IntoIterator<Item = S>, S: Into<String>>(hosts: I) -> Self {
        Self::Static {
            allowed_hosts: hosts.into_iter().map(Into::into).collect(),
            rules: Vec::new(),
            denied_hosts: Vec::new(),
            credentials: BTreeMap::new(),
            limits: EgressLimits::default(),
        }
    }

    /// The wire form of the kind, e.g. `deny-all`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::DenyAll => "deny-all",
            Self::AllowAll => "allow-all",
            Self::Static { .. } => "static",
            Self::Resolver { .. } => "resolver",
        }
    }

    /// Shows every place that a value comes from.
    pub(crate) fn visit_sources(&mut self, visit: &mut dyn FnMut(&mut ValueSource)) {
        match self {
            Self::DenyAll | Self::AllowAll => {}
            Self::Static { credentials, .. } => {
                for credential in credentials.values_mut() {
                    visit(credential.source_mut());
                }
            }
            Self::Resolver { resolve } => visit(resolve),
        }
    }
}

impl EgressCredential {
    /// Where its value comes from.
    #[must_use]
    pub const fn source(&self) -> &ValueSource {
        match self {
            Self::Inject { source, .. } | Self::Sentinel { source, .. } => source,
        }
    }

    const fn source_mut(&mut self) -> &mut ValueSource {
        match self {
            Self::Inject { source, .. } | Self::Sentinel { source, .. } => source,
        }
    }
}

/// One thing that may be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EgressRule {
    /// A host pattern (see `allowedHosts`), an address, or a range of addresses.
    pub host: String,
    /// Ports. Empty: 443 for `https`, 80 for `http`; `tcp` must name its ports.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// What is spoken. Absent: `https`.
    #[serde(default)]
    pub scheme: EgressScheme,
    /// HTTP methods, in upper case. `GET` does not stand for `HEAD`. Empty: all but TRACE and CONNECT.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Path prefixes, each ending at a `/` or at the path's end. Paths that servers read differently,
    /// such as those with `..` or `%2f`, are none of them. Empty: all.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Ranges of private addresses, such as `10.1.0.0/16`, that the name may resolve into; a rule for a
    /// private address needs it too.
    #[serde(default)]
    pub inward: Vec<String>,
    /// The credential (by name) that its requests are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// Whether TLS is ended at the boundary.
    #[serde(default)]
    pub tls: EgressTls,
}

/// What is spoken on a connection.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EgressScheme {
    /// TLS whose server name is the host that was asked for.
    #[default]
    Https,
    /// HTTP in the clear.
    Http,
    /// Any bytes, which the boundary does not look into: SSH, a database.
    Tcp,
}

/// Whether TLS is ended at the boundary, which then sees requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EgressTls {
    /// Ended when the rule needs it: a credential, methods or paths.
    #[default]
    Auto,
    /// Always ended.
    Terminate,
    /// Never ended; refused on a rule that needs it.
    Passthrough,
}

/// A secret that the boundary puts into requests; it never enters a sandbox. Only a rule that names
/// it uses it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "mode",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum EgressCredential {
    /// The boundary strips a header and sets it itself.
    Inject {
        /// Where its value comes from. A file is read again when it changed, a program or a closure
        /// asked again after a minute.
        source: ValueSource,
        /// The header's name, e.g. `authorization`.
        header: String,
        /// Its value, with `{}` for the secret, e.g. `Bearer {}`.
        #[serde(default = "bare")]
        format: String,
    },
    /// The sandbox holds a random stand-in, in an environment variable, that is exchanged for the
    /// secret in the headers of requests on their way out.
    Sentinel {
        /// Where its value comes from, as for `inject`.
        source: ValueSource,
        /// The variable that holds the stand-in.
        env: String,
    },
}

fn bare() -> String {
    "{}".to_owned()
}

/// How much one sandbox may let flow. `None`: the boundary's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EgressLimits {
    /// Flows at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// New flows a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows_per_second: Option<u32>,
    /// Bytes out of the sandbox, in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_up: Option<u64>,
    /// Bytes into the sandbox, in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_down: Option<u64>,
    /// Different names asked for in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names_per_minute: Option<u32>,
}
