//! The container layout: which host data a container finds where, and where by default.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, ValueSource};

/// Where `outputs` is mounted unless the layout says otherwise.
pub const SANDBOX_DEFAULT_OUTPUTS_PATH: &str = "/mnt/user-data/outputs";
/// Where `scratch` is mounted unless the layout says otherwise.
pub const SANDBOX_DEFAULT_SCRATCH_PATH: &str = "/mnt/user-data/scratch";
/// Where `uploads` is mounted unless the layout says otherwise.
pub const SANDBOX_DEFAULT_UPLOADS_PATH: &str = "/mnt/user-data/uploads";
/// Where `toolResults` is mounted unless the layout says otherwise.
pub const SANDBOX_DEFAULT_TOOL_RESULTS_PATH: &str = "/mnt/user-data/tool_results";
/// Where `transcripts` is mounted unless the layout says otherwise.
pub const SANDBOX_DEFAULT_TRANSCRIPTS_PATH: &str = "/mnt/transcripts";
/// The directory below which each skill is mounted under its id.
pub const SANDBOX_DEFAULT_SKILLS_PARENT: &str = "/mnt/skills";

/// The mounts of a container. Paths are resolved and checked by `namzu_core::layout`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerSandboxLayout {
    /// What the caller wants to keep; the workspace root. Read and write. Without it the layout
    /// is refused, together with everything else that is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<LayoutMount>,
    /// Files given to the task. Read only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploads: Option<LayoutMount>,
    /// Room to work in that nobody collects. Read and write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch: Option<LayoutMount>,
    /// Results of earlier tool calls. Read only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_results: Option<LayoutMount>,
    /// Bundles of instructions and files, one mount each. Read only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<SkillMount>,
    /// Earlier conversations. Read only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcripts: Option<LayoutMount>,
}

/// One mount of a layout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LayoutMount {
    /// Where its data comes from.
    pub source: MountSource,
    /// Absolute path inside; the default of its kind when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_path: Option<String>,
}

/// One skill of a layout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkillMount {
    /// Its name: letters, digits, `_`, `.` and `-`, without `..`.
    pub id: String,
    /// Where its data comes from.
    pub source: MountSource,
    /// Absolute path inside; `/mnt/skills/<id>` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_path: Option<String>,
}

/// Where the data of a mount comes from. A backend refuses a source that it cannot honour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum MountSource {
    /// A directory of the host.
    HostDir {
        /// Absolute path on the host. It must exist.
        #[schemars(length(min = 1))]
        host_path: String,
    },
    /// A share of Azure Files, for places that have no host directory.
    AzureFileShare {
        /// Name of the storage account.
        #[schemars(length(min = 1))]
        storage_account_name: String,
        /// Name of the share.
        #[schemars(length(min = 1))]
        share_name: String,
        /// Key of the account. A secret.
        storage_account_key: ValueSource,
    },
    /// Nothing is mounted: the image brings the directory.
    InImage,
}

impl MountSource {
    /// The wire form of the kind, e.g. `hostDir`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::HostDir { .. } => "hostDir",
            Self::AzureFileShare { .. } => "azureFileShare",
            Self::InImage => "inImage",
        }
    }
}

impl ContainerSandboxLayout {
    /// A layout with nothing but a writable `outputs` from a host directory.
    pub fn with_outputs(host_path: impl Into<String>) -> Self {
        Self {
            outputs: Some(LayoutMount {
                source: MountSource::HostDir {
                    host_path: host_path.into(),
                },
                container_path: None,
            }),
            uploads: None,
            scratch: None,
            tool_results: None,
            skills: Vec::new(),
            transcripts: None,
        }
    }

    /// The mounts that are not skills, with their JSON name, default path and mode; absent ones
    /// are `None`.
    #[must_use]
    pub fn named_mounts(&self) -> [(&'static str, &'static str, Access, Option<&LayoutMount>); 5] {
        use Access::{ReadOnly, ReadWrite};
        [
            (
                "outputs",
                SANDBOX_DEFAULT_OUTPUTS_PATH,
                ReadWrite,
                self.outputs.as_ref(),
            ),
            (
                "scratch",
                SANDBOX_DEFAULT_SCRATCH_PATH,
                ReadWrite,
                self.scratch.as_ref(),
            ),
            (
                "uploads",
                SANDBOX_DEFAULT_UPLOADS_PATH,
                ReadOnly,
                self.uploads.as_ref(),
            ),
            (
                "toolResults",
                SANDBOX_DEFAULT_TOOL_RESULTS_PATH,
                ReadOnly,
                self.tool_results.as_ref(),
            ),
            (
                "transcripts",
                SANDBOX_DEFAULT_TRANSCRIPTS_PATH,
                ReadOnly,
                self.transcripts.as_ref(),
            ),
        ]
    }

    pub(crate) fn visit_sources(&mut self, visit: &mut dyn FnMut(&mut ValueSource)) {
        let Self {
            outputs,
            uploads,
            scratch,
            tool_results,
            skills,
            transcripts,
        } = self;
        let named = [outputs, uploads, scratch, tool_results, transcripts];
        let sources = named.into_iter().flatten().map(|mount| &mut mount.source);
        for source in sources.chain(skills.iter_mut().map(|skill| &mut skill.source)) {
            match source {
                MountSource::AzureFileShare {
                    storage_account_name: _,
                    share_name: _,
                    storage_account_key,
                } => visit(storage_account_key),
                MountSource::HostDir { host_path: _ } | MountSource::InImage => {}
            }
        }
    }
}
