//! The JSON report of one command: what was enforced, how it ended, what it used.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use namzu_sandbox::client::Ended;
use namzu_sandbox::types::ExitStatus;
use namzu_sandbox::{Error, Receipt, Sandbox};
use rustix::fs::{FileType, Mode, OFlags};
use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::{Failure, local};
use crate::host_path::{self, Place};
use crate::output::{Output, failure_json};

/// The report of one command, filled in as it goes.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// The sandbox's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    /// What was enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<Receipt>,
    /// How the command ended: `{"code": N}` or `{"signal": N}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ExitStatus>,
    /// What it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
    /// What went wrong around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    /// The exit code of this program.
    exit_code: u8,
    /// The command left standard error within a line: what is said next starts one of its own.
    #[serde(skip)]
    pub(crate) midline: bool,
}

/// Where a report goes.
pub(crate) enum Destination {
    /// A file that takes its place when it is whole, with a mode.
    File(Place, u32),
    /// A device or pipe of the host's own.
    Device(File),
}

impl Destination {
    fn write(self, text: &[u8]) -> Result<(), Error> {
        let failed = |err| local("writing the report", err);
        match self {
            Self::File(place, mode) => {
                let mut file = place.fresh(mode)?;
                file.file().write_all(text).map_err(failed)?;
                place.settle(file)
            }
            Self::Device(mut file) => file.write_all(text).map_err(failed),
        }
    }
}

/// Finds where the report goes before anything is started, so that a path that cannot be written
/// is known at once.
///
/// Refused are a symlink, a pipe and a device that a sandbox which shares the directory may have
/// put there. Those in `/dev` (`/dev/fd/3`) are the host's own.
pub(crate) fn destination(path: Option<&Path>) -> Result<Option<Destination>, Failure> {
    let Some(path) = path else {
        return Ok(None);
    };
    let failed = |err: io::Error| local(format!("creating the report `{}`", path.display()), err);
    if host_path::is_device(path) {
        // Behind `/dev/fd/3` may be a file that others write to as well: nothing of it is lost.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        return Ok(Some(Destination::Device(file.into())));
    }
    let place = Place::find(path)?;
    let mode = match place.stat()? {
        Some((FileType::RegularFile, mode)) => mode,
        Some((FileType::Directory, _)) => {
            return Err(failed(io::ErrorKind::IsADirectory.into()).into());
        }
        None if host_path::is_typed_as_directory(path) => {
            return Err(failed(io::ErrorKind::IsADirectory.into()).into());
        }
        None => 0o666,
        Some(_) => return Err(host_path::no_file(path).into()),
    };
    // Removed at once: the sandbox may share the directory, and need not see it.
    drop(place.fresh(mode)?);
    Ok(Some(Destination::File(place, mode)))
}

impl Report {
    pub(crate) fn sandbox(&mut self, sandbox: &Sandbox) {
        self.sandbox = Some(sandbox.id().to_string());
        self.receipt = Some(sandbox.receipt());
    }

    pub(crate) fn ended(&mut self, ended: &Ended) {
        let usage = &ended.usage;
        self.status = Some(ended.status);
        self.usage = Some(json!({
            "userMs": millis(usage.user),
            "systemMs": millis(usage.system),
            "durationMs": millis(usage.duration),
            "maxRssBytes": usage.max_rss,
        }));
    }

    /// Writes the report where it is wanted. With `--json` it is the last line on standard error,
    /// and holds the failure too.
    pub(crate) fn publish(
        mut self,
        outcome: Result<u8, Failure>,
        to: Option<Destination>,
        out: Output,
    ) -> Result<u8, Failure> {
        match &outcome {
            Ok(code) => self.exit_code = *code,
            Err(failure) => {
                self.exit_code = failure.exit_code();
                self.error = failure_json(failure).get("error").cloned();
            }
        }
        let text = serde_json::to_string(&self)
            .map_err(|err| local("writing the report", io::Error::other(err)))?;
        if let Some(to) = to {
            to.write(format!("{text}\n").as_bytes())?;
        }
        if self.midline && (out.json || outcome.is_err()) {
            out.note("");
        }
        if out.json {
            out.note(text);
            // Said already, in the report.
            return Ok(self.exit_code);
        }
        outcome
    }
}

fn millis(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
