//! What file calls share: the roots, and how a request's path becomes an absolute one.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use http::HeaderMap;
use namzu_protocol::path_text;

use super::fail::{Fail, Kind, Outcome};
use super::jail::Jail;
use super::watch::Watchers;
use crate::auth;
use crate::config::Config;

/// The state of file calls.
#[derive(Debug)]
pub(crate) struct Files {
    pub(super) jail: Arc<Jail>,
    pub(super) watchers: Watchers,
    config: Arc<Config>,
    /// The roots of the v1 wires, which always confine. Opened once: whatever becomes of their
    /// paths later, these directories stay the roots.
    confined: OnceLock<Arc<Jail>>,
    workspace: OnceLock<Arc<Jail>>,
}

impl Files {
    /// Opens the roots.
    ///
    /// # Errors
    /// A root that was given and cannot be opened.
    pub(crate) fn open(config: &Arc<Config>) -> io::Result<Self> {
        let (confined, workspace) = (OnceLock::new(), OnceLock::new());
        if config.roots.is_some() || config.workspace.is_dir() {
            let _ = confined.set(open_confined(config)?);
            let _ = workspace.set(open_workspace(config)?);
        }
        let jail = match (&config.roots, confined.get()) {
            (Some(_), Some(confined)) => Arc::clone(confined),
            _ => Arc::new(Jail::open([], [])?),
        };
        Ok(Self {
            jail,
            watchers: Watchers::default(),
            config: Arc::clone(config),
            confined,
            workspace,
        })
    }

    /// The workspace and the extra roots. The workspace is made where it is missing. May block.
    pub(crate) fn confined(&self) -> Outcome<Arc<Jail>> {
        once(&self.confined, || open_confined(&self.config))
    }

    /// The workspace alone. May block.
    pub(crate) fn workspace(&self) -> Outcome<Arc<Jail>> {
        once(&self.workspace, || open_workspace(&self.config))
    }
}

fn once(
    cell: &OnceLock<Arc<Jail>>,
    open: impl FnOnce() -> io::Result<Arc<Jail>>,
) -> Outcome<Arc<Jail>> {
    if let Some(jail) = cell.get() {
        return Ok(Arc::clone(jail));
    }
    let opened = open().map_err(|error| Fail::new(Kind::Internal, error.to_string()))?;
    Ok(Arc::clone(cell.get_or_init(|| opened)))
}

fn open_confined(config: &Config) -> io::Result<Arc<Jail>> {
    std::fs::create_dir_all(&config.workspace)?;
    let roots = config.roots.clone().unwrap_or_default();
    let writable = std::iter::once(&config.workspace).chain(&roots.write);
    let readable = roots.read.iter().map(AsRef::<Path>::as_ref);
    Jail::open(readable, writable.map(AsRef::as_ref)).map(Arc::new)
}

fn open_workspace(config: &Config) -> io::Result<Arc<Jail>> {
    std::fs::create_dir_all(&config.workspace)?;
    Jail::open([], [config.workspace.as_path()]).map(Arc::new)
}

/// The absolute path that a request means: `~` is the home, what is relative begins at the worker's default directory.
/// Empty and `.` components are dropped; `..` is left to the walk.
pub(crate) fn absolute(config: &Config, text: &[u8]) -> Outcome<Vec<u8>> {
    let path = path_text::decode(text).map_err(|error| Fail::invalid(error.to_string()))?;
    let home = config.user.home.as_os_str().as_bytes();
    let cwd = config.cwd.as_os_str().as_bytes();
    let whole = match path.as_slice() {
        [b'/', ..] => path,
        b"~" => home.to_vec(),
        [b'~', b'/', rest @ ..] => [home, b"/", rest].concat(),
        _ => [cwd, b"/", &path].concat(),
    };
    let parts = whole
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".");
    let mut tidy = Vec::with_capacity(whole.len());
    for part in parts {
        tidy.push(b'/');
        tidy.extend_from_slice(part);
    }
    if tidy.is_empty() {
        tidy.push(b'/');
    }
    Ok(tidy)
}

/// A request may name the user it acts as; only the worker's own is served.
pub(super) fn check_user(config: &Config, named: Option<&str>) -> Outcome<()> {
    match named {
        Some(name) if !name.is_empty() && !config.user.answers_to(name) => Err(Fail::new(
            Kind::Unauthenticated,
            format!("invalid username: '{name}'"),
        )),
        _ => Ok(()),
    }
}

/// The user a request names by `Authorization: Basic`.
pub(super) fn check_headers(config: &Config, headers: &HeaderMap) -> Outcome<()> {
    check_user(config, auth::basic_user(headers).as_deref())
}
