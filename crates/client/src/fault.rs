//! What the worker answers when it refuses, as errors of ours.

use namzu_core::{Error, ErrorCode, Phase};
use namzu_protocol::connect::Code;

use crate::conn::Failure;

/// Characters of the worker's words that are passed on.
const WORDS: usize = 512;

/// Codes the worker may give by name, as a prefix of its words: what its wire has no code for.
const NAMED: [ErrorCode; 4] = [
    ErrorCode::PathRefused,
    ErrorCode::CommandNotStarted,
    ErrorCode::DiskFull,
    ErrorCode::OutOfMemory,
];

/// The worker's words, fit for a terminal: short, one line, no control characters.
pub(crate) fn words(text: &str) -> String {
    text.chars()
        .take(WORDS)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// An error for a code of the wire. `what` says what was attempted.
pub(crate) fn refused(phase: Phase, what: &str, code: Code, message: &str) -> Error {
    refused_with(phase, what, translate(phase, code), message)
}

/// As [`refused`], with what its code means here.
fn refused_with(phase: Phase, what: &str, code: ErrorCode, message: &str) -> Error {
    let named = NAMED.into_iter().find_map(|named| {
        let rest = message.strip_prefix(named.as_str())?.strip_prefix(": ")?;
        Some((named, rest))
    });
    let (code, message) = named.unwrap_or((code, message));
    let message = words(message);
    let text = if message.is_empty() {
        format!("{what}: the worker refused")
    } else {
        format!("{what}: {message}")
    };
    Error::new(code, text).during(phase)
}

fn translate(phase: Phase, code: Code) -> ErrorCode {
    match code {
        Code::InvalidArgument | Code::FailedPrecondition => ErrorCode::InvalidArgument,
        Code::NotFound => ErrorCode::NotFound,
        Code::AlreadyExists => ErrorCode::AlreadyExists,
        Code::PermissionDenied => ErrorCode::PermissionDenied,
        Code::Unauthenticated => ErrorCode::Unauthenticated,
        Code::OutOfRange if phase == Phase::Exec => ErrorCode::CursorExpired,
        Code::OutOfRange => ErrorCode::InvalidArgument,
        Code::DeadlineExceeded if phase == Phase::Exec => ErrorCode::ExecTimeout,
        Code::DeadlineExceeded => ErrorCode::RequestTimeout,
        Code::Unimplemented => ErrorCode::Unsupported,
        Code::Unavailable => ErrorCode::SandboxLost,
        Code::Canceled
        | Code::Unknown
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Internal
        | Code::DataLoss => ErrorCode::BackendFailed,
    }
}

/// An error for a status of an HTTP call that is no RPC.
pub(crate) fn refused_http(phase: Phase, what: &str, status: u16, message: &str) -> Error {
    let code = match status {
        400 | 405 | 406 | 411 | 413..=417 | 422 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::NotFound,
        409 => Code::AlreadyExists,
        501 => Code::Unimplemented,
        507 => return refused_with(phase, what, ErrorCode::DiskFull, message),
        // Whatever answers in its place; a gateway finds nobody.
        502 if phase == Phase::Tunnel => Code::NotFound,
        502..=504 => Code::Unavailable,
        _ => Code::Internal,
    };
    refused(phase, what, code, message)
}

/// The worker broke the protocol.
pub(crate) fn violation(
    what: &str,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::new(
        ErrorCode::ProtocolViolation,
        format!("{what}: the worker broke the protocol"),
    )
    .with_source(cause)
}

/// An error for a failure of the connection, when nothing is known about the sandbox's end.
pub(crate) fn failed(what: &str, failure: Failure) -> Error {
    let (code, text) = match &failure {
        Failure::Connect(_) => (ErrorCode::SandboxLost, "no connection to the worker"),
        Failure::Lost(_) => (ErrorCode::SandboxLost, "the sandbox ended"),
        Failure::Unsupported(_) => (ErrorCode::Unsupported, "this worker cannot do it"),
        Failure::Violation(_) => (
            ErrorCode::ProtocolViolation,
            "the worker broke the protocol",
        ),
        Failure::Source(_) => (ErrorCode::Internal, "the stream to send could not be read"),
    };
    Error::new(code, format!("{what}: {text}")).with_source(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_worker_cannot_drive_a_terminal() {
        assert_eq!(words("a\x1b[2Jb\r\nc"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c");
        assert_eq!(words(&"x".repeat(WORDS * 2)).len(), WORDS);
    }

    #[test]
    fn a_full_disk_is_told_from_a_worker_at_a_cap_of_its_own() {
        let rpc = |message| refused(Phase::Files, "x", Code::ResourceExhausted, message).code();
        assert_eq!(rpc("disk_full: move '/a': no space"), ErrorCode::DiskFull);
        assert_eq!(rpc("events were lost"), ErrorCode::BackendFailed);
        let http = |status| refused_http(Phase::Files, "x", status, "no space").code();
        assert_eq!(http(507), ErrorCode::DiskFull);
        assert_eq!(http(429), ErrorCode::BackendFailed);
    }

    #[test]
    fn a_named_code_is_taken_only_from_the_list() {
        let named = |message| refused(Phase::Files, "read", Code::PermissionDenied, message).code();
        assert_eq!(named("path_refused: '/etc' leaves"), ErrorCode::PathRefused);
        assert_eq!(named("sandbox_lost: no"), ErrorCode::PermissionDenied);
        assert_eq!(named("path_refused"), ErrorCode::PermissionDenied);
    }
}
