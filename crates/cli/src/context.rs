//! What every verb needs: how to speak, when to stop, which provider.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use namzu_sandbox::types::{SandboxId, SandboxSpec};
use namzu_sandbox::{
    Error, ErrorCode, Phase, Sandbox, SandboxProvider, SandboxProviderConfig, config,
    create_sandbox_provider, load_config,
};

use crate::args::{BoundaryArgs, Common};
use crate::boundary;
use crate::failure::{Failure, local};
use crate::output::Output;
use crate::settings::{self, Choice, Host};
use crate::signals::Signals;

/// What every verb needs.
#[derive(Debug)]
pub(crate) struct Context {
    /// How to speak.
    pub(crate) out: Output,
    /// When to stop.
    pub(crate) signals: Signals,
    /// Whether standard input is a terminal.
    pub(crate) stdin_is_terminal: bool,
    choice: Choice,
}

/// The current directory. Asked for only by who needs it, as it may be gone.
fn cwd() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|err| local("finding the current directory", err).into())
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|err| local(format!("reading `{}`", path.display()), err).into())
}

/// Looks up a variable of the host.
pub(crate) fn var(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

impl Context {
    /// Reads what is to be known of the host once.
    pub(crate) fn new(common: &Common, out: Output) -> Result<Self, Failure> {
        Ok(Self {
            out,
            signals: Signals::new()?,
            stdin_is_terminal: io::stdin().is_terminal(),
            choice: settings::choice(common)?,
        })
    }

    /// What settings are resolved against.
    pub(crate) const fn host() -> Host<'static> {
        Host {
            cwd: &cwd,
            read: &read,
            var: &var,
        }
    }

    /// The provider for a fresh sandbox.
    pub(crate) fn provider(&self) -> Result<SandboxProvider, Error> {
        match &self.choice {
            Choice::Default => create_sandbox_provider(&SandboxProviderConfig::default()),
            Choice::Backend(config) => create_sandbox_provider(config),
            Choice::File(path) => create_sandbox_provider(&load_config(path)?),
        }
    }

    /// The provider for a fresh sandbox, with the boundary that the flags describe.
    pub(crate) fn provider_with(
        &self,
        args: &BoundaryArgs,
        spec: &SandboxSpec,
    ) -> Result<SandboxProvider, Failure> {
        if spec.egress.is_none() && !self.has_config() {
            // The policy is then the one of those without a boundary that the tier has by default.
            boundary::none(args)?;
        }
        let provider = self.provider()?;
        Ok(match boundary::of(args, &Self::host())? {
            Some(boundary) => provider.with_boundary(boundary),
            None => provider,
        })
    }

    /// Whether a file says how sandboxes are made.
    pub(crate) const fn has_config(&self) -> bool {
        matches!(self.choice, Choice::File(_))
    }

    /// Refuses flags that name a backend, for a verb that has one of its own.
    pub(crate) fn no_backend(&self, verb: &str) -> Result<(), Failure> {
        match self.choice {
            Choice::Default => Ok(()),
            _ => Err(Failure::Usage(format!(
                "`{verb}` has no use for --backend and --config"
            ))),
        }
    }

    /// The providers in which a running sandbox may be found: the one that was named, or else every
    /// one that needs no configuration and works here.
    pub(crate) fn places(&self) -> Result<Vec<SandboxProvider>, Error> {
        if self.choice != Choice::Default {
            return Ok(vec![self.provider()?]);
        }
        let mut places = Vec::new();
        let mut unusable = None;
        for backend in [
            config::BackendConfig::default(),
            config::BackendConfig::Passthrough(config::PassthroughBackendConfig::default()),
        ] {
            match create_sandbox_provider(&SandboxProviderConfig::new(backend)) {
                Ok(provider) => places.push(provider),
                Err(err) => unusable = unusable.or(Some(err)),
            }
        }
        match unusable {
            Some(err) if places.is_empty() => Err(err),
            _ => Ok(places),
        }
    }

    /// Finds a running sandbox.
    pub(crate) async fn connect(&mut self, id: &SandboxId) -> Result<Sandbox, Failure> {
        let places = self.places()?;
        let find = async {
            for provider in places {
                match provider.connect(id).await {
                    // Not here, or nothing can be found here at all.
                    Err(err)
                        if matches!(err.code(), ErrorCode::NotFound | ErrorCode::Unsupported) => {}
                    found => return found,
                }
            }
            Err(no_sandbox(id))
        };
        self.signals.unless(find).await
    }
}

/// No sandbox is called `id`.
pub(crate) fn no_sandbox(id: &SandboxId) -> Error {
    Error::new(
        ErrorCode::NotFound,
        format!("no running sandbox is called `{id}`"),
    )
    .with_hint("`namzu-sandbox ls` lists them; only `run --detach` leaves one running")
    .during(Phase::Connect)
}
