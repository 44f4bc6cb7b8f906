//! What can go wrong here, and which code it has.

use std::io;
use std::path::PathBuf;

use namzu_core::{ErrorCode, Phase};
use namzu_types::SandboxId;

use crate::config::LABEL;

/// The hint of what cannot be explained from here. `doctor` itself leaves it out.
pub(crate) const DOCTOR: &str = "see what this host lacks: `namzu-sandbox doctor`";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the `{0}` engine of the process tier is not written yet")]
    NotWritten(&'static str),
    #[error("this host cannot carry the process tier: {what}")]
    Host { what: String, fix: String },
    #[error("cannot ask bwrap what it can do")]
    Bwrap(#[source] io::Error),
    #[error("{path} is not bubblewrap, or older than 0.6", path = .0.display())]
    OldBwrap(PathBuf),
    #[error("cannot use {path} as workspace: {why}", path = path.display())]
    Workspace {
        path: PathBuf,
        why: &'static str,
        #[source]
        source: Option<io::Error>,
    },
    #[error(
        "cannot use {path} as workspace: {link} is a symlink that a sandbox may have planted",
        path = path.display(),
        link = link.display()
    )]
    WorkspaceLink {
        path: PathBuf,
        link: PathBuf,
        /// Where it leads.
        real: Option<PathBuf>,
    },
    #[error("the workspace was exchanged for another directory while it was mounted")]
    Exchanged,
    #[error("egress `{0}` was asked for without a boundary that holds it")]
    NoBoundary(&'static str),
    #[error("the host's network was asked for with the doors of a boundary")]
    NoWall,
    #[error("cannot start the helper that opens the boundary's doors")]
    StartHelper(#[source] io::Error),
    #[error("this host does not let the boundary into its sandbox's network: {0}")]
    Joining(String),
    #[error("cannot open the boundary's doors: {0}")]
    Doors(String),
    #[error("a disk limit does not hold {path}, which is the host's and writable", path = .0.display())]
    DiskOfHost(PathBuf),
    #[error("this host lets nobody limit {0}")]
    Limit(&'static str),
    #[error("this process may set no limit on {what} above {most}")]
    HardLimit {
        what: &'static str,
        most: String,
        /// The shell's name of the hard limit.
        ulimit: &'static str,
    },
    #[error("a limit of {0} is too small to start anything")]
    TooSmall(&'static str),
    #[error("cannot make the sandbox's cgroup")]
    Cgroup(#[source] io::Error),
    #[error("cannot start bwrap")]
    Start(#[source] io::Error),
    #[error(
        "bwrap did not build the sandbox ({status}): {words}",
        words = if said.is_empty() { "it printed nothing" } else { said }
    )]
    NotBuilt { status: String, said: String },
    #[error("cannot limit the sandbox's processes")]
    Rlimit(#[source] io::Error),
    #[error("cannot keep the state of detached sandboxes in {path}", path = path.display())]
    State {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("a sandbox `{0}` exists already")]
    Exists(SandboxId),
    #[error("no sandbox `{0}` is running")]
    NotFound(SandboxId),
    #[error("sandbox `{0}` was made in another PID namespace")]
    Foreign(SandboxId),
    #[error("cannot take the sandbox down")]
    Destroy(#[source] io::Error),
    #[error("the memory limit ended the sandbox")]
    OutOfMemory,
    #[error("the sandbox lived as long as it may")]
    Lifetime,
    #[error("the sandbox ended ({0})")]
    Lost(String),
    #[error("a sandbox was asked for without an id")]
    NoId,
}

impl Error {
    const fn code(&self) -> ErrorCode {
        match self {
            Self::NotWritten(_) => ErrorCode::BackendNotAvailable,
            Self::Host { .. } | Self::OldBwrap(_) | Self::Joining(_) => ErrorCode::HostUnsupported,
            Self::Workspace { .. } | Self::WorkspaceLink { .. } => ErrorCode::ConfigInvalid,
            Self::TooSmall(_) => ErrorCode::InvalidArgument,
            Self::NoBoundary(_)
            | Self::Limit(_)
            | Self::HardLimit { .. }
            | Self::DiskOfHost(_)
            | Self::Foreign(_) => ErrorCode::Unsupported,
            Self::Exists(_) => ErrorCode::AlreadyExists,
            Self::NotFound(_) => ErrorCode::NotFound,
            Self::OutOfMemory => ErrorCode::OutOfMemory,
            Self::Lifetime => ErrorCode::LifetimeExceeded,
            Self::Lost(_) => ErrorCode::SandboxLost,
            Self::NoId | Self::NoWall => ErrorCode::Internal,
            Self::Bwrap(_)
            | Self::Cgroup(_)
            | Self::Start(_)
            | Self::StartHelper(_)
            | Self::Doors(_)
            | Self::NotBuilt { .. }
            | Self::Rlimit(_)
            | Self::State { .. }
            | Self::Exchanged
            | Self::Destroy(_) => ErrorCode::BackendFailed,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotWritten(_) => "use the engine `auto` or `bubblewrap`".to_owned(),
            Self::Host { fix, .. } => fix.clone(),
            Self::OldBwrap(_) => "install bubblewrap 0.6 or newer".to_owned(),
            Self::Workspace { .. } => {
                "name an existing directory that holds one project".to_owned()
            }
            Self::WorkspaceLink { real, .. } => match real {
                Some(real) => format!(
                    "if that is what you mean, give the real path: {}",
                    real.display()
                ),
                None => "give the real path".to_owned(),
            },
            Self::State { .. } => {
                "set XDG_RUNTIME_DIR to a directory that belongs to you alone".to_owned()
            }
            Self::NoBoundary(_) => {
                "make the sandbox through a provider, which brings the boundary".to_owned()
            }
            Self::Joining(_) => {
                "permit this program to join namespaces of its own making (`setns`): \
                 see the rules of AppArmor, SELinux or the container's system-call filter; or \
                 choose `deny-all`, which needs no boundary"
                    .to_owned()
            }
            Self::Limit(_) => "run as root, or where a cgroup v2 subtree is delegated: \
                 `systemd-run --user --scope -p Delegate=yes COMMAND`"
                .to_owned(),
            Self::HardLimit { most, ulimit, .. } => format!(
                "ask for {most} at most, raise the hard limit (`ulimit -H {ulimit}`), or run where \
                 a cgroup v2 subtree is delegated"
            ),
            Self::DiskOfHost(_) => {
                "drop the disk limit, which a quota of the host can stand in for, or mount the \
                 directory read-only"
                    .to_owned()
            }
            Self::Foreign(_) => {
                "destroy it from the container, or the host, in which it was made".to_owned()
            }
            Self::Start(_) | Self::NotBuilt { .. } => DOCTOR.to_owned(),
            _ => return None,
        })
    }

    pub(crate) fn during(self, phase: Phase) -> namzu_core::Error {
        let mut err = namzu_core::Error::new(self.code(), self.to_string())
            .during(phase)
            .on(LABEL);
        if let Some(hint) = self.hint() {
            err = err.with_hint(hint);
        }
        // Our own message is printed already; what caused it is not.
        match self {
            Self::Bwrap(source)
            | Self::Cgroup(source)
            | Self::Start(source)
            | Self::StartHelper(source)
            | Self::Rlimit(source)
            | Self::Destroy(source)
            | Self::State { source, .. }
            | Self::Workspace {
                source: Some(source),
                ..
            } => err.with_source(source),
            _ => err,
        }
    }
}
