//! The one table from outcomes to exit codes.

use namzu_sandbox::ErrorCode;
use namzu_sandbox::types::ExitStatus;

/// Exit code of a command line that does not parse or resolve.
pub const USAGE: u8 = 2;

/// First of the exit codes that stand for failures of the sandbox.
pub const FIRST: u8 = 200;

/// Last of the exit codes that stand for failures of the sandbox.
pub const LAST: u8 = 219;

/// The exit code of a failure: [`FIRST`] to [`LAST`], or that of an interrupted command for
/// `cancelled`.
///
/// A command's own exit codes seldom lie there; `--json` and `--report` tell them apart always.
#[must_use]
pub const fn exit_code(code: ErrorCode) -> u8 {
    match code {
        ErrorCode::ConfigInvalid | ErrorCode::LayoutInvalid | ErrorCode::InvalidArgument => 201,
        ErrorCode::BackendNotAvailable => 202,
        ErrorCode::HostUnsupported => 203,
        ErrorCode::Unsupported => 204,
        ErrorCode::NotFound | ErrorCode::CursorExpired => 205,
        ErrorCode::AlreadyExists => 206,
        ErrorCode::PathRefused | ErrorCode::PermissionDenied => 207,
        ErrorCode::Unauthenticated => 208,
        ErrorCode::CommandNotStarted => 209,
        ErrorCode::ConnectTimeout => 210,
        ErrorCode::CreateTimeout => 211,
        ErrorCode::ExecTimeout => 212,
        ErrorCode::RequestTimeout => 213,
        ErrorCode::LifetimeExceeded => 214,
        ErrorCode::OutOfMemory => 215,
        ErrorCode::DiskFull => 216,
        ErrorCode::SandboxLost => 217,
        ErrorCode::BackendFailed => 218,
        ErrorCode::ProtocolViolation => 219,
        ErrorCode::Cancelled => 130,
        // `ErrorCode` is non-exhaustive; `every_code_has_a_class_of_its_own_kind` guards this arm.
        _ => FIRST,
    }
}

/// The exit code of a command that ended: its own, or 128 + the number of the signal.
#[must_use]
pub fn of_status(status: ExitStatus) -> u8 {
    // What the kernel keeps of an exit code. A worker that claims more is not believed: a
    // failure must never look like success.
    u8::try_from(status.shell_code()).unwrap_or(u8::MAX)
}

/// The exit code after `signal` ended this program's own work.
#[must_use]
pub fn of_signal(signal: i32) -> u8 {
    of_status(ExitStatus::Signal(signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_class_of_its_own_kind() {
        for code in ErrorCode::ALL {
            let exit = exit_code(*code);
            match code {
                ErrorCode::Cancelled => assert_eq!(exit, 130),
                ErrorCode::Internal => assert_eq!(exit, FIRST),
                _ => assert!(exit > FIRST && exit <= LAST, "{code} has no class: {exit}"),
            }
        }
    }

    #[test]
    fn the_documented_table_is_the_code() {
        let docs = include_str!("../../../docs/cli.md");
        for code in ErrorCode::ALL {
            let (exit, name) = (exit_code(*code), format!("`{code}`"));
            let row = docs
                .lines()
                .find(|line| line.starts_with(&format!("| {exit} |")) && line.contains(&name));
            assert!(row.is_some(), "docs/cli.md has no row for {exit} {name}");
        }
    }

    #[test]
    fn a_command_keeps_its_code_and_a_signal_adds_128() {
        assert_eq!(of_status(ExitStatus::Code(0)), 0);
        assert_eq!(of_status(ExitStatus::Code(255)), 255);
        assert_eq!(of_status(ExitStatus::Signal(9)), 137);
        assert_eq!(of_signal(2), 130);
    }

    #[test]
    fn a_code_that_no_process_can_have_is_never_success() {
        for code in [256, -1, 512, i32::MIN] {
            assert_ne!(of_status(ExitStatus::Code(code)), 0, "{code}");
        }
        assert_ne!(of_status(ExitStatus::Signal(i32::MAX)), 0);
    }
}
