//! The only place that starts host processes.

use std::ffi::OsStr;

use tokio::process::Command;

/// A command with an empty environment that dies with its handle.
#[must_use]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the wrapper everyone else must use"
    )]
    let mut command = Command::new(program);
    command.env_clear().kill_on_drop(true);
    command
}
