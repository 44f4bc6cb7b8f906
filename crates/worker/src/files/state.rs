//! What file calls share: the roots, and how a request's path becomes an absolute one.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

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
}

impl Files {
    /// Opens the roots.
    ///
    /// # Errors
    /// A root that was given and cannot be opened.
    pub(crate) fn open(config: &Config) -> io::Result<Self> {
        let jail = match &config.roots {
            None => Jail::open([], [])?,
            Some(_) => confined(config)?,
        };
        Ok(Self {
            jail: Arc::new(jail),
            watchers: Watchers::default(),
        })
    }
}

/// The workspace, made where it is missing, and the extra roots.
pub(crate) fn confined(config: &Config) -> io::Result<Jail> {
    std::fs::create_dir_all(&config.workspace)?;
    let roots = config.roots.clone().unwrap_or_default();
    let writable = std::iter::once(&config.workspace).chain(&roots.write);
    Jail::open(
        roots.read.iter().map(AsRef::<Path>::as_ref),
        writable.map(AsRef::as_ref),
    )
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
