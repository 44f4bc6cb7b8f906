//! Everything this program itself says: data on standard output, the rest on standard error.

use std::error::Error as StdError;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use namzu_sandbox::{Error, ErrorCode, serialize_sandbox_error};
use serde::Serialize;
use serde_json::json;

use crate::escape::Escaped;
use crate::failure::{Failure, local, of_stream};
use crate::hint::hints;

/// Causes shown of one error: a longer chain is a loop or noise.
const MAX_CAUSES: usize = 16;

/// How to speak.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// Machine-readable.
    pub(crate) json: bool,
    /// Standard error takes colour.
    colour: bool,
    /// Standard output is a terminal.
    pub(crate) terminal: bool,
}

impl Output {
    /// Decides from the streams and what the environment says; `var` looks a variable up.
    pub(crate) fn new(json: bool, var: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let plain = var("NO_COLOR").is_some_and(|v| !v.is_empty())
            || var("TERM").is_some_and(|term| term == "dumb");
        Self {
            json,
            colour: !plain && !json && io::stderr().is_terminal(),
            terminal: io::stdout().is_terminal(),
        }
    }

    /// Prints one answer as JSON on standard output.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_string_pretty(value)
            .map_err(|err| local("writing an answer", io::Error::other(err)))?;
        text.push('\n');
        self.data(text.as_bytes())
    }

    /// Prints text of our own on standard output.
    pub(crate) fn text(self, text: impl Display) -> Result<(), Failure> {
        self.data(text.to_string().as_bytes())
    }

    /// Writes bytes to standard output. A reader that went away ends the program quietly, as it
    /// would end `cat`.
    pub(crate) fn data(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Err(err) if err.kind() == io::ErrorKind::BrokenPipe => {
                Err(Failure::Interrupted(SIGPIPE))
            }
            Err(err) => Err(of_stream("writing to standard output", err).into()),
            Ok(()) => Ok(()),
        }
    }

    /// Text of a sandbox for standard output: escaped where it would reach a terminal.
    pub(crate) fn name(self, text: &str) -> String {
        if self.terminal {
            Escaped(text).to_string()
        } else {
            text.to_owned()
        }
    }

    /// Says something on standard error. With nobody to hear it, it is lost.
    pub(crate) fn note(self, text: impl Display) {
        let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
    }

    /// Says what did not fail but should be known.
    pub(crate) fn warn(self, text: impl Display) {
        let label = self.paint("warning", "1;33");
        self.note(format_args!("{label}: {}", Escaped(&text.to_string())));
    }

    /// Reports why the verb failed.
    pub(crate) fn failure(self, failure: &Failure) {
        if self.json {
            self.note(failure_json(failure));
            return;
        }
        match failure {
            // The person who sent it knows.
            Failure::Interrupted(_) => {}
            Failure::Usage(what) => self.error(what, &[], &["see `--help`".to_owned()]),
            Failure::Sandbox(err) => self.error(&err.to_string(), &causes(err), &hints(err)),
        }
    }

    fn error(self, what: &str, causes: &[String], hints: &[String]) {
        let mut text = format!("{}: {}", self.paint("error", "1;31"), Escaped(what));
        for cause in causes {
            text.push_str(&format!("\n  caused by: {}", Escaped(cause)));
        }
        let label = self.paint("hint", "1;36");
        for line in hints.iter().flat_map(|hint| hint.lines()) {
            text.push_str(&format!("\n{label}: {}", Escaped(line)));
        }
        self.note(text);
    }

    /// Colours a label that says the same without.
    fn paint(self, label: &str, sgr: &str) -> String {
        if self.colour {
            format!("\x1b[{sgr}m{label}\x1b[0m")
        } else {
            label.to_owned()
        }
    }
}

/// The number of the signal that a writer into a closed pipe gets.
pub(crate) const SIGPIPE: i32 = 13;

/// The messages along the cause chain, the error's own left out.
fn causes(err: &Error) -> Vec<String> {
    std::iter::successors(StdError::source(err), |cause| (*cause).source())
        .take(MAX_CAUSES)
        .map(ToString::to_string)
        .collect()
}

/// The failure as one JSON object: `{"error": ENVELOPE, "exitCode": N}`.
pub(crate) fn failure_json(failure: &Failure) -> serde_json::Value {
    let error = match failure {
        Failure::Sandbox(err) => json!(serialize_sandbox_error(err)),
        Failure::Usage(what) => json!({ "name": "UsageError", "message": what }),
        Failure::Interrupted(signal) => {
            json!({
                "name": "Interrupted",
                "code": ErrorCode::Cancelled,
                "message": failure.to_string(),
                "signal": signal,
            })
        }
    };
    json!({ "error": error, "exitCode": failure.exit_code() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_of_a_failure_names_the_code_and_the_exit_code() {
        let failure = Failure::Sandbox(
            Error::new(ErrorCode::HostUnsupported, "creating a sandbox")
                .with_source(io::Error::other("no bwrap")),
        );
        let json = failure_json(&failure);
        assert_eq!(json["error"]["code"], "host_unsupported");
        assert_eq!(json["error"]["cause"]["message"], "no bwrap");
        assert_eq!(json["exitCode"], 203);
    }

    #[test]
    fn the_message_of_a_cause_is_not_said_twice() {
        let err = Error::new(ErrorCode::Internal, "outer").with_source(io::Error::other("inner"));
        assert_eq!(causes(&err), ["inner"]);
    }

    #[test]
    fn the_json_of_a_signal_has_a_code_as_every_failure_does() {
        let json = failure_json(&Failure::Interrupted(15));
        assert_eq!(json["error"]["code"], "cancelled");
        assert_eq!(json["error"]["signal"], 15);
        assert_eq!(json["exitCode"], 143);
    }
}
