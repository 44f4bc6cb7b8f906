//! Programs of the host, with its files and without its network.

use std::path::Path;

use namzu_client::SandboxProvider;
use namzu_core::Result;

/// Makes jails that confine the network of a command and nothing else. The command has this host's
/// files, this process' user and environment, `directory` to start in, and as its network what the
/// egress policy of its specification lets out: by default nothing.
///
/// A jail is for a program of one's own that is to reach only what it should. **It is no wall to
/// one that wants out**: whatever such a program writes into the host's files, a process outside may
/// read or run later. Sockets with a path are refused, because services behind them (Docker, D-Bus)
/// do what they are asked; `unix_sockets` lets them be used, and the receipt then calls the network
/// `best_effort`.
///
/// A jail is made, used and destroyed as a sandbox is; limits hold as they do there. It has no
/// workspace, no file system of its own, and does not outlive its maker.
///
/// # Errors
///
/// Those of a provider of the process tier; `backend_not_available` where that is not part of this build;
/// `invalid_argument` for a directory that is not absolute or not UTF-8.
pub fn network_jail(directory: &Path, unix_sockets: bool) -> Result<SandboxProvider> {
    #[cfg(all(feature = "backend-process", target_os = "linux"))]
    {
        use std::sync::Arc;

        use namzu_backend_process::{NetworkJail, ProcessBackend, own_environment};
        use namzu_core::{Error, ErrorCode, Phase};
        use namzu_types::SandboxSpec;

        let text = directory.to_str().filter(|_| directory.is_absolute());
        let directory = text.ok_or_else(|| {
            Error::new(
                ErrorCode::InvalidArgument,
                format!("cannot start in `{}`", directory.display()),
            )
            .with_hint("an absolute path in UTF-8 is needed")
            .during(Phase::Configure)
        })?;
        let backend = ProcessBackend::network_jail(NetworkJail {
            directory: directory.to_owned(),
            env: own_environment(),
            unix_sockets,
        })?;
        Ok(SandboxProvider::new(
            Arc::new(backend),
            SandboxSpec::default(),
        ))
    }
    #[cfg(not(all(feature = "backend-process", target_os = "linux")))]
    {
        use namzu_core::{Error, ErrorCode};

        let _ = (directory, unix_sockets);
        Err(Error::new(
            ErrorCode::BackendNotAvailable,
            "a jail for the network needs the process tier, which was left out of this build",
        ))
    }
}
