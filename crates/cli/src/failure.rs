//! Why a verb did not do what it was asked, and the exit code of that.

use std::fmt;
use std::io;

use namzu_sandbox::{Error, ErrorCode};

use crate::exit;

/// Why a verb failed.
#[derive(Debug)]
pub enum Failure {
    /// The sandbox, or this program's own input and output.
    Sandbox(Error),
    /// The command line parses and makes no sense.
    Usage(String),
    /// A signal asked to stop; everything was cleaned up.
    Interrupted(i32),
}

impl Failure {
    /// The exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Sandbox(err) => exit::exit_code(err.code()),
            Self::Usage(_) => exit::USAGE,
            Self::Interrupted(signal) => exit::of_signal(*signal),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sandbox(err) => err.fmt(f),
            Self::Usage(what) => f.write_str(what),
            Self::Interrupted(signal) => write!(f, "interrupted by signal {signal}"),
        }
    }
}

impl From<Error> for Failure {
    fn from(err: Error) -> Self {
        Self::Sandbox(err)
    }
}

/// A failure of the host's own input and output; `what` says what was attempted.
pub(crate) fn local(what: impl Into<String>, source: impl Into<io::Error>) -> Error {
    let source = source.into();
    let code = match source.kind() {
        io::ErrorKind::NotFound => ErrorCode::NotFound,
        io::ErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
        io::ErrorKind::AlreadyExists => ErrorCode::AlreadyExists,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorCode::DiskFull,
        io::ErrorKind::InvalidInput
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::NotADirectory => ErrorCode::InvalidArgument,
        _ => ErrorCode::Internal,
    };
    Error::new(code, what).with_source(source)
}

/// A failure of the host's own standard streams: of no file that was named, so of no kind but
/// `internal`, a full disk behind one included.
pub(crate) fn of_stream(what: impl Into<String>, source: io::Error) -> Error {
    Error::new(ErrorCode::Internal, what).with_source(source)
}

/// A failure of reading from a sandbox: the library's own error where one is inside.
pub(crate) fn remote(what: &str, err: io::Error) -> Error {
    match err.downcast::<Error>() {
        Ok(err) => err,
        Err(err) => local(what, err),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_error_comes_back_out_of_an_io_error() {
        let inner = Error::new(ErrorCode::SandboxLost, "gone");
        let err = remote("reading", io::Error::other(inner));
        assert_eq!(err.code(), ErrorCode::SandboxLost);
        let err = remote("reading", io::ErrorKind::UnexpectedEof.into());
        assert_eq!(err.code(), ErrorCode::Internal);
    }

    #[test]
    fn what_the_host_says_has_a_class() {
        for (kind, exit) in [
            (io::ErrorKind::NotFound, 205),
            (io::ErrorKind::PermissionDenied, 207),
            (io::ErrorKind::StorageFull, 216),
            (io::ErrorKind::Other, 200),
        ] {
            assert_eq!(Failure::from(local("x", kind)).exit_code(), exit);
        }
    }
}
