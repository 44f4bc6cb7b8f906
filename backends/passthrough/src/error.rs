//! What can go wrong here.

use std::io;
use std::path::PathBuf;

use namzu_core::{ErrorCode, Phase};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot make the private workspace")]
    Workspace(#[source] io::Error),
    #[error("cannot use {path} as workspace: {why}", path = path.display())]
    HostWorkspace { path: PathBuf, why: &'static str },
    #[error("cannot start the worker")]
    Start(#[source] io::Error),
    #[error("the worker ended before it accepted commands ({0})")]
    Ended(String),
    #[error("cannot end the worker")]
    End(#[source] io::Error),
    #[error("cannot remove the private workspace")]
    Remove(#[source] io::Error),
    #[error("the sandbox lived as long as it may")]
    Lifetime,
    #[error("the worker ended ({0})")]
    Lost(String),
}

impl Error {
    pub(crate) fn during(self, phase: Phase) -> namzu_core::Error {
        let code = match self {
            Self::HostWorkspace { .. } => ErrorCode::ConfigInvalid,
            Self::Lifetime => ErrorCode::LifetimeExceeded,
            Self::Lost(_) => ErrorCode::SandboxLost,
            Self::Workspace(_)
            | Self::Start(_)
            | Self::Ended(_)
            | Self::End(_)
            | Self::Remove(_) => ErrorCode::BackendFailed,
        };
        let err = namzu_core::Error::new(code, self.to_string())
            .during(phase)
            .on(crate::config::NAME);
        // Our own message is printed already; what caused it is not.
        match self {
            Self::Workspace(source)
            | Self::Start(source)
            | Self::End(source)
            | Self::Remove(source) => err.with_source(source),
            Self::HostWorkspace { .. } | Self::Ended(_) | Self::Lifetime | Self::Lost(_) => err,
        }
    }
}
